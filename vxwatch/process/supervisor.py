"""The supervisor of a box: hears of its system calls, and tells which of them will be refused.

A record is four fields, each ended by a NUL: what was wished (read, write or connect), the absolute
path or address, the call, the error. `begun` comes first, when the command is about to be executed,
`cut` if more was refused than is told, and `over` when the box has ended. It changes nothing and
holds nobody up for longer than it takes to look. It imports little, because a fork of the nursery
runs it.
"""

import marshal
import os
import socket
import stat
import sys
from collections.abc import Callable, Sequence

from vxwatch.process import notify, outcome

TYPE_CHECKING = False  # as typing has it, whose import is a third of the nursery's start
if TYPE_CHECKING:
    from typing import Any, Literal

    Reach = Literal["own", "write", "read", ""]
    """What is granted of all that lies directly in a directory; "": it must be asked for each."""

_AT_FDCWD = 0xFFFFFF9C
_AT_SYMLINK_NOFOLLOW = 0x100
_NAMED = frozenset({"lstat", "readlink", "readlinkat", "lchown"}) | outcome.NAMED
"""The calls that are about a link, not about where it leads; others say so with a flag."""
_MOVES = {
    **dict.fromkeys(("symlink", "symlinkat", "rename", "renameat", "renameat2", "rmdir"), "paths"),
    **dict.fromkeys(("chdir", "fchdir"), "homes"),
    **dict.fromkeys(("clone", "clone3", "fork", "vfork"), "threads"),
}
"""The calls after which a path may lead elsewhere, the working directory of a thread be another one, or
a number that of another thread."""
_INTERNET = {socket.AF_INET: (4, 8), socket.AF_INET6: (8, 24)}
"""Where the address is in a sockaddr, and where it ends."""
_ELSEWHERE = ("/proc", "/dev", "/sys")
_HIDING = frozenset({"mask", "blank", "desk"})
_WRITABLE = frozenset({"write", "saved", "scratch"})
_ENCODING = sys.getfilesystemencoding()
_DOTS = frozenset({"", ".", ".."})

JOB, LISTENER = b"j", b"l"
"""The messages to a supervisor that waits."""
MOST_RECORDS = 20_000
_MOST_SEEN = 200_000
"""Different calls that are remembered, so that what is done often is judged once."""


def supervise(channel: socket.socket) -> None:
    """Wait for a box, and supervise it.

    Over the channel come two messages, in any order: a job, with what describes the box and where
    the log goes; and, from who is to become the box, the descriptor of its notifications. If one of
    them is missing, nobody needs a supervisor.
    """
    given: dict[bytes, list[int]] = {}
    with channel:
        while len(given) < 2:  # noqa: PLR2004 - as said above
            kind, numbers, _, _ = socket.recv_fds(channel, 1, 2)
            if not kind:
                return
            given[kind] = numbers
    body, log = given[JOB]
    told = marshal.loads(os.pread(body, os.fstat(body).st_size, 0))["supervised"]  # noqa: S302  # from vx
    os.close(body)
    Supervisor(given[LISTENER][0], log, told).serve()


