"""`vx run` and `vx watch` at the edge: environment, signals, output, exit code."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any, Literal, NoReturn

from vxwatch.cli import failures
from vxwatch.cli.directory import working_directory
from vxwatch.cli.signals import answer, hearing
from vxwatch.config.concurrency import tasks_at_once
from vxwatch.durations import parse_duration
from vxwatch.errors import UserError
from vxwatch.events import Emit, RunEnded, RunStarted
from vxwatch.masking import Masker
from vxwatch.output import diagnostics
from vxwatch.output.plain import Plain
from vxwatch.output.style import Style, wants_colour
from vxwatch.output.writer import Writer
from vxwatch.process.suspension import Loop
from vxwatch.session.planning import Options, Plan, make_plan
from vxwatch.session.result import exit_code

Verb = Literal["run", "watch"]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FLUSH_PATIENCE = 2.0
"""Seconds that a reader who stopped reading can hold up the end after a signal."""


class Interrupted(BaseException):
    """A signal came while there was no session to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def begin(verb: Verb, *, forwarded: tuple[str, ...], **given: Any) -> int:
    """Plan, run and end a session; return the exit code."""
    # A signal that is ignored from the start (nohup, a script's `&`) stays ignored.
    heeded = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    try:
        answer(heeded, _interrupted)
        # Who writes to a terminal from the background is not to be stopped for it (stty tostop).
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        options = _options(verb, forwarded, given, os.environ)
        plan = make_plan(options)
        _refuse_a_task_of(plan.workspace.root, os.environ)
        return _run(plan, options, heeded)
    except Interrupted as interrupted:
        return 128 + interrupted.number if verb == "run" else 0
    finally:
        answer(heeded, signal.SIG_IGN)


def _refuse_a_task_of(root: str, environ: Mapping[str, str]) -> None:
    """A task that calls vx on its own workspace would wait for itself, or run without end."""
    if environ.get("VX_WORKSPACE") == root:
        task = environ.get("VX_TASK", "a task")
        raise UserError(
            "nested",
            f"{task} calls vx on the workspace that it is part of",
            "name what it needs in its depends_on instead",
        )


def _run(plan: Plan, options: Options, heeded: list[signal.Signals]) -> int:
    writer, masker = Writer(), Masker()
    renderer = _renderer(writer)
    patience: float | None = FLUSH_PATIENCE
    fault: Exception | None = None
    code, stopped = 0, True
    try:
        with asyncio.Runner(loop_factory=Loop) as runner:
            code, stopped = runner.run(_session(plan, options, renderer, heeded, masker))
        if not stopped:
            # A reader may take its time, and whoever waits may lose patience.
            patience = None
            answer(heeded, _interrupted)
    except Exception as error:  # noqa: BLE001 - told when what was printed before is written
        fault = error
    finally:
        renderer.close()
        writer.close(patience)
    if fault is not None:
        return failures.report(fault, masker)
    if writer.failure is not None:
        diagnostics.report(diagnostics.unwritable(writer.failure))
        return code or 1
    return code


async def _session(
    plan: Plan, options: Options, emit: Emit, heeded: list[signal.Signals], masker: Masker
) -> tuple[int, bool]:
    """The session from its first event to its last; the exit code, and whether a signal ended it."""
    from vxwatch.session.session import Session

    loop = asyncio.get_running_loop()
    begun = loop.time()
    # Made before anything is started: it may refuse.
    session = Session(plan, options, emit, os.environ, masker)
    with hearing(heeded, session.interrupt, session.suspend):
        emit(RunStarted(options.verb, plan.requested, plan.graph.order, plan.servers, plan.broad))
        async with session:
            await session.until_stopped(_verb(session))
        outcomes = session.outcomes
        session.emit(RunEnded(outcomes, loop.time() - begun, session.stop_signal))
    stopped = session.stop_signal is not None
    if options.verb == "watch":
        return 0, stopped
    return exit_code(outcomes, session.stop_signal), stopped


def _verb(session: Any) -> Any:
    if session.options.verb == "watch":
        from vxwatch.session.watching import watch

        return watch(session)
    from vxwatch.session.run import run

    return run(session)


def _renderer(writer: Writer) -> Plain:
    terminal = os.isatty(1) and os.environ.get("TERM") != "dumb"
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    colour = wants_colour(os.environ, terminal=terminal)
    style = Style(colour=colour, unicode=encoding == "utf8", terminal=terminal)
    return Plain(writer, style, ci=bool(os.environ.get("CI")))


def _options(
    verb: Verb, forwarded: tuple[str, ...], given: Mapping[str, Any], environ: Mapping[str, str]
) -> Options:
    if not given["words"]:
        raise UserError("no-task", f"vx {verb} needs a task", "`vx show` lists what there is")
    return Options(
        verb=verb,
        names=given["words"],
        directory=working_directory(),
        everywhere=given["everywhere"],
        filters=given["filters"],
        affected=given.get("affected"),
        alone=given.get("alone", False),
        arguments=forwarded,
        concurrency=_concurrency(given["concurrency"]),
        keep_going=given["keep_going"],
        grace=_seconds(environ.get("VX_KILL_GRACE") or "2s", "VX_KILL_GRACE"),
        quiet=_seconds(given.get("debounce", "15ms"), "--debounce"),
        poll=environ.get("VX_WATCH_POLL", "0") not in ("", "0"),
    )


def _seconds(text: str, name: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        hint = 'write a number with its unit: "500ms", "2s", "1m"'
        raise UserError("bad-duration", f"{name}: {error}", hint) from None


def _concurrency(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return tasks_at_once(text, os.cpu_count() or 1)
    except ValueError as error:
        message = f"--concurrency: {error}, got {text!r}"
        raise UserError("bad-concurrency", message) from None


def _interrupted(number: int, _frame: FrameType | None) -> NoReturn:
    raise Interrupted(number)
