"""Configs that are programs: evaluated in a process of their own, and remembered by content.

A program is evaluated again only when something moved that it looked at: its own text, a module
or file that it read, a directory that it listed, a variable that it asked for, or the Python that
runs it. Nothing of it is ever imported into vx.
"""

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import xxhash

from vxwatch.config.faults import At
from vxwatch.config.load import Document, content_of
from vxwatch.errors import Problem
from vxwatch.process.command import capture
from vxwatch.workspace.home import replace

PLACE = ".vx/cache/programs"
"""Where the values are remembered, below the root of the workspace."""

SECONDS = 10.0
"""How long a program may take."""

_MAIN = os.path.join(os.path.dirname(__file__), "program_main.py")
_FORMAT = "programs 1"
_SLACK = 20_000_000
"""Nanoseconds by which a file system's clock may be behind ours."""
_PATIENCE = 2.0


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The value of one program, and what it depends on.

    `looked` maps paths, relative to the root, to digests; `names` does it with the variables that
    were asked for. None stands for what is not there. `lines` says on which lines of the program
    parts of the value stand.
    """

    value: Any
    lines: Mapping[At, int]
    looked: Mapping[str, str | None]
    names: Mapping[str, str | None]

    def document(self, file: str) -> Document:
        """The value, as if it had been read from that file."""
        return Document(file, json.dumps(self.value), self.value, lines=self.lines)

    def is_of_these_files(self, root: str) -> bool:
        """Whether everything that was looked at is as it was."""
        return all(digest == fingerprint(root, path) for path, digest in self.looked.items())


class Programs:
    """The programs of one workspace, in one loading of it. Must be closed.

    `evaluated` has the values by file. `looked` and `names` are what any of them looked at and
    asked for, `problems` what is wrong with those that have no value. `settled`: each value is
    surely of the files that its digests are of.
    """

    def __init__(self, root: str, environ: Mapping[str, str]) -> None:
        self.evaluated: dict[str, Evaluated] = {}
        self.looked: set[str] = set()
        self.names: set[str] = set()
        self.problems: list[Problem] = []
        self.settled = True
        self._root = root
        self._environ = environ
        self._remembered = _load(root)
        self._moved = False

    def document(self, file: str) -> Document | None:
        """What a program, relative to the root, evaluates to; None if that is a problem."""
        found = self._remembered.get(file)
        if found is None or not self._stands(found):
            found = self._evaluate(file)
        if found is None:
            return None
        self.evaluated[file] = found
        self._note(found.looked, found.names)
        return found.document(file)

    def end(self) -> None:
        """All programs that there are were asked for."""

    def close(self) -> None:
        """Write down what was evaluated, for later runs."""
        if self._moved:
            known = {f: one for f, one in self._remembered.items() if _exists(self._root, f)}
            # It spares time and nothing else.
            with contextlib.suppress(OSError):
                replace(f"{self._root}/{PLACE}", _content(known))

    def _stands(self, found: Evaluated) -> bool:
        same = found.names == _asked(found.names, self._environ)
        return same and found.is_of_these_files(self._root)

    def _note(self, looked: Iterable[str], names: Iterable[str]) -> None:
        self.looked.update(looked)
        self.names.update(names)

    def _evaluate(self, file: str) -> Evaluated | None:
        since = time.time_ns()
        answer = self._ask(file)
        if answer is None:
            return None
        looked = [_relative(self._root, path) for path in answer["paths"]]
        if "fault" in answer:
            self._note(looked, answer["names"])
            path, line, field, message = answer["fault"]
            self.problems.append(Problem(_relative(self._root, path), line, field, message))
            return None
        found = Evaluated(
            value=answer["config"],
            lines={tuple(at): line for at, line in reversed(answer["lines"])},
            looked={path: fingerprint(self._root, path) for path in looked},
            names=_asked(answer["names"], self._environ),
        )
        # What was saved just now may not be what was evaluated.
        if all(_older(os.path.join(self._root, path), since) for path in looked):
            self._remembered[file] = found
            self._moved = True
        else:
            self.settled = False
        return found

    def _ask(self, file: str) -> Any:
        """The answer of the process that evaluates; None if it gives none, which is a problem."""
        program = f"{self._root}/{file}"
        flags = ("-s", "-S", "-P", "-B", "-X", "utf8")
        words = (_MAIN, self._root, program, f"{SECONDS:g}")
        variables = {n: v for n, v in self._environ.items() if not n.startswith("PYTHON")}
        done = capture(
            (sys.executable, *flags, *words),
            cwd=os.path.dirname(program),
            env={**variables, "PYTHONHASHSEED": "0"},
            limit=SECONDS + _PATIENCE,
            shown=True,
        )
        try:
            return json.loads(done.out)
        except ValueError:
            self._note([file], ())
            reason = done.err.decode(errors="replace").strip() or f"exit code {done.code}"
            message = f"ended before it had a value ({reason})"
            self.problems.append(Problem(file, 0, "", message))
            return None


def fingerprint(root: str, path: str) -> str | None:
    """What is at a path: the content of a file, the names in a directory; None if nothing is."""
    full = os.path.join(root, path)
    try:
        if os.path.isdir(full):
            names = "\0".join(sorted(os.listdir(full)))
            return xxhash.xxh3_128_hexdigest(os.fsencode(f"directory\0{names}"))
        return xxhash.xxh3_128_hexdigest(content_of(full))
    except OSError:
        return None


def _asked(names: Iterable[str], environ: Mapping[str, str]) -> dict[str, str | None]:
    """The values of variables, as digests."""
    return {name: _digest(environ[name]) if name in environ else None for name in sorted(names)}


def _digest(text: str) -> str:
    return xxhash.xxh3_128_hexdigest(os.fsencode(text))


def _relative(root: str, path: str) -> str:
    if path == root:
        return ""
    return path.removeprefix(f"{root}/")


def _exists(root: str, file: str) -> bool:
    return os.path.lexists(f"{root}/{file}")


def _older(path: str, since: int) -> bool:
    try:
        return os.stat(path).st_ctime_ns < since - _SLACK
    except OSError:
        return True


def _load(root: str) -> dict[str, Evaluated]:
    """What is remembered; nothing where it is missing, damaged, or of another Python or vx."""
    try:
        with open(f"{root}/{PLACE}", "rb") as file:
            head, _, body = file.read().partition(b"\n")
    except OSError:
        return {}
    if head != _head(body):
        return {}
    return {
        file: Evaluated(value, {tuple(at): line for at, line in lines}, looked, names)
        for file, (value, lines, looked, names) in json.loads(body).items()
    }


def _content(known: Mapping[str, Evaluated]) -> bytes:
    body = json.dumps(
        {
            file: (one.value, [*one.lines.items()], one.looked, one.names)
            for file, one in known.items()
        }
    ).encode()
    return _head(body) + b"\n" + body


def _head(body: bytes) -> bytes:
    """The version of all that has a say in a value, and a hash of the rest."""
    evaluator = xxhash.xxh3_128_hexdigest(content_of(_MAIN))
    versions = json.dumps([_FORMAT, sys.version, sys.executable, evaluator])
    return f"{versions} {xxhash.xxh3_128_hexdigest(body)}".encode()
