"""The processes that descend from this one, read from /proc, and their end.

The test process is a subreaper (`adopt_orphans`): a daemon that left its session and its
parent comes back to it, so descent finds everything a test started, processes in a sandbox's
namespaces included. Nothing here looks at, or signals, a process that is not a descendant.
"""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Collection
from dataclasses import dataclass

_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class Seen:
    """A process as it was when we looked. `state` is the letter of /proc/PID/stat."""

    pid: int
    state: str
    argv: tuple[str, ...]
    cwd: str

    @property
    def line(self) -> str:
        command = " ".join(" ".join(self.argv).split()) or "?"
        return f"{self.pid} ({self.state}) {command[:160]}  in {self.cwd}"


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent dies."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def descendants(skip: Collection[int] = ()) -> list[Seen]:
    """Every live descendant, without the trees of the pids in `skip`; zombies do not live."""
    found: list[Seen] = []
    queue = _children(os.getpid())
    while queue:
        pid = queue.pop()
        if pid in skip:
            continue
        queue += _children(pid)
        seen = look(pid)
        if seen is not None and seen.state not in "ZX":
            found.append(seen)
    return found


def look(pid: int) -> Seen | None:
    """The process of this pid, or None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state = file.read().rpartition(b") ")[2][:1].decode()
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            argv = tuple(os.fsdecode(word) for word in file.read().split(b"\0")[:-1])
    except (FileNotFoundError, ProcessLookupError):
        return None
    try:
        cwd = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        cwd = "?"
    return Seen(pid, state, argv, cwd)


def alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    seen = look(pid)
    return seen is not None and seen.state not in "ZX"


def children_now() -> frozenset[int]:
    """The direct children of this process, zombies included."""
    return frozenset(_children(os.getpid()))


def kill_all(skip: Collection[int] = (), within: float = 10.0) -> None:
    """SIGKILL every descendant until none is left, then reap the adopted ones."""
    end = time.monotonic() + within
    while (rest := descendants(skip)) and time.monotonic() < end:
        for seen in rest:
            with contextlib.suppress(ProcessLookupError):
                os.kill(seen.pid, signal.SIGKILL)
        time.sleep(0.01)
    reap(skip)


def reap(skip: Collection[int] = ()) -> None:
    """Collect dead children that nobody waits for any more."""
    for pid in _children(os.getpid()):
        if pid not in skip:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _children(pid: int) -> list[int]:
    # A child that ends while the kernel lists can hide its next sibling for this one read;
    # whoever needs certainty reads until the list is empty.
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        raise OSError("this kernel does not list children, so leaks would be invisible")
    while True:
        found: list[int] = []
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                    found += map(int, file.read().split())
        except (FileNotFoundError, ProcessLookupError):
            if os.path.exists(f"/proc/{pid}/task"):
                continue  # a thread ended, and its children are another thread's now
        return found
