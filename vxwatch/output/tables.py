"""What the reading verbs print: tables for people, JSON for programs. Standard output only.

The one module that loads rich; `vx run` and `vx watch` do without.
"""

import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from vxwatch.output.diagnostics import to_descriptor, unwritable
from vxwatch.output.text import printable

UNBOUNDED = 10_000
"""Columns where no terminal sets the width: a program that reads lines wants them whole."""


def write_json(value: object) -> None:
    """One JSON document; it always parses, whatever bytes a name holds."""
    _write(json.dumps(value, indent=2, ensure_ascii=True) + "\n")


def columns(rows: Iterable[Sequence[str]]) -> None:
    """Rows in columns as wide as their widest cell; the first column names the row."""
    _print(_grid([[Text(printable(row[0]), "bold"), *_texts(row[1:])] for row in rows]))


def fields(values: Mapping[str, object]) -> None:
    """A name and its value on each line; what is empty is left out, what is nested is joined by dots."""
    rows = [[Text(name, "bold"), Text(printable(value))] for name, value in _flat(values)]
    _print(_grid(rows))


def line(text: str) -> None:
    """One line."""
    _print(Text(printable(text)))


def verbatim(text: str) -> None:
    """Text for a program, in lines that no width breaks."""
    _write(text)


def lines(texts: Iterable[str]) -> None:
    """Some lines."""
    _print(Text("\n".join(map(printable, texts))))


def _flat(values: Mapping[str, object], prefix: str = "") -> Iterable[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list | tuple):
            if value:
                yield prefix + name, ", ".join(map(_one, value))
        elif value not in (None, ""):
            yield prefix + name, _one(value)


def _one(value: object) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}={inner}" for name, inner in value.items())
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _texts(cells: Sequence[str]) -> list[Text]:
    return [Text(printable(cell)) for cell in cells]


def _grid(rows: Iterable[Sequence[Text]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*row)
    return table


def _print(content: Table | Text) -> None:
    page = io.StringIO()
    terminal = sys.stdout.isatty() or None
    width = None if terminal else UNBOUNDED
    console = Console(
        file=page, force_terminal=terminal, width=width, highlight=False, markup=False
    )
    console.print(content, crop=False)
    # Cells are padded to their column, which shows as nothing but stays in what is copied.
    _write("".join(line.rstrip() + "\n" for line in page.getvalue().splitlines()))


def _write(text: str) -> None:
    try:
        to_descriptor(1, text.encode(sys.stdout.encoding, errors="backslashreplace"))
    except BrokenPipeError:  # a reader that has seen enough
        return
    except OSError as error:
        raise unwritable(error) from error
