"""One one-shot task: start it, wait for it, say how it ended; try again where the config says so.

Expected failure is a value: a task that fails, cannot be started or takes too long is an
`Outcome`. Cancelling starts the polite stop of its tree, never cuts it short, and ends the
attempts.
"""

import asyncio
import shlex
from collections.abc import AsyncIterator, Awaitable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Literal

from vxwatch.durations import format_duration
from vxwatch.errors import UserError
from vxwatch.events import Outcome, TaskOutput, TaskRetried, TaskStarted
from vxwatch.process.nursery import OnOutput
from vxwatch.process.tree import LaunchError
from vxwatch.session.born import HINT, appeared
from vxwatch.session.denied import remark, report_of, with_report
from vxwatch.session.shell import in_place_of_the_shell
from vxwatch.session.unit import Unit, bounded, stop, unit

if TYPE_CHECKING:
    from vxwatch.model import Task
    from vxwatch.process.tree import Exit
    from vxwatch.sandbox.trace import Report
    from vxwatch.session.session import Session

TIMED_OUT = 124
"""The exit code of a task that was ended by its timeout, as timeout(1) has it."""
_LATE = "timed out after"


def command_line(task: "Task", arguments: tuple[str, ...]) -> str:
    """The task's command with forwarded arguments appended, each quoted for the shell."""
    assert task.command is not None
    return " ".join((task.command, *map(shlex.quote, arguments)))


async def execute(session: "Session", task: "Task") -> Outcome:
    """Run the task to its end: to its first success, or to its last failure."""
    command = command_line(task, session.arguments(task))
    if session.options.learn and task.id in session.plan.requested:
        from vxwatch.session.learning import learning  # noqa: PLC0415 - few runs do

        task = await learning(session, task)
    session.emit(TaskStarted(task.id, command))
    most = 1 + task.retries
    attempt, outcome = 1, await _attempt(session, task, command)
    while outcome.status == "failed" and outcome.code is not None and attempt < most:
        attempt += 1
        session.emit(TaskRetried(task.id, attempt, most, _cause(outcome)))
        await session.caching.clear(task)
        outcome = _together(outcome, await _attempt(session, task, command))
    return outcome._replace(attempts=attempt)


async def _attempt(session: "Session", task: "Task", command: str) -> Outcome:
    outcome, report = await _once(session, task, command)
    if report is None:
        return outcome
    remark(session, task, report)
    if report.lost:
        outcome, _ = await _once(session, task, command)
    return with_report(outcome, report, task)


async def _once(session: "Session", task: "Task", command: str) -> "tuple[Outcome, Report | None]":
    loop = asyncio.get_running_loop()
    begun = loop.time()

    def on_output(stream: Literal["stdout", "stderr"], data: bytes) -> Awaitable[None] | None:
        session.emit(TaskOutput(task.id, stream, data))
        return session.emit.drained()

    timeout = task.timeout
    if timeout is None and not task.interactive:
        timeout = session.workspace.timeout
    try:
        async with _unit(session, task, command, on_output) as live:
            end = await bounded(live.tree, timeout)
            late = end is None
            if end is None:
                end = await stop(session, task, live.tree)
            report = await report_of(live, end)
            if late and report is not None and report.lost:
                report = None  # its tracer was stopped with it
    except LaunchError as error:
        failed = Outcome(task.id, "failed", error.code, detail=error.message, hint=error.hint)
        return failed, None
    except UserError as error:
        return Outcome(task.id, "failed", detail=error.message, hint=error.hint), None
    if task.interactive and not late and (number := session.foreground.ended_by(end.code)):
        session.interrupt(number)
        return Outcome(task.id, "aborted", end.code, seconds=loop.time() - begun), None
    detail = _detail(end) or live.explain(end.code)
    if late:
        assert timeout is not None
        detail = f"{_LATE} {format_duration(timeout)}"
    code, hint = TIMED_OUT if late else end.code, ""
    faults = int(bool(code) and end.started and not late)
    if born := live.born():
        code, detail, hint, faults = code or 1, appeared(session.workspace.root, born), HINT, 0
    outcome = Outcome(
        task.id,
        "failed" if code else "ran",
        code,
        seconds=loop.time() - begun,
        detail=detail,
        hint=hint,
        cpu=end.cpu,
        peak_rss=end.peak_rss,
        faults=faults,
    )
    return outcome, report


def _unit(
    session: "Session", task: "Task", command: str, on_output: OnOutput
) -> AbstractAsyncContextManager[Unit]:
    if task.interactive:
        return _in_front(session, task, command, on_output)
    return unit(session, task, command, on_output)


@asynccontextmanager
async def _in_front(
    session: "Session", task: "Task", command: str, on_output: OnOutput
) -> AsyncIterator[Unit]:
    foreground = session.foreground
    async with (
        foreground.turn(),
        unit(session, task, in_place_of_the_shell(command), on_output, foreground.stdin) as live,
    ):
        foreground.follow(live.tree)
        yield live


def _cause(outcome: Outcome) -> str:
    """Why an attempt failed, in a few words."""
    if outcome.code == TIMED_OUT and outcome.detail.startswith(_LATE):
        return outcome.detail.replace(_LATE, "a timeout of")
    return f"exit {outcome.code}"


def _together(earlier: Outcome, last: Outcome) -> Outcome:
    """The outcome of the last attempt, with what all of them took."""
    return last._replace(
        seconds=earlier.seconds + last.seconds,
        cpu=earlier.cpu + last.cpu,
        peak_rss=max(earlier.peak_rss, last.peak_rss),
        faults=earlier.faults + last.faults,
    )


def _detail(end: "Exit") -> str:
    if not end.started:
        return "its sandbox could not be built"
    if end.output_cut:
        return "its output was cut: a process it left behind still held it open"
    return ""
