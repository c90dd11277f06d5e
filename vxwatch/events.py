"""What happens in a session, as values. `output` turns them into what a person sees.

Few kinds, because each class costs import time. Seconds are floats; `at` is a monotonic
clock reading taken by the emitter.
"""

from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager
from typing import Literal, NamedTuple, Protocol

from vxwatch.errors import UserError
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


class RunStarted(NamedTuple):
    """A session begins: what was requested, what is planned, and which tasks are servers."""

    verb: Literal["run", "watch"]
    requested: tuple[TaskId, ...]
    planned: tuple[TaskId, ...]
    servers: frozenset[TaskId]
    broad: bool


class CycleStarted(NamedTuple):
    """A cycle begins; `paths` are the changes that caused it (empty for the first)."""

    number: int
    paths: tuple[str, ...]
    tasks: tuple[TaskId, ...]


class TaskStarted(NamedTuple):
    """The task's command was started."""

    task: TaskId
    command: str


class TaskOutput(NamedTuple):
    """Bytes the task's tree wrote, as they were read: any cut, any bytes."""

    task: TaskId
    stream: Literal["stdout", "stderr"]
    data: bytes


class TaskRetried(NamedTuple):
    """An attempt failed, with that cause, and the task is tried again: attempt `attempt` of `most`."""

    task: TaskId
    attempt: int
    most: int
    cause: str


class TaskRestarted(NamedTuple):
    """A run of the task was ended, because what it takes moved: it starts anew.

    `path` is what moved, "" where that is the work of another task.
    """

    task: TaskId
    path: str


class TaskEnded(NamedTuple):
    """A task of the cycle is done, whatever way."""

    outcome: Outcome


class ServerReady(NamedTuple):
    """A server answers; `urls` are what a browser may open."""

    task: TaskId
    urls: tuple[str, ...]
    restarted: bool


class ServerExited(NamedTuple):
    """A server is gone. `asked`: by us, so it is no crash.

    `again` is in how many seconds it starts again by itself, None if it does not; `detail` how it
    ended, "" for one that was ready.
    """

    task: TaskId
    code: int
    asked: bool
    detail: str = ""
    again: float | None = None


class CycleEnded(NamedTuple):
    """One pass over the graph is done; `outcomes` holds the tasks that this cycle looked at."""

    number: int
    outcomes: tuple[Outcome, ...]
    kept: int
    seconds: float
    paths: tuple[str, ...]


class Watching(NamedTuple):
    """Every watcher delivered its probe: edits from now on are seen."""

    projects: int


class Notice(NamedTuple):
    """One line the user should know, with what to do where that helps."""

    text: str
    hint: str = ""
    level: Literal["note", "warning", "error"] = "note"


class Learned(NamedTuple):
    """What a task needs of its sandbox, as lines for its config."""

    task: TaskId
    lines: tuple[str, ...]


class Shown(NamedTuple):
    """What somebody at the terminal asked to see: lines of ours, then what a server wrote.

    `clear`: on an empty screen.
    """

    lines: tuple[str, ...] = ()
    output: bytes = b""
    clear: bool = False


class Refused(NamedTuple):
    """Something the user asked for cannot be done; the session goes on."""

    error: UserError


class RunEnded(NamedTuple):
    """The session is over and everything it owned is gone."""

    outcomes: tuple[Outcome, ...]
    seconds: float
    signal: int | None


Event = (
    RunStarted
    | CycleStarted
    | TaskStarted
    | TaskOutput
    | TaskRetried
    | TaskRestarted
    | TaskEnded
    | ServerReady
    | ServerExited
    | CycleEnded
    | Watching
    | Notice
    | Learned
    | Refused
    | Shown
    | RunEnded
)


class Emit(Protocol):
    """Where events go. Calling never blocks and never raises."""

    def __call__(self, event: Event, /) -> None:
        """Show or record the event."""

    def quiet(self) -> AbstractAsyncContextManager[None]:
        """Inside the block nothing is written: what is emitted waits for its end."""

    def drained(self) -> Awaitable[None] | None:
        """What to wait for until what was emitted is written, as far as memory bounds ask for it.

        None where they do not, which costs nothing.
        """


class Before:
    """An `Emit` in front of another one, which is `_emit`."""

    _emit: Emit

    def quiet(self) -> AbstractAsyncContextManager[None]:
        """As the one behind it does."""
        return self._emit.quiet()

    def drained(self) -> Awaitable[None] | None:
        """As the one behind it says."""
        return self._emit.drained()
