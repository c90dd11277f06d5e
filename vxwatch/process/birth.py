"""How the nursery starts a child: the leader of a tree, or a helper of its own.

It imports little, because the nursery's start waits for it.
"""

import contextlib
import errno
import fcntl
import marshal
import os
import select
import signal
from collections.abc import Callable, Iterator, Sequence

from vxwatch.process import netns

TYPE_CHECKING = False  # as typing has it, whose import is a third of the nursery's start
if TYPE_CHECKING:
    from io import FileIO
    from typing import Any, NoReturn

_MOST = 1 << 30  # no descriptor is so high: above `fs.nr_open`

Work = Callable[[select.poll, tuple[int, ...]], None]
"""What a helper does, given what tells that it is to end, and the descriptors of its box."""


class StartError(Exception):
    """A leader could not be started: at which step, and the errno."""

    def __init__(self, step: str, reason: BaseException) -> None:
        super().__init__(step, reason)
        self.step = step
        self.errno: int = getattr(reason, "errno", None) or errno.EINVAL


def start_leader(body: "dict[str, Any]", given: Sequence[int]) -> int:
    """Start the leader of a tree in a session, or only a group, of its own; its pid.

    `given` holds its stdin and a descriptor for each of the body's targets. Signals need no
    care: exec gives back the default of every one that has a handler. Raises `StartError`.
    """
    with lifted(given, (0, *body["targets"])) as places:
        if body["owner"] or body["lender"]:
            return _start_by_steps(body, places)
        step = "directory"
        try:
            os.chdir(body["cwd"])
            step = "program"
            # A fifth of the time of fork and exec; it returns when exec has succeeded or failed.
            actions = [(os.POSIX_SPAWN_DUP2, lifted, target) for lifted, target in places]
            return os.posix_spawn(
                body["argv"][0], body["argv"], body["env"], file_actions=actions, setsid=True
            )
        except (OSError, ValueError) as error:
            raise StartError(step, error) from error
        finally:
            os.chdir("/")


def start_helper(given: Sequence[int], box: tuple[int, ...], work: Work) -> int:
    """Start a helper that works in the network of the box; its pid.

    The box is its init as a pidfd and its namespace, or nothing for the host. The first
    descriptor given is the channel to who waits for the helper; a failure is told there. Of our
    other descriptors it has none.
    """
    pid = os.fork()
    if pid == 0:
        try:
            _be_helper(given, box, work)
        finally:
            os._exit(0)
    return pid


@contextlib.contextmanager
def lifted(given: Sequence[int], targets: Sequence[int]) -> Iterator[list[tuple[int, int]]]:
    """Make copies above all targets, each with its target, so that none is overwritten too early."""
    lifted: list[int] = []
    try:
        for number in given:
            lifted.append(fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, max(targets) + 1))  # noqa: PERF401  # what was lifted before a failure must be closed
        yield list(zip(lifted, targets, strict=True))
    except OSError as error:
        raise StartError("start", error) from error
    finally:
        for number in lifted:
            os.close(number)


def _start_by_steps(body: "dict[str, Any]", places: Sequence[tuple[int, int]]) -> int:
    read, write = os.pipe()
    with open(read, "rb", buffering=0) as report:
        try:
            pid = os.fork()
            if pid == 0:
                be_leader(body, places, write)
        finally:
            os.close(write)
        try:
            reported(report)
        except StartError:
            os.waitpid(pid, 0)
            raise
    return pid


def reported(report: "FileIO") -> None:
    """Read what a leader reports: nothing, once exec has closed its side. Raises `StartError`."""
    if failure := report.readall():
        step, number = marshal.loads(failure)  # noqa: S302  # from our own child
        raise StartError(step, OSError(number, os.strerror(number)))


def be_leader(body: "dict[str, Any]", places: Sequence[tuple[int, int]], report: int) -> "NoReturn":
    """Become what the body says, and report over this descriptor if that fails."""
    step = "start"
    try:
        report = fcntl.fcntl(report, fcntl.F_DUPFD_CLOEXEC, max(lifted for lifted, _ in places))
        _leave_group(body)
        for lifted, target in places:
            os.dup2(lifted, target)
        if body["owner"]:
            user, group = body["owner"]
            os.setgroups(())
            os.setgid(group)
            os.setuid(user)
        step = "directory"
        os.chdir(body["cwd"])
        step = "program"
        os.execve(body["argv"][0], body["argv"], body["env"])  # noqa: S606
    except (OSError, ValueError) as error:
        os.write(report, marshal.dumps((step, getattr(error, "errno", None) or errno.EINVAL)))
    finally:
        os._exit(127)


def _leave_group(body: "dict[str, Any]") -> None:
    if not body["lender"]:
        os.setsid()
        return
    from vxwatch.process import terminal

    os.setpgid(0, 0)
    terminal.borrow(body["lender"][0])
    if body["deaf"]:  # a bwrap in the group that the keys signal: what it started is meant
        for signum in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, signal.SIG_IGN)


def _be_helper(given: Sequence[int], box: tuple[int, ...], work: Work) -> None:
    signal.set_wakeup_fd(-1)  # what signals us is not to wake the nursery
    keep_only((0, 1, 2, *given, *box))
    ends = select.poll()
    ends.register(given[0], 0)  # reports the hang-up of who waits, and nothing else
    try:
        if box:
            ends.register(box[0], select.POLLIN)
            netns.enter(box[1])
        work(ends, box)
    except OSError as error:
        os.write(given[0], marshal.dumps(error.errno or errno.EIO))


def keep_only(numbers: Sequence[int]) -> None:
    """Close all descriptors but these."""
    kept = sorted(numbers)
    for low, high in zip(kept, [*kept[1:], _MOST], strict=True):
        os.closerange(low + 1, high)
