"""What a child that the nursery forked does before it is what it was forked for.

Each function here runs in such a child and does not return. It imports little, because the
nursery's start waits for it.
"""

import contextlib
import errno
import fcntl
import marshal
import os
import select
import signal
from collections.abc import Callable, Sequence

from vxwatch.process import netns

TYPE_CHECKING = False  # as typing has it, whose import is a third of the nursery's start
if TYPE_CHECKING:
    from typing import Any, NoReturn

# The nursery ends with vx and by nothing else: a supervisor may signal every process of a
# service. PIPE and XFSZ are ignored by Python itself. Children get the defaults back.
IGNORED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGXFSZ,
)

_STDERR = 2


def become_leader(body: "dict[str, Any]", report: int, given: Sequence[int]) -> "NoReturn":
    """Become the leader of a tree; tell the report which step failed, and why.

    `given` holds its stdin and one descriptor for each of the body's targets.
    """
    step = "start"
    try:
        os.setsid()
        _restore_signals()
        report = _place(given, (0, *body["targets"]), report)
        if body["owner"]:
            user, group = body["owner"]
            os.setgroups(())
            os.setgid(group)
            os.setuid(user)
        step = "directory"
        os.chdir(body["cwd"])
        step = "program"
        os.execvpe(body["argv"][0], body["argv"], body["env"])  # noqa: S606
    except (OSError, ValueError) as error:
        os.write(report, marshal.dumps((step, getattr(error, "errno", errno.EINVAL))))
    finally:
        os._exit(127)


def become_helper(
    given: Sequence[int], box: tuple[int, ...], work: Callable[[select.poll], None]
) -> "NoReturn":
    """Work in the network of the box (its init as a pidfd, its namespace; nothing: the host).

    The first descriptor given is the channel to who waits for it; a failure is told there.
    """
    try:
        # Above all the link: vx must see its end when the nursery is killed, whatever we do.
        _close_all_but({*given, *box})
        _restore_signals()
        ends = select.poll()
        ends.register(given[0], 0)  # reports the hang-up of who waits, and nothing else
        try:
            if box:
                ends.register(box[0], select.POLLIN)
                netns.enter(box[1])
            work(ends)
        except OSError as error:
            os.write(given[0], marshal.dumps(error.errno or errno.EIO))
    finally:
        os._exit(0)


def _place(given: Sequence[int], targets: Sequence[int], report: int) -> int:
    """Put each descriptor at its number; the report, wherever it has to go, ends with exec."""
    above = max(targets) + 1
    report = fcntl.fcntl(report, fcntl.F_DUPFD_CLOEXEC, above)
    lifted = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, above) for number in given]
    for number, target in zip(lifted, targets, strict=True):
        os.dup2(number, target)
    return report


def _restore_signals() -> None:
    signal.set_wakeup_fd(-1)
    for signum in (*IGNORED, signal.SIGCHLD):
        signal.signal(signum, signal.SIG_DFL)


def _close_all_but(kept: set[int]) -> None:
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > _STDERR and number not in kept:
            with contextlib.suppress(OSError):  # the one that the listing itself used
                os.close(number)