class Supervisor:
    """Supervises one box until its last process has ended.

    `told` describes it: `calls` is the table of the filter, `kinds` what is mounted where,
    `roots` the directories in which reads are looked at.
    """

    def __init__(self, listener: int, log: int, told: "dict[str, Any]") -> None:
        self._listener = listener
        self._log = log
        calls: dict[int, tuple[str, str, tuple[tuple[int, int], ...], int]] = told["calls"]
        self._calls = {number: (*call, _Nature(call[0])) for number, call in calls.items()}
        self._kinds: dict[str, str] = told["kinds"]
        self._mounts = {path for path, kind in self._kinds.items() if kind != "saved"}
        self._parents = {outcome.parent(path) for path in self._kinds}
        self._roots: tuple[str, ...] = told["roots"]
        self._execs = {number for number, call in self._calls.items() if call[0][:4] == "exec"}
        self._leader = 0
        self._memory = notify.Memory()
        self._begun = self._fault = False
        self._seen: set[tuple[object, ...]] = set()
        self._records = 0
        self._directories: dict[str, tuple[str, Reach]] = {}
        self._homes: dict[int, str] = {}
        self._leaving: set[int] = set()

    def serve(self) -> None:
        """Write a record of each call that will be refused."""
        for pid, number, arguments in notify.heard(self._listener):
            # What bwrap does in order to make the box is not the task's doing.
            if not self._begun and (number not in self._execs or not self._begins(pid)):
                continue
            try:
                self._hear(pid, number, arguments)
            except OSError:
                continue  # who called is gone, or points to nothing
            except Exception:  # noqa: BLE001 - a fault of ours must not hold up a task
                self._fault = True
        if not self._fault:
            self._write("over")

    def _begins(self, pid: int) -> bool:
        """Whether this process, which executes a program, is the one that becomes the command."""
        self._leader = self._leader or pid  # it becomes bwrap
        return pid != self._leader

    def _hear(self, pid: int, number: int, arguments: list[int]) -> None:
        call, wish, names, flags_at, nature = self._calls[number]
        if self._leaving:
            self._leaving.discard(pid)  # what it did is done
        if not self._begun:
            self._begun = True
            self._write("begun")
        if nature.moves:
            self._move(pid, nature.moves)
        if not names:
            if wish == "connect":
                self._connect(pid, *arguments[1:3])
            return
        if len(names) == 1:  # of most, and what is heard of often is to take little
            paths: tuple[str, ...] = (self._path(pid, arguments, *names[0]),)
        else:
            paths = tuple(self._path(pid, arguments, *at) for at in names)
        if "" in paths:
            return
        if nature.hides_flags:
            flags = self._flags(pid, call, arguments, flags_at)
        else:
            flags = arguments[flags_at] & 0xFFFFFFFF if flags_at >= 0 else 0
        self._weigh(pid, nature, wish, flags, paths)

    def _weigh(
        self, pid: int, nature: "_Nature", wish: str, flags: int, paths: Sequence[str]
    ) -> None:
        if nature.opens and flags & outcome.WRITING:
            wish = "write"
        follow = nature.follows and not flags & nature.link
        for path in paths:
            if not self._is_granted(path, wish, follow):
                self._judge(pid, nature.call, wish, flags, paths, follow=follow)
                return

    def _move(self, pid: int, moves: str) -> None:
        """Forget what will not be so any more when this call has been made.

        A thread that is to be born is none of those whose directories are remembered meanwhile.
        """
        self._homes.clear()
        if moves == "paths":
            self._directories.clear()
        if moves != "threads":
            self._leaving.add(pid)

    def _flags(self, pid: int, call: str, arguments: list[int], at: int) -> int:
        """The flags of a call that has none among its arguments."""
        if call == "creat":
            return outcome.O_CREAT | outcome.O_TRUNC | os.O_WRONLY
        return int.from_bytes(self._memory.read(pid, arguments[at], 8), "little")

    # Names

    def _path(self, pid: int, arguments: list[int], where: int, what: int) -> str:
        """The absolute path that a call names, as it was written; "" where there is none."""
        address = arguments[what]
        if not address:
            return ""
        text = self._memory.text(pid, address)
        name = text.decode() if text.isascii() else text.decode(_ENCODING, "surrogateescape")
        if not name or name[0] == "/":
            return name
        directory = arguments[where] & 0xFFFFFFFF if where >= 0 else _AT_FDCWD
        if directory == _AT_FDCWD:
            base = self._homes.get(pid) or self._home(pid)
        else:
            base = _base(f"/proc/{pid}/fd/{directory}")
        return f"{base}{name}" if base else ""

    def _home(self, pid: int) -> str:
        """The working directory with a slash; remembered while nobody is about to change one."""
        home = _base(f"/proc/{pid}/cwd")
        if not self._leaving:
            if len(self._homes) >= _MOST_SEEN:
                self._homes.clear()
            self._homes[pid] = home
        return home

    def _directory(self, path: str) -> "tuple[str, Reach]":
        """Where the path of a directory leads on this machine, and what is granted there."""
        known = self._directories.get(path)
        if known is None:
            if len(self._directories) >= _MOST_SEEN:
                self._directories.clear()
            real = os.path.realpath(path or "/")
            known = self._directories[path] = (real, self._reach(os.path.normpath(path), real))
        return known

    def _reach(self, plain: str, real: str) -> "Reach":
        if real in self._parents or plain in self._parents:
            return ""
        if self._is_own(plain):
            return "own"
        kind = self._shows(real)
        return kind if kind in ("write", "read") else ""  # type: ignore[return-value]

    def _is_granted(self, path: str, wish: str, follow: bool) -> bool:
        """Whether that can be said without a closer look, as of most that a task does."""
        directory, _, name = path.rpartition("/")
        _, reach = self._directories.get(directory) or self._directory(directory)
        if reach == "own":
            return name not in _DOTS
        if not reach or (wish == "write" and reach == "read") or name in _DOTS:
            return False
        return not (follow and _is_link(path))

    def _real(self, path: str, *, follow: bool) -> str:
        """Where a path leads on this machine; its last part is a link that counts if `follow`."""
        directory, _, name = path.rpartition("/")
        if name in _DOTS:
            return os.path.realpath(path)
        whole = f"{self._directory(directory)[0].rstrip('/')}/{name}"
        return os.path.realpath(whole) if follow and _is_link(whole) else whole

    def _mount(self, path: str) -> str:
        """The path at which what holds this path is mounted."""
        while path not in self._mounts and path != "/":
            path = outcome.parent(path)
        return path

    def _shows(self, path: str) -> str:
        """What the box has at this path."""
        while path not in self._kinds and path != "/":
            path = outcome.parent(path)
        return self._kinds.get(path, "read")

    def _is_own(self, path: str) -> bool:
        """Whether the box has something of its own there, of which nothing is told."""
        return _within(path, _ELSEWHERE) or self._shows(path) == "scratch"

    # Judgement

    def _judge(
        self, pid: int, call: str, wish: str, flags: int, paths: Sequence[str], *, follow: bool
    ) -> None:
        if self._is_known(call, flags, *paths):
            return
        plain = [os.path.normpath(path) for path in paths]
        if all(map(self._is_own, plain)):
            return  # its links lead nowhere on this machine
        if wish == "write":
            self._writing(pid, call, flags, paths, follow=follow)
        elif _within(plain[0], self._roots) or self._shows(plain[0]) != "read":
            self._reading(pid, call, paths[0], follow=follow)

    def _reading(self, pid: int, call: str, path: str, *, follow: bool) -> None:
        real = self._real(path, follow=follow)
        kind = self._shows(real)
        if kind not in _HIDING:
            return
        error = outcome.reading(real, _View(pid, self._mount))
        if error or (kind == "blank" and call in outcome.OPENS):
            self._tell("read", path, call, error)

    def _writing(
        self, pid: int, call: str, flags: int, paths: Sequence[str], *, follow: bool
    ) -> None:
        real = [self._real(path, follow=follow) for path in paths]
        if all(self._shows(path) in _WRITABLE or self._is_own(path) for path in real):
            return
        if error := outcome.writing(call, flags, real, _View(pid, self._mount)):
            for path in paths:
                self._tell("write", path, call, error)

    def _connect(self, pid: int, address: int, length: int) -> None:
        """Tell of a connection that leaves the box, which has a loopback and no more."""
        said = self._memory.read(pid, address, min(length, 28)) if length else b""
        family = int.from_bytes(said[:2], "little")
        start, end = _INTERNET.get(family, (0, 0))  # type: ignore[call-overload]
        if not end or len(said) < end or not leaves(said[start:end]):
            return
        host = socket.inet_ntop(family, said[start:end])
        port = int.from_bytes(said[2:4], "big")
        name = f"{host}:{port}" if family == socket.AF_INET else f"[{host}]:{port}"
        if not self._is_known("connect", name):
            self._tell("connect", name, "connect", "ENETUNREACH")

    # Records

    def _is_known(self, *call: object) -> bool:
        """Whether this was judged already; from now on it was."""
        if call in self._seen:
            return True
        if len(self._seen) >= _MOST_SEEN:
            self._seen.clear()
        self._seen.add(call)
        return False

    def _tell(self, wish: str, name: str, call: str, error: str) -> None:
        self._records += 1
        if self._records < MOST_RECORDS:
            self._write(wish, name, call, error)
        elif self._records == MOST_RECORDS:
            self._write("cut")

    def _write(self, wish: str, name: str = "", call: str = "", error: str = "") -> None:
        record = b"".join(os.fsencode(field) + b"\0" for field in (wish, name, call, error))
        while record:
            try:
                record = record[os.write(self._log, record) :]
            except BrokenPipeError:
                return  # nobody reads it any more


