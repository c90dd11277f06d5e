"""Events on their way out, without the values of secrets.

Everything that is shown, recorded or passed on comes from events, so this is the one place where
values are taken out. Names (of tasks, of variables) stay as they are. Output that ends as a value
begins is held back until more of it comes, the stream ends, or nothing came for `QUIET` seconds.
"""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from vxwatch.errors import ConfigError, UserError
from vxwatch.events import (
    Before,
    CycleEnded,
    CycleStarted,
    Emit,
    Event,
    Learned,
    Notice,
    Outcome,
    Refused,
    RunEnded,
    ServerExited,
    TaskEnded,
    TaskOutput,
    TaskRestarted,
    TaskRetried,
    TaskStarted,
)
from vxwatch.masking import MaskedStream, Masker

if TYPE_CHECKING:
    from vxwatch.model import TaskId

QUIET = 0.05
"""Seconds without output of a task after which what is held back of it is shown."""

Stream = tuple["TaskId", Literal["stdout", "stderr"]]


class MaskedEvents(Before):
    """An `Emit` in front of another one."""

    def __init__(self, emit: Emit, masker: Masker) -> None:
        self._emit = emit
        self._masker = masker
        self._streams: dict[Stream, MaskedStream] = {}
        self._timers: dict[Stream, asyncio.TimerHandle] = {}

    def __call__(self, event: Event, /) -> None:
        """Pass the event on."""
        if not self._masker:
            self._emit(event)
        elif isinstance(event, TaskOutput):
            self._output(event)
        else:
            self._end_streams(event)
            self._emit(self._without_values(event))

    def _output(self, event: TaskOutput) -> None:
        key = event.task, event.stream
        stream = self._streams.get(key)
        if stream is None:
            stream = self._streams[key] = MaskedStream(self._masker)
        self._show(key, stream.feed(event.data))
        if timer := self._timers.pop(key, None):
            timer.cancel()
        if stream.held:
            loop = asyncio.get_running_loop()
            self._timers[key] = loop.call_later(QUIET, self._pause, key)

    def _pause(self, key: Stream) -> None:
        self._timers.pop(key, None)
        self._show(key, self._streams[key].pause())

    def _end_streams(self, event: Event) -> None:
        match event:
            case (
                TaskRetried(task)
                | TaskRestarted(task)
                | ServerExited(task)
                | TaskEnded(Outcome(task))
            ):
                self._end_of(task)
            case RunEnded():
                for task, _ in list(self._streams):
                    self._end_of(task)
            case _:
                pass

    def _end_of(self, task: "TaskId") -> None:
        keys: tuple[Stream, ...] = (task, "stdout"), (task, "stderr")
        for key in keys:
            if timer := self._timers.pop(key, None):
                timer.cancel()
            if stream := self._streams.pop(key, None):
                self._show(key, stream.end())

    def _show(self, key: Stream, data: bytes) -> None:
        if data:
            self._emit(TaskOutput(*key, data))

    def _without_values(self, event: Event) -> Event:
        text = self._masker.text
        match event:
            case TaskStarted():
                event = event._replace(command=text(event.command))
            case TaskRetried():
                event = event._replace(cause=text(event.cause))
            case TaskEnded():
                event = event._replace(outcome=self._outcome(event.outcome))
            case CycleStarted():
                event = event._replace(paths=self._texts(event.paths))
            case CycleEnded():
                outcomes = tuple(map(self._outcome, event.outcomes))
                event = event._replace(outcomes=outcomes, paths=self._texts(event.paths))
            case RunEnded():
                event = event._replace(outcomes=tuple(map(self._outcome, event.outcomes)))
            case Notice():
                event = event._replace(text=text(event.text), hint=text(event.hint))
            case Learned():
                event = event._replace(lines=self._texts(event.lines))
            case Refused():
                event = event._replace(error=masked_error(event.error, self._masker))
            case _:
                pass
        return event

    def _outcome(self, outcome: Outcome) -> Outcome:
        if not (outcome.detail or outcome.hint or outcome.findings):
            return outcome
        text = self._masker.text
        return outcome._replace(
            detail=text(outcome.detail),
            hint=text(outcome.hint),
            findings=self._texts(outcome.findings),
        )

    def _texts(self, texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(map(self._masker.text, texts))


def masked_error(error: UserError, masker: Masker) -> UserError:
    """The same error without the values."""
    text = masker.text
    if isinstance(error, ConfigError):
        return ConfigError(
            tuple(
                one._replace(file=text(one.file), message=text(one.message), hint=text(one.hint))
                for one in error.problems
            )
        )
    return UserError(error.slug, text(error.message), text(error.hint), error.exit_code)
