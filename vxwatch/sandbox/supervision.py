"""Has the supervisor of a box tell what it was denied, and reads what that tells.

The cheapest way to learn of it, where the kernel has it (Linux 5.5) and nobody around vx uses it
already: `probe` finds out by trying.
"""

import os
import platform
import stat
from functools import cache
from typing import TYPE_CHECKING

from vxwatch.process.launching import Supervision
from vxwatch.sandbox.calls import EMPTY_PATHS, NUMBERS, table
from vxwatch.sandbox.seccomp import notifying_program
from vxwatch.sandbox.tracelog import Attempt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vxwatch.sandbox.calls import Wish
    from vxwatch.sandbox.findings import Scene

_FIELDS = 4
_WISHES: "Mapping[bytes, Wish]" = {b"read": "read", b"write": "write", b"connect": "connect"}


def may_supervise(bwrap: str) -> bool:
    """Whether it is worth a try: a program with more rights could not be started that way."""
    try:
        mode = os.stat(bwrap).st_mode
    except OSError:
        return False
    return platform.machine() in NUMBERS and not mode & (stat.S_ISUID | stat.S_ISGID)


def supervision(scene: "Scene", log: int, *, looks: bool) -> Supervision:
    """What the supervisor of this box is told; `looks`: of calls that only look at names, too."""
    calls = table(platform.machine(), looks=looks)
    kinds = {m.path: m.kind for m in scene.mounts if m.kind not in {"link", "folder"}}
    told = {"calls": calls, "kinds": kinds, "roots": (scene.root, scene.directory)}
    return Supervision(heard_by(looks=looks), told, log)


@cache
def heard_by(*, looks: bool) -> bytes:
    """The filter of a box with a supervisor."""
    machine = platform.machine()
    calls = table(machine, looks=looks)
    return notifying_program(
        machine, {number: EMPTY_PATHS.get(name) for number, (name, *_) in calls.items()}
    )


class SupervisorLog:
    """The records of one supervisor; see `process.supervisor` for their form.

    `attempts`, each once, in order. `begun` says that the command was heard of at all, `ended` that
    the supervisor saw the end of the box, `cut` that something is not told.
    """

    def __init__(self) -> None:
        self.attempts: dict[Attempt, None] = {}
        self.begun = False
        self.ended = False
        self.cut = False
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the records."""
        *fields, self._rest = (self._rest + data).split(b"\0")
        whole = len(fields) - len(fields) % _FIELDS
        if fields[whole:]:
            self._rest = b"\0".join((*fields[whole:], self._rest))
        for start in range(0, whole, _FIELDS):
            self._take(*fields[start : start + _FIELDS])

    def failed(self, _code: int) -> bool:
        """Whether the supervisor did not do its work to the end."""
        return not (self.begun and self.ended)

    def _take(self, wish: bytes, name: bytes, call: bytes, error: bytes) -> None:
        if wish in _WISHES:
            path = name.decode("utf-8", "surrogateescape")
            self.attempts[Attempt(_WISHES[wish], path, call.decode(), error.decode())] = None
        self.begun |= wish == b"begun"
        self.ended |= wish == b"over"
        self.cut |= wish == b"cut"
