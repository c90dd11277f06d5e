"""Finds what is left of a round, without asking vx and by more than one trace.

A process is a survivor if any of these leads to the round: it descends from this process (which
adopts orphans, and in a pid namespace of its own is the ancestor of everything), its arguments,
its directory or an open file name the round's token, or it is in the log that every member
writes, by pid namespace, pid and start time. Nothing is signalled here.
"""

import contextlib
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Row:
    """A process in /proc/PID/stat. `started` is in ticks since boot."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    started: str


@dataclass(frozen=True, slots=True)
class Survivor:
    """A live process of the round, the traces that led to it, and its ancestors as text."""

    row: Row
    traces: tuple[str, ...]
    argv: str
    ancestry: str

    @property
    def line(self) -> str:
        row = self.row
        return (
            f"{row.pid} ({row.state}, group {row.group}, session {row.session}) {self.argv} "
            f"found by {', '.join(self.traces)}; child of {self.ancestry}"
        )


class Oracle:
    """Looks for survivors of one round, whose token is in the name of all its files."""

    def __init__(self, token: str, log: str) -> None:
        self._token = os.fsencode(token)
        self._log = log

    def members(self) -> dict[tuple[str, str, str], str]:
        """Names of all that ever logged themselves, by pid namespace, pid in it, start time."""
        try:
            with open(self._log) as file:
                lines = [line.split() for line in file]
        except FileNotFoundError:
            return {}
        return {(line[0], line[1], line[2]): line[3] for line in lines if len(line) == 4}

    def survivors(self, spared: Collection[int] = ()) -> list[Survivor]:
        """Every live process of the round, without the spared ones and what these started."""
        rows = _rows()
        ours = frozenset(_below(os.getpid(), rows, spared))
        aside = frozenset(_below_any(spared, rows)) | {os.getpid()}
        members = self.members()
        found = []
        for row in rows.values():
            if row.pid in aside or row.state in "ZX":
                continue
            traces = tuple(self._traces(row, ours, members))
            if traces and _still(row):
                found.append(Survivor(row, traces, _argv(row.pid), _ancestry(row, rows)))
        return found

    def _traces(
        self, row: Row, ours: Collection[int], members: dict[tuple[str, str, str], str]
    ) -> Iterator[str]:
        if row.pid in ours:
            yield "descent"
        if self._token in _quiet(lambda: _read(f"/proc/{row.pid}/cmdline"), b""):
            yield "arguments"
        if self._token in _quiet(lambda: os.fsencode(os.readlink(f"/proc/{row.pid}/cwd")), b""):
            yield "directory"
        if any(self._token in link for link in _open_files(row.pid)):
            yield "open file"
        if any(key[2] == row.started for key in members):
            name = members.get((_namespace(row.pid), _inner_pid(row.pid), row.started))
            if name:
                yield f"log of {name}"


def children(pid: int) -> list[int]:
    """The live direct children of a process."""
    return [row.pid for row in _rows().values() if row.parent == pid and row.state not in "ZX"]


def arguments(pid: int) -> str:
    """The command line of a process, empty when it is gone."""
    return _argv(pid)


def _rows() -> dict[int, Row]:
    rows = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (row := _row(int(name))):
            rows[row.pid] = row
    return rows


def _row(pid: int) -> Row | None:
    words = _quiet(lambda: _read(f"/proc/{pid}/stat"), b"").rpartition(b") ")[2].decode().split()
    if not words:
        return None
    return Row(pid, words[0], int(words[1]), int(words[2]), int(words[3]), words[19])


def _still(row: Row) -> bool:
    """Whether it is alive after all was read, so that nobody is blamed who was just dying."""
    now = _row(row.pid)
    return now is not None and now.started == row.started and now.state not in "ZX"


def _below(top: int, rows: dict[int, Row], spared: Collection[int]) -> Iterator[int]:
    parents: dict[int, list[int]] = {}
    for row in rows.values():
        parents.setdefault(row.parent, []).append(row.pid)
    ahead = [top]
    while ahead:
        for pid in parents.get(ahead.pop(), ()):
            if pid not in spared:
                ahead.append(pid)
                yield pid


def _below_any(tops: Collection[int], rows: dict[int, Row]) -> Iterator[int]:
    yield from tops
    for top in tops:
        yield from _below(top, rows, ())


def _ancestry(row: Row, rows: dict[int, Row]) -> str:
    chain = []
    while row.parent in rows:
        row = rows[row.parent]
        chain.append(f"{row.pid} {_argv(row.pid).rpartition('/')[2][:24]}")
    return " < ".join(chain[:4]) or "none that is seen here"


def _argv(pid: int) -> str:
    data = _quiet(lambda: _read(f"/proc/{pid}/cmdline"), b"")
    return " ".join(data.replace(b"\0", b" ").decode(errors="replace").split())[-160:]


def _open_files(pid: int) -> Iterator[bytes]:
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                yield os.fsencode(os.readlink(f"/proc/{pid}/fd/{name}"))


def _namespace(pid: int) -> str:
    return _quiet(lambda: os.readlink(f"/proc/{pid}/ns/pid"), "").strip("pid:[]")


def _inner_pid(pid: int) -> str:
    for line in _quiet(lambda: _read(f"/proc/{pid}/status"), b"").splitlines():
        if line.startswith(b"NSpid:"):
            return line.split()[-1].decode()
    return ""


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.readall()


def _quiet(read: Callable[[], _T], nothing: _T) -> _T:
    """What was read, or nothing of a process that is gone or may not be looked at."""
    with contextlib.suppress(OSError):
        return read()
    return nothing
