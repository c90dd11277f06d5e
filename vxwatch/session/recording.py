"""Listens to what tasks write, and keeps it for when their results are used again.

Stands before everything that shows output, and masks by itself: what is kept never waits for
what is shown, and never holds the value of a secret.
"""

from typing import TYPE_CHECKING, Literal

from vxwatch.cache.log import Log
from vxwatch.events import Before, Emit, Event, TaskOutput
from vxwatch.masking import MaskedStream, Masker

if TYPE_CHECKING:
    from vxwatch.model import TaskId

Stream = Literal["stdout", "stderr"]


class Recording(Before):
    """An `Emit` in front of another one."""

    def __init__(self, emit: Emit, masker: Masker) -> None:
        self._emit = emit
        self._masker = masker
        self._logs: dict[TaskId, Log] = {}
        self._streams: dict[tuple[TaskId, Stream], MaskedStream] = {}

    def __call__(self, event: Event, /) -> None:
        """Pass the event on."""
        if isinstance(event, TaskOutput) and event.task in self._logs:
            self._feed(event)
        self._emit(event)

    def begin(self, task: "TaskId") -> None:
        """Keep what the task writes from now on."""
        self._logs[task] = Log()

    def end(self, task: "TaskId") -> Log:
        """What the task wrote since; nothing more of it is kept."""
        log = self._logs.pop(task, None) or Log()
        for name in ("stdout", "stderr"):
            stream = self._streams.pop((task, name), None)
            if stream is not None:
                log.feed(name, stream.end())
        return log

    def _feed(self, event: TaskOutput) -> None:
        key: tuple[TaskId, Stream] = event.task, event.stream
        log = self._logs[event.task]
        if not self._masker:
            log.feed(event.stream, event.data)
            return
        if key not in self._streams:
            self._streams[key] = MaskedStream(self._masker)
        log.feed(event.stream, self._streams[key].feed(event.data))
