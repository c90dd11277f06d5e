"""What a session can tell of itself while it runs: its servers, what runs now, and what servers said.

Listens to the events behind the masking, so nothing it knows holds the value of a secret. What it
keeps is bounded: of each server some last output, of tasks only those that run.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from vxwatch.events import (
    Before,
    CycleEnded,
    CycleStarted,
    Emit,
    Event,
    Outcome,
    RunStarted,
    ServerExited,
    ServerReady,
    TaskEnded,
    TaskOutput,
    TaskStarted,
)
from vxwatch.session.tail import Tail

if TYPE_CHECKING:
    from vxwatch.model import TaskId

State = Literal[
    "waiting",  # not started yet: what it depends on is not done, or failed
    "starting",
    "ready",
    "stopped",  # by us
    "crashed",  # it was ready, and ended by itself
    "pausing",  # it ended by itself, and starts again in a moment
    "failed",  # it did not get ready
]


@dataclass(slots=True)
class Standing:
    """One server as it stands. `starts` counts its lives; `code` is how the last one ended."""

    state: State = "waiting"
    since: float = 0.0
    starts: int = 0
    code: int | None = None
    urls: tuple[str, ...] = ()
    tail: Tail = field(default_factory=Tail)

    @property
    def up(self) -> bool:
        """Whether a process of it lives."""
        return self.state in ("starting", "ready")


class Board(Before):
    """An `Emit` in front of another one. The clock is a monotonic one, in seconds."""

    def __init__(self, emit: Emit, clock: Callable[[], float]) -> None:
        self._emit = emit
        self.clock = clock
        self.begun = clock()
        self.cycle = 0
        self.idle = True
        self.servers: dict[TaskId, Standing] = {}
        self.running: dict[TaskId, float] = {}
        self.on_idle: Callable[[], None] | None = None

    def __call__(self, event: Event, /) -> None:
        """Take note of the event, and pass it on."""
        self._note(event)
        self._emit(event)
        if isinstance(event, CycleEnded) and self.on_idle is not None:
            self.on_idle()

    def _note(self, event: Event) -> None:
        match event:
            case TaskOutput(task, _, data) if task in self.servers:
                self.servers[task].tail.add(data)
            case RunStarted():
                known = self.servers
                self.servers = {t: known.get(t, Standing()) for t in sorted(event.servers)}
            case CycleStarted():
                self.idle = False
            case CycleEnded():
                self.cycle, self.idle = event.number, True
                self.running.clear()
            case TaskStarted(task):
                self._started(task)
            case ServerReady(task, urls):
                self._change(task, "ready")
                if task in self.servers:
                    self.servers[task].urls = urls
            case ServerExited(task, code, asked, again=again):
                ended: State = "stopped" if asked else "crashed"
                self._change(task, ended if again is None else "pausing", code)
            case TaskEnded(outcome):
                self._ended(outcome)
            case _:
                pass

    def _started(self, task: "TaskId") -> None:
        standing = self.servers.get(task)
        if standing is None:
            self.running[task] = self.clock()
            return
        standing.starts += 1
        standing.since = self.clock()
        self._change(task, "starting")

    def _ended(self, outcome: Outcome) -> None:
        self.running.pop(outcome.task, None)
        if outcome.status == "failed":
            self._change(outcome.task, "failed", outcome.code)
        elif outcome.status == "aborted":
            self._change(outcome.task, "stopped", outcome.code)

    def _change(self, task: "TaskId", state: State, code: int | None = None) -> None:
        standing = self.servers.get(task)
        if standing is not None:
            standing.state, standing.code = state, code
