"""What can be launched, how it is told to the nursery, and why a launch may fail."""

import errno
import json
import marshal
import os
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, NamedTuple

from vxwatch.process.kin import MARK
from vxwatch.process.pipes import Report
from vxwatch.process.remedies import remedy
from vxwatch.process.terminal import Terminal
from vxwatch.process.tree import LaunchError, Tree

_encoded = lru_cache(maxsize=1024)(os.fsencode)  # tasks have most of their environment in common

INFO_FD, STATUS_FD = 3, 4
"""Where a boxed launch's bwrap is to write what `--info-fd` and `--json-status-fd` give."""


Stdin = Literal["null", "held", "inherited", "terminal"]


class Supervision(NamedTuple):
    """What the supervisor of a box needs to know: see `supervisor` for `program` and `told`.

    `log` is our descriptor of where its records go; it is dead when the box has ended.
    """

    program: bytes
    told: Mapping[str, object]
    log: int


class Launch(NamedTuple):
    """What to start. `env` is complete but for VX_TREE, which `launch` adds.

    `argv[0]` is an absolute path. `fds`: number in the child -> our descriptor, of which the child gets a copy. `stdin`: null,
    or a pipe whose write end only the nursery holds, so that it never ends before the tree.
    `inherited`: all three standard streams are vx's own, and nothing of them is read here;
    `terminal`: so too, and it borrows the terminal that the nursery was opened with, if vx is in the
    foreground of that.
    `owner`: the user and group to become, without supplementary groups. `boxed`: argv is a
    bwrap that is told `--info-fd 3 --json-status-fd 4`. `supervision`: its calls are heard of.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    fds: Mapping[int, int] = MappingProxyType({})
    stdin: Stdin = "null"
    owner: tuple[int, int] | None = None
    boxed: bool = False
    supervision: Supervision | None = None


class Birth(NamedTuple):
    """A launch under way. `info` is where a bwrap names its init."""

    tree: Tree
    info: Report | None


def body_of(
    launch: Launch, mark: str, targets: tuple[int, ...], terminal: Terminal | None = None
) -> bytes:
    """The body of a spawn request; `targets` are the numbers of its descriptors in the child.

    The log of a supervisor is given after them.
    """
    borrows = terminal is not None and launch.stdin == "terminal"
    # As bytes: how a name becomes text may be set for vx (PYTHONUTF8) and not for the nursery.
    body = {
        "argv": [os.fsencode(word) for word in launch.argv],
        "cwd": os.fsencode(launch.cwd),
        "env": {
            _encoded(name): _encoded(value) for name, value in (*launch.env.items(), (MARK, mark))
        },
        "targets": targets,
        "held": launch.stdin == "held",
        "owner": launch.owner,
        "mark": mark,
        "lender": (terminal.group, terminal.modes) if terminal and borrows else None,
        "deaf": borrows and launch.boxed,
        "supervised": launch.supervision
        and {"program": launch.supervision.program, **launch.supervision.told},
    }
    return marshal.dumps(body)


def launch_error(launch: Launch, step: str, number: int) -> LaunchError:
    """What it means to the user that this step failed with this errno."""
    reason = os.strerror(number)
    missing = number in (errno.ENOENT, errno.ENOTDIR)
    program = launch.argv[0]
    if step == "directory":
        if missing:
            return LaunchError(127, f"the working directory {launch.cwd} does not exist")
        return LaunchError(126, f"cannot enter the working directory {launch.cwd}: {reason}")
    if step == "program" and missing:
        if os.path.exists(program):
            return LaunchError(127, f"the interpreter that {program} names does not exist")
        return LaunchError(127, f"{program}: no such program")
    if step == "program" and number in (errno.EACCES, errno.ENOEXEC, errno.EISDIR):
        return LaunchError(126, f"{program} is not executable: {reason}")
    return refused(f"cannot start {program}", number)


def refused(what: str, number: int) -> LaunchError:
    """The system refused, with this errno, to do this."""
    return LaunchError(126, f"{what}: {os.strerror(number)}", remedy(number))


def child_pid(info: bytes) -> int | None:
    """What bwrap wrote to its info descriptor; nothing if it failed before it had a child."""
    return json.loads(info)["child-pid"] if info else None
