"""How a task ended. Apart from `events`, which a run that only restores does not load."""

from typing import Literal, NamedTuple

from vxwatch.model import TaskId

Status = Literal[
    "ran",  # exit 0
    "fresh",  # its key did not move, nothing ran
    "restored",  # its key is an earlier one: what it made then was put back
    "ready",  # a server that came up (or came up again) in this cycle
    "kept",  # a server that was left alone
    "failed",
    "skipped",  # something it depends on did not succeed
    "aborted",  # ended by us before it was done
]


class Outcome(NamedTuple):
    """How one task ended in one cycle.

    `code` is the exit code (128 + n after signal n), None where nothing exited. `detail` is
    the cause in the user's terms ("timed out after 30s"). `blocked_by` names what a skipped
    task waited for. `cpu` in seconds, `peak_rss` in bytes, 0 where unknown. `attempts`: how often it
    was tried; times are those of all of them. `faults` of them failed by the command's own doing: not
    by a timeout, nor by what vx or the sandbox refused. `findings` say what its sandbox denied it, each
    as what follows the task's name.
    """

    task: TaskId
    status: Status
    code: int | None = None
    seconds: float = 0.0
    detail: str = ""
    hint: str = ""
    blocked_by: TaskId | None = None
    cpu: float = 0.0
    peak_rss: int = 0
    attempts: int = 1
    faults: int = 0
    findings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether what depends on the task may go on."""
        return self.status in ("ran", "fresh", "restored", "ready", "kept")
