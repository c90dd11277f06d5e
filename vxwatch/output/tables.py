"""What the reading verbs print: tables for people, JSON for programs. Standard output only."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence

from vxwatch.output.text import printable


def write_json(value: object) -> None:
    """One JSON document; it always parses, whatever bytes a name holds."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=True)
    sys.stdout.write("\n")


def columns(rows: Iterable[Sequence[str]]) -> None:
    """Rows in columns as wide as their widest cell; the last column as it is."""
    table = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*(row[:-1] for row in table), strict=True)]
    for row in table:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        sys.stdout.write("  ".join((*cells, row[-1])).rstrip() + "\n")


def fields(values: Mapping[str, object], indent: str = "") -> None:
    """`name = value` lines, nested by indentation; what is empty is left out."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            if value:
                sys.stdout.write(f"{indent}{name}:\n")
                fields(value, indent + "  ")
        elif value not in (None, "", [], ()):
            shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            sys.stdout.write(f"{indent}{name}: {printable(shown)}\n")


def line(text: str) -> None:
    """One line."""
    sys.stdout.write(printable(text) + "\n")
