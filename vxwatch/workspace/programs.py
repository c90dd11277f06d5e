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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import xxhash

from vxwatch.config.faults import At
from vxwatch.config.load import Document, content_of
from vxwatch.errors import Problem
from vxwatch.workspace.evaluating import MAIN, evaluate
from vxwatch.workspace.home import replace

PLACE = ".vx/cache/programs"
"""Where the values are remembered, below the root of the workspace."""

_FORMAT = "programs 1"
_SLACK = 20_000_000
"""Nanoseconds by which a file system's clock may be behind ours."""


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

    def is_of(self, files: "Files") -> bool:
        """Whether everything that was looked at is as it was."""
        return all(digest == files.digest(path) for path, digest in self.looked.items())


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
        self.files = Files(root)
        self._remembered = _load(root)
        self._moved = False
        self._asked_for: set[str] = set()

    def prepare(self, files: Iterable[str]) -> None:
        """Evaluate those of the programs, relative to the root, whose value is not known."""
        stale = []
        for file in files:
            found = self._remembered.get(file)
            if found is not None and self._stands(found):
                self._take(file, found)
            else:
                stale.append(file)
        if stale:
            self._evaluate(stale)

    def document(self, file: str) -> Document | None:
        """What a program, relative to the root, evaluates to; None if that is a problem."""
        if file not in self._asked_for:
            self.prepare([file])
        found = self.evaluated.get(file)
        return found.document(file) if found else None

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
        return same and found.is_of(self.files)

    def _note(self, looked: Iterable[str], names: Iterable[str]) -> None:
        self.looked.update(looked)
        self.names.update(names)

    def _take(self, file: str, found: Evaluated) -> None:
        self._asked_for.add(file)
        self.evaluated[file] = found
        self._note(found.looked, found.names)

    def _evaluate(self, stale: Sequence[str]) -> None:
        since = time.time_ns()
        self.files = Files(self._root)
        readable = [file for file in stale if self._is_readable(file)]
        done = evaluate(self._root, readable, self._environ)
        for file in readable:
            answer = done.answers.get(file)
            if answer is None:
                self._fail(file, f"ended before it had a value{done.reason}")
            elif "fault" in answer:
                self._refuse(file, answer)
            else:
                self._keep(file, answer, since)

    def _is_readable(self, file: str) -> bool:
        try:
            content_of(f"{self._root}/{file}")
        except OSError as error:
            self._fail(file, f"cannot be read: {error.strerror}")
            return False
        return True

    def _refuse(self, file: str, answer: Mapping[str, Any]) -> None:
        self._asked_for.add(file)
        self._note((_relative(self._root, path) for path in answer["paths"]), answer["names"])
        path, line, field, message = answer["fault"]
        self.problems.append(Problem(_relative(self._root, path), line, field, message))

    def _keep(self, file: str, answer: Mapping[str, Any], since: int) -> None:
        looked = [_relative(self._root, path) for path in answer["paths"]]
        found = Evaluated(
            value=answer["config"],
            lines={tuple(at): line for at, line in reversed(answer["lines"])},
            looked={path: self.files.digest(path) for path in looked},
            names=_asked(answer["names"], self._environ),
        )
        self._take(file, found)
        # What was saved just now may not be what was evaluated.
        if all(_older(os.path.join(self._root, path), since) for path in looked):
            self._remembered[file] = found
            self._moved = True
        else:
            self.settled = False

    def _fail(self, file: str, message: str) -> None:
        self._asked_for.add(file)
        self._note([file], ())
        self.problems.append(Problem(file, 0, "", message))


class Files:
    """What lies below a root, each path looked at once."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[str, str | None] = {}

    def digest(self, path: str) -> str | None:
        """The content of a file, the names in a directory; None if nothing is there."""
        if path not in self._known:
            self._known[path] = _fingerprint(os.path.join(self._root, path))
        return self._known[path]


def _fingerprint(full: str) -> str | None:
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
    evaluator = xxhash.xxh3_128_hexdigest(content_of(MAIN))
    versions = json.dumps([_FORMAT, sys.version, sys.executable, evaluator])
    return f"{versions} {xxhash.xxh3_128_hexdigest(body)}".encode()
