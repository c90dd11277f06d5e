"""Descendants as /proc shows them, and their certain end.

Used by the nursery, and by vx when it has to stand in for a nursery that was killed. It signals
nothing but what the caller names; `sweep` names only unreaped children of this process, whose
pids can be nobody else's. It imports little, because the nursery's start waits for it.
"""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterator

MARK = "VX_TREE"
"""The environment variable that tells which tree a process belongs to."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PF_EXITING = 4
_DEAD = (b"Z", b"X")
_CODE, _ENV, _ENV_END = 23, 47, 48  # proc_pid_stat(5), counted from the state on; code is set last
_EXECUTES = 0.1
"""Seconds for the kernel to give a program its environment; a dead disk must not hold us up."""


def become_subreaper() -> None:
    """Adopt every descendant whose own parent dies."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def wake_at_parents_end() -> None:
    """Have the kernel continue this process, should it be stopped, when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def children_of(pid: int) -> list[int]:
    """Its direct children, zombies included; complete for this process, since only it reaps them."""
    found: list[int] = []
    gone = contextlib.suppress(FileNotFoundError, ProcessLookupError)
    with gone:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with gone:
                found += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
    return found


def my_children() -> list[int]:
    """The children of this process, zombies included, when it has no thread but this one."""
    return [int(pid) for pid in _read("/proc/thread-self/children").split()]


def stat_of(pid: int) -> list[bytes] | None:
    """State, parent, group, session and so on of /proc/PID/stat; None when it is gone."""
    try:
        return _read(f"/proc/{pid}/stat").rpartition(b") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def has_others(init: int, group: int) -> bool:
    """Whether anybody but this init of a pid namespace, and inside of that, lives in the group.

    Everybody in there descends from it. A process that changes its parent while one look goes on
    can be missed by it.
    """
    return _has_others(init, group) or _has_others(init, group)


def _has_others(init: int, group: int) -> bool:
    return any(state not in _DEAD for _, state in _others(init, group))


def others(init: int, group: int) -> list[int]:
    """Those alive in the group and inside of this init's pid namespace, but for the init."""
    return [pid for pid, state in _others(init, group) if state not in _DEAD]


def _others(init: int, group: int) -> Iterator[tuple[int, bytes]]:
    ahead = children_of(init)
    while ahead:
        pid = ahead.pop()
        stat = stat_of(pid)
        if stat and int(stat[2]) == group:
            yield pid, stat[0]
        ahead += children_of(pid)


def parent_of(pid: int) -> int:
    """Its parent, -1 when it is gone."""
    stat = stat_of(pid)
    return int(stat[1]) if stat else -1


def group_of(pid: int) -> int:
    """Its process group, -1 when it is gone."""
    stat = stat_of(pid)
    return int(stat[2]) if stat else -1


def session_of(pid: int) -> int:
    """Its session, -1 when it is gone."""
    stat = stat_of(pid)
    return int(stat[3]) if stat else -1


def is_dying(pid: int) -> bool:
    """Whether it is on its way to be a zombie: it may still hold ports and files then."""
    stat = stat_of(pid)
    return stat is not None and stat[0] not in _DEAD and bool(int(stat[6]) & _PF_EXITING)


def group_lives(group: int) -> bool:
    """Whether the group has a member that is no zombie."""
    if not kill(os.killpg, group, 0):
        return False
    for name in os.listdir("/proc"):
        stat = stat_of(int(name)) if name.isdigit() else None
        if stat and int(stat[2]) == group and stat[0] not in _DEAD:
            return True
    return False


def carries(pid: int, mark: str) -> bool:
    """Whether the process was started with this mark; False where that cannot be read.

    Who is just executing a program shows no environment for some microseconds (proc_pid_environ(5)
    reads what the new image has not got yet), and is asked again.
    """
    sought = f"{MARK}={mark}".encode()
    try:
        environment = _read(f"/proc/{pid}/environ")
        end = time.monotonic() + _EXECUTES
        while not environment and _is_to_have_one(pid) and time.monotonic() < end:
            os.sched_yield()
            environment = _read(f"/proc/{pid}/environ")
        return sought in environment.split(b"\0")
    except OSError:
        return False


def _is_to_have_one(pid: int) -> bool:
    """Whether a living process has an environment by now, or is to get the one that it will have."""
    stat = stat_of(pid)
    if stat is None or stat[0] in _DEAD:
        return False
    return stat[_CODE] == b"0" or stat[_ENV] != stat[_ENV_END]


def kill(how: Callable[[int, int], None], target: int, signum: int) -> bool:
    """Signal with `os.kill` or `os.killpg`; whether there was something to signal."""
    try:
        how(target, signum)
    except ProcessLookupError:
        return False
    except PermissionError:  # it became another user; signal 0 asks only whether it is there
        return signum == 0
    return True


def sweep(ours: Callable[[int], bool], within: float) -> None:
    """Kill and reap children, and what they bequeath us, until there is none or time is up.

    `ours` says which children it may take. Only a process that the kernel itself cannot end,
    stuck in a dead disk or network, outlasts the `within` seconds.
    """
    end = time.monotonic() + within
    while left := [pid for pid in children_of(os.getpid()) if ours(pid)]:
        for pid in left:
            kill(os.kill, pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > end:
            return
        time.sleep(0.002)


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.readall()
