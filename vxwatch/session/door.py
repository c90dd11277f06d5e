"""Where running sessions can be reached: made by a session, found by who looks for one.

Each session has a directory of its own, 0700, whose name tells its workspace, its user and its
pid; in it one socket, 0600. It lies in `.vx` of the workspace, where everybody finds it and no
sandbox reaches; where that cannot be, in a directory for runtime files. A name that is there
says nothing by itself: only who accepts a connection, and is the same user, is a session.
"""

import contextlib
import os
import re
import socket
import stat
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import xxhash

from vxwatch.workspace.home import DOOR, HOME, make

VERSION = 1
"""Of what is said through it, which both ends must speak."""

NAME = "socket"
_NEW = "new"
_BACKLOG = 16
_TIME = struct.Struct("ll")  # struct timeval: seconds, microseconds
_CREDENTIALS = struct.Struct("3i")  # struct ucred of Linux: pid, user, group


@dataclass(frozen=True, slots=True)
class Door:
    """The directory of one session: who it says that it is."""

    path: str
    user: int
    pid: int


def homes(root: str, environ: Mapping[str, str]) -> list[str]:
    """The directories in which a door of the workspace may lie, the best first."""
    user = os.geteuid()
    runtime = (environ.get("XDG_RUNTIME_DIR"), f"/run/user/{user}")
    temporary = ("/tmp", environ.get("TMPDIR"))  # noqa: S108  # the door's own directory is private
    places = [place for place in (*runtime, *temporary) if place and os.path.isabs(place)]
    return [f"{root}/{HOME}", *dict.fromkeys(map(os.path.normpath, places))]


def path_in(home: str, root: str) -> str:
    """The path of this process's door there."""
    return f"{home}/{DOOR}-{_mark(root)}-{os.geteuid()}-{os.getpid()}"


def found(root: str, environ: Mapping[str, str]) -> Iterator[Door]:
    """The doors of the workspace, stale ones and other users' included."""
    for home in homes(root, environ):
        # What lies in the workspace belongs to it, under whatever name a container has it.
        mark = "[0-9a-f]{16}" if home == f"{root}/{HOME}" else _mark(root)
        name = re.compile(rf"{DOOR}-{mark}-(\d{{1,10}})-(\d{{1,10}})")
        try:
            names = os.listdir(home)
        except OSError:  # none there
            continue
        for match in filter(None, map(name.fullmatch, names)):
            path = f"{home}/{match[0]}"
            user = _owner(path)
            if user == int(match[1]):
                yield Door(path, user, int(match[2]))


def hang(path: str) -> socket.socket:
    """Make the door at a path where there is nothing, and give its listener. Raises OSError."""
    if path.rpartition("/")[0].endswith(f"/{HOME}"):
        make(path.rpartition("/")[0])
    os.mkdir(path, 0o700)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _entered(path) as directory:
            if os.fstat(directory).st_mode & 0o077:  # of a file system that keeps no modes
                raise PermissionError(f"{path} is open to others")
            # Named only when it listens: so whoever is refused at the name has found a stale one.
            listener.bind(f"/proc/self/fd/{directory}/{_NEW}")
            os.chmod(_NEW, 0o600, dir_fd=directory)
            listener.listen(_BACKLOG)
            os.rename(_NEW, NAME, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        listener.close()
        take_away(path)
        raise
    listener.setblocking(False)
    return listener


def knock(door: Door, patience: float) -> socket.socket:
    """A connection to the session behind the door, which is the same user's.

    Waits at most `patience` seconds at each step. Raises `PermissionError` where it is another
    user's, and another OSError where there is none.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _entered(door.path) as directory:
            if os.fstat(directory).st_uid != os.geteuid():
                raise PermissionError(f"{door.path} is another user's")  # noqa: TRY301  # as what the kernel refuses
            # Not by a timeout of Python's: a listener with a queue would be an error at once then.
            limit = _TIME.pack(int(patience), int(patience % 1 * 1_000_000))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            connection.connect(f"/proc/self/fd/{directory}/{NAME}")
            connection.settimeout(patience)
        if peer(connection) != os.geteuid():
            raise PermissionError(f"{door.path} is another user's")  # noqa: TRY301  # as what the kernel refuses
    except BaseException:
        connection.close()
        raise
    return connection


def peer(connection: socket.socket) -> int:
    """The user at the other end."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    user: int = _CREDENTIALS.unpack(raw)[1]
    return user


def clear(root: str, environ: Mapping[str, str]) -> None:
    """Take away the doors of ours behind which nobody is: their sessions were killed."""
    for door in found(root, environ):
        if door.user == os.geteuid() and _is_stale(door):
            take_away(door.path)


def is_there(path: str) -> bool:
    """Whether the door can be found."""
    return os.path.lexists(f"{path}/{NAME}")


def take_away(path: str) -> None:
    """Remove the door."""
    for name in (NAME, _NEW):
        with contextlib.suppress(OSError):
            os.unlink(f"{path}/{name}")
    with contextlib.suppress(OSError):
        os.rmdir(path)


def _is_stale(door: Door) -> bool:
    try:
        knock(door, 0.1).close()
    except (ConnectionRefusedError, FileNotFoundError):
        # Without a name yet, it may be about to get one.
        named = os.path.lexists(f"{door.path}/{NAME}")
        return named or door.pid == os.getpid() or not os.path.exists(f"/proc/{door.pid}")
    except OSError:
        return False
    return False


def _mark(root: str) -> str:
    return xxhash.xxh3_64_hexdigest(os.fsencode(root))


def _owner(path: str) -> int:
    """Whose directory that is; -1 where there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return -1
    return status.st_uid if stat.S_ISDIR(status.st_mode) else -1


@contextlib.contextmanager
def _entered(path: str) -> Iterator[int]:
    """A descriptor of the directory: a socket's own path may have 107 bytes, ours is any length."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield directory
    finally:
        os.close(directory)