def _base(place: str) -> str:
    """Where this link of `/proc` leads, with a slash; "" where that has no path. Raises `OSError`."""
    base = os.readlink(place)
    known = base[0] == "/" and not base.endswith(" (deleted)")
    return f"{base.rstrip('/')}/" if known else ""


class _Nature:
    """What is asked of each call that is heard of, looked up beforehand."""

    __slots__ = ("call", "follows", "hides_flags", "link", "moves", "opens")

    def __init__(self, call: str) -> None:
        """`link`: the flag with which it is about a link itself, though it `follows` links."""
        self.call = call
        self.opens = call in outcome.OPENS
        self.link = os.O_NOFOLLOW if self.opens else _AT_SYMLINK_NOFOLLOW
        self.follows = call not in _NAMED
        self.moves = _MOVES.get(call, "")
        self.hides_flags = call in ("creat", "openat2")


class _View:
    """What a process in the box sees."""

    def __init__(self, pid: int, mount: Callable[[str], str]) -> None:
        self._root = f"/proc/{pid}/root"
        self.mount = mount

    def find(self, path: str) -> "outcome.Found":
        """What lies at this path without links."""
        try:
            mode = os.lstat(self._root + path).st_mode
        except OSError:
            return ""
        if stat.S_ISDIR(mode):
            return "directory"
        return "file" if stat.S_ISREG(mode) else "other"

    def locked(self, path: str) -> bool:
        """Whether the mount that holds it is read-only. Raises `OSError`."""
        return bool(os.statvfs(self._root + path).f_flag & os.ST_RDONLY)


def leaves(address: bytes) -> bool:
    """Whether this IPv4 or IPv6 address is that of another machine."""
    if len(address) == 4:  # noqa: PLR2004 - bytes of an IPv4 address
        return address[0] != 127 and any(address)  # noqa: PLR2004 - 127.0.0.0/8 is the loopback
    if address[:12] == bytes(10) + b"\xff\xff":
        return leaves(address[12:])
    of_this_link = address[0] == 0xFE and address[1] & 0xC0 == 0x80  # noqa: PLR2004 - fe80::/10
    return int.from_bytes(address, "big") > 1 and not of_this_link


def _is_link(path: str) -> bool:
    try:
        return stat.S_ISLNK(os.lstat(path).st_mode)
    except OSError:
        return False


def _within(path: str, directories: tuple[str, ...]) -> bool:
    return any(path == one or path.startswith(f"{one.rstrip('/')}/") for one in directories)
