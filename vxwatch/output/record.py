"""Listens to the events of a run, for what is written about it at its end."""

from collections.abc import Callable

from vxwatch.events import Before, Emit, Event, Outcome, RunEnded, TaskEnded


class Record(Before):
    """An `Emit` in front of another one. The clock is that of the wall, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._emit: Emit
        self._ends: dict[str, float] = {}
        self.begun = clock()
        self.ended: RunEnded | None = None

    def before(self, emit: Emit) -> "Record":
        """Pass on to this one."""
        self._emit = emit
        return self

    def __call__(self, event: Event, /) -> None:
        """Take note of the event, and pass it on."""
        if isinstance(event, TaskEnded):
            self._ends[event.outcome.task] = self._clock()
        elif isinstance(event, RunEnded):
            self.ended = event
        self._emit(event)

    def started(self, outcome: Outcome) -> float:
        """When the task was started, as far as its end and how long it took tell."""
        return self._ends.get(outcome.task, self.begun) - outcome.seconds
