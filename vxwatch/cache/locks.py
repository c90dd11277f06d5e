"""Keeps two vx processes from doing the same task of one workspace at once.

A lock is held by an open file, so that the kernel lets go of it when its process dies, whatever
way. Its file is removed by who held it; names who holds it meanwhile. Where no lock can be
taken (a file system without them, or one that is read-only) everyone goes ahead.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from typing import NamedTuple

import xxhash

from vxwatch.cache.place import HOME, make
from vxwatch.model import TaskId

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Held(NamedTuple):
    """Somebody holds the lock: their process id, and since when in seconds of the wall clock."""

    pid: int
    since: float


class TaskLocks:
    """The locks of one workspace."""

    def __init__(self, root: str) -> None:
        """`root` is absolute. Nothing is touched before the first lock is taken."""
        self._directory = f"{root}/{HOME}/locks"
        self._made = False

    def take(self, task: TaskId, now: float) -> "Lock | Held":
        """The task's lock, or who holds it. Never waits. Raises OSError if there can be none."""
        if not self._made:
            make(self._directory)
            self._made = True
        path = f"{self._directory}/{_name(task)}"
        while True:
            try:
                handle = os.open(path, _FLAGS, 0o644)
            except FileNotFoundError:  # somebody removed the whole of it
                make(self._directory)
                continue
            taken = _taken(handle, path)
            if isinstance(taken, Held):
                os.close(handle)
                return taken
            if taken:
                os.truncate(handle, 0)
                os.pwrite(handle, f"{os.getpid()} {now:.3f}\n".encode(), 0)
                return Lock(handle, path)
            os.close(handle)


class Lock:
    """A lock that is held until `release`."""

    def __init__(self, handle: int, path: str) -> None:
        self._handle = handle
        self._path = path

    def release(self) -> None:
        """Let go of it."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        os.close(self._handle)


@contextlib.contextmanager
def released(lock: Lock) -> Iterator[None]:
    """Release the lock at the end of the block."""
    try:
        yield
    finally:
        lock.release()


def _taken(handle: int, path: str) -> "bool | Held":
    """True: it is ours. False: its file was removed by who held it, so it is no lock any more."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(handle)
    except OSError:
        os.close(handle)
        raise
    try:
        status = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    mine = os.fstat(handle)
    return (status.st_dev, status.st_ino) == (mine.st_dev, mine.st_ino)


def _holder(handle: int) -> Held:
    words = os.pread(handle, 64, 0).split()
    try:
        return Held(int(words[0]), float(words[1]))
    except (IndexError, ValueError):
        return Held(0, 0.0)


def _name(task: TaskId) -> str:
    """The name of the task's file: readable, and never the name of another one's."""
    digest = xxhash.xxh3_64_hexdigest(task.encode("utf-8", "surrogateescape"))
    readable = "".join(c if c.isascii() and (c.isalnum() or c in "-_.@#") else "_" for c in task)
    return f"{readable[:100]}.{digest}"
