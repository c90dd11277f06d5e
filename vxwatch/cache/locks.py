"""Keeps two vx processes from doing the same task of one workspace at once.

All locks of a workspace are ranges of one file, so that taking one costs a call, and none leaves
anything behind. The kernel lets go of them when their process dies, whatever way. They are the
process's: two sessions in one process would not see each other.
"""

import fcntl
import os
import struct
from typing import NamedTuple

import xxhash

from vxwatch.model import TaskId
from vxwatch.workspace.home import HOME, make

NAME = "lock"
"""The file, in `.vx`. It stays; closing any descriptor of it would end the locks of the process."""

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_OFFSETS = (1 << 62) - 1
_RANGE = struct.Struct("hhqqi")  # struct flock of 64-bit Linux: type, whence, start, length, pid


class Held(NamedTuple):
    """Another process holds the lock; 0 where its id cannot be told."""

    pid: int


class TaskLocks:
    """The locks of one workspace; to be closed when none is needed any more."""

    def __init__(self, root: str) -> None:
        """`root` is absolute. Nothing is touched before the first lock is taken."""
        self._directory = f"{root}/{HOME}"
        self._handles: list[int] = []

    def take(self, task: TaskId) -> "Lock | Held":
        """The task's lock, or who holds it. Never waits. Raises OSError if there can be none."""
        handle = self._open()
        offset = xxhash.xxh3_64_intdigest(task.encode("utf-8", "surrogateescape")) & _OFFSETS
        while True:
            try:
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
            except (BlockingIOError, PermissionError):
                holder = _holder(handle, offset)
                if holder is not None:
                    return holder
            else:
                return Lock(handle, offset)

    def close(self) -> None:
        """Let go of all locks."""
        while self._handles:
            os.close(self._handles.pop())

    def _open(self) -> int:
        """The file that others find at its place, be it another one than at first."""
        if not self._handles or not os.fstat(self._handles[-1]).st_nlink:
            make(self._directory)
            self._handles.append(os.open(f"{self._directory}/{NAME}", _FLAGS, 0o644))
        return self._handles[-1]


class Lock:
    """A lock that is held until `release`."""

    def __init__(self, handle: int, offset: int) -> None:
        self._handle = handle
        self._offset = offset

    def release(self) -> None:
        """Let go of it."""
        fcntl.lockf(self._handle, fcntl.LOCK_UN, 1, self._offset)


def _holder(handle: int, offset: int) -> Held | None:
    """Who holds the lock; None if nobody does any more."""
    asked = _RANGE.pack(fcntl.F_WRLCK, os.SEEK_SET, offset, 1, 0)
    kind, _, _, _, pid = _RANGE.unpack(fcntl.fcntl(handle, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else Held(max(pid, 0))
