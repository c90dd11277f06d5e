"""Reads TOML config files and turns their faults into problems with file and line.

Promises that every fault of a file is reported, with its line where TOML has one, and that a
file that cannot be read or parsed is a problem, never an exception and never an empty config.
"""

import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

from vxwatch.config.faults import At, Faults
from vxwatch.errors import Problem

T = TypeVar("T")

_PLACE = r" \(at (?:line (\d+), column \d+|end of document)\)$"


class Document(NamedTuple):
    """A parsed file. `at` is where in it the config stands: `("tool", "vx")` in a manifest.

    `lines` says where things stand in what is no TOML; equal texts mean equal values all the same.
    """

    file: str
    text: str
    raw: Any
    at: At = ()
    lines: Mapping[At, int] | None = None

    def value(self, at: At = ()) -> Any:
        """What stands at a place of the config, which must exist."""
        found: Any = self.raw
        for step in (*self.at, *at):
            found = found[step]
        return found

    def places(self) -> Callable[[At], int]:
        """What tells the line of a place, or of the nearest thing around it that has one; else 0."""
        if self.lines is not None:
            return partial(_line, self.lines)
        from vxwatch.config.lines import Lines  # noqa: PLC0415 - only faults have lines

        return Lines(self.text).of


class Reader:
    """Reads the files of one workspace, and collects what is wrong with them.

    `files` lists all that exist and were read, relative to the root, in order; `dangling` those
    that are links to nothing, which count as missing. Equal texts are
    parsed once: packages of one workspace often share their config word for word.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.files: list[str] = []
        self.dangling: list[str] = []
        self.problems: list[Problem] = []
        self._parsed: dict[str, dict[str, Any]] = {}
        self._sound: dict[tuple[str, object], Any] = {}

    def text(self, file: str) -> str | None:
        """The content of a file, or None if it is not there or cannot be read."""
        try:
            content = content_of(f"{self.root}/{file}")
        except (FileNotFoundError, NotADirectoryError):
            if os.path.islink(f"{self.root}/{file}"):
                self.dangling.append(file)
            return None
        except OSError as error:
            self.files.append(file)
            self.problem(file, 0, f"cannot be read: {error.strerror}")
            return None
        self.files.append(file)
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            self.problem(file, content[: error.start].count(b"\n") + 1, "is not UTF-8")
            return None

    def toml(self, file: str, at: At = ()) -> Document | None:
        """A TOML file with its config at a place in it; None if it is not there or broken."""
        text = self.text(file)
        if text is None:
            return None
        raw = self._parsed.get(text)
        if raw is None:
            import tomllib  # noqa: PLC0415 - a run whose configs are known reads none

            try:
                raw = self._parsed[text] = tomllib.loads(text)
            except (ValueError, RecursionError) as error:
                self.problem(file, *_syntax(error, text))
                return None
        return Document(file, text, raw, at)

    def looked_at(self, files: Iterable[str]) -> None:
        """Note files that have a say in the config, also those that are not there but would."""
        self.files[:] = dict.fromkeys((*self.files, *files))

    def problem(self, file: str, line: int, message: str, hint: str = "") -> None:
        """Note that something is wrong with a file as a whole."""
        self.problems.append(Problem(file, line, "", message, hint))

    def checked(self, document: Document, check: Callable[[Any, Faults], T]) -> T:
        """What `check` makes of the config in a document; its faults become problems.

        Equal texts without a fault are checked once; the result must not be changed.
        """
        key = (document.text, check)
        if key not in self._sound:
            faults = Faults()
            result = check(document.value(), faults)
            self.note(document, faults)
            if faults.found:
                return result
            self._sound[key] = result
        sound: T = self._sound[key]
        return sound

    def note(self, document: Document, faults: Faults) -> None:
        """Turn faults of the config in a document into problems with lines."""
        if not faults.found:
            return
        from vxwatch.config.lines import dotted  # noqa: PLC0415 - only faults have places

        line_of = document.places()
        for at, message, hint in faults.found:
            place = (*document.at, *at)
            problem = Problem(document.file, line_of(place), dotted(place), message, hint)
            self.problems.append(problem)


def _line(known: Mapping[At, int], at: At) -> int:
    while at and at not in known:
        at = at[:-1]
    return known.get(at, 0)


def content_of(path: str) -> bytes:
    """The bytes of a regular file; opening anything else could wait for ever. Raises OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        if error.errno != errno.ENXIO:  # of a socket, or a device without a driver
            raise
        raise _irregular() from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _irregular()
        with open(descriptor, "rb", closefd=False) as stream:
            return stream.read()
    finally:
        os.close(descriptor)


def _irregular() -> OSError:
    return OSError(errno.EINVAL, "not a regular file")


def _syntax(error: Exception, text: str) -> tuple[int, str]:
    """Line and message of what tomllib says."""
    place = re.search(_PLACE, str(error))
    message = re.sub(_PLACE, "", str(error))
    if isinstance(error, RecursionError):
        return 0, "is nested too deeply"
    if place is None:
        return 0, f"is not TOML: {message}"
    return int(place[1] or text.rstrip().count("\n") + 1), f"is not TOML: {message}"
