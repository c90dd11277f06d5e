"""A session that may run something: its event loop, its signals, its output, its exit code."""

import asyncio
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from vxwatch.cli.signals import Early, answer, hearing
from vxwatch.events import Emit, RunEnded, RunStarted
from vxwatch.masking import Masker
from vxwatch.output.plain import Plain
from vxwatch.output.style import Style, wants_colour
from vxwatch.output.writer import Writer
from vxwatch.process.suspension import Loop
from vxwatch.session.knowledge import Knowledge
from vxwatch.session.planning import Options, Plan
from vxwatch.session.result import exit_code
from vxwatch.session.session import Session

if TYPE_CHECKING:
    from vxwatch.output.record import Record
    from vxwatch.session.board import Board

FLUSH_PATIENCE = 2.0
"""Seconds that a reader who stopped reading can hold up the end after a signal."""


def live(
    plan: Plan,
    options: Options,
    known: Knowledge,
    heeded: list[signal.Signals],
    early: Early,
    record: "Record | None" = None,
) -> int:
    """Run the session; its exit code. `early` answers signals before it and once all is gone.

    The `record` hears what happens, too.
    """
    writer, masker = Writer(), Masker()
    renderer = _renderer(writer)
    patience: float | None = FLUSH_PATIENCE
    fault: Exception | None = None
    code, stopped = 0, True
    try:
        # Made before anything is started: it may refuse.
        emit: Emit = renderer if record is None else record.before(renderer)
        board = None
        if options.verb == "watch" or plan.servers:
            from vxwatch.session.board import Board

            emit = board = Board(emit, time.monotonic)
        # Plain values: `os.environ` decodes all of them for each task.
        environ = dict(os.environ)
        session = Session(plan, options, emit, environ, masker, known)
        with asyncio.Runner(loop_factory=Loop) as runner:
            code, stopped = runner.run(_session(session, heeded, early, board))
        if not stopped:
            # A reader may take its time, and whoever waits may lose patience.
            patience = None
            answer(heeded, early.interrupt)
    except Exception as error:  # noqa: BLE001 - told when what was printed before is written
        fault = error
    finally:
        renderer.close()
        writer.close(patience)
    if fault is not None:
        from vxwatch.cli import failures

        return failures.report(fault, masker)
    if writer.failure is not None:
        from vxwatch.output import diagnostics

        diagnostics.report(diagnostics.unwritable(writer.failure))
        return code or 1
    return code


async def _session(
    session: Session, heeded: list[signal.Signals], early: Early, board: "Board | None"
) -> tuple[int, bool]:
    """The session from its first event to its last; the exit code, and whether a signal ended it."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    plan, verb = session.plan, session.options.verb
    with hearing(heeded, session.interrupt, session.suspend):
        if early.number is not None:
            session.interrupt(early.number)
        started = RunStarted(verb, plan.requested, plan.graph.order, plan.servers, plan.broad)
        session.emit(started)
        async with session:
            await _work(session, board)
        outcomes = session.outcomes
        session.emit(RunEnded(outcomes, loop.time() - begun, session.stop_signal))
    stopped = session.stop_signal is not None
    if verb == "watch":
        return 0, stopped
    return exit_code(outcomes, session.stop_signal), stopped


async def _work(session: Session, board: "Board | None") -> None:
    """Do what was asked for; who can ask for more meanwhile is heard."""
    if board is None:
        await _run(session)
        return
    from vxwatch.session.control import reachable

    async with reachable(session, board):
        if session.options.verb == "run":
            await _run(session)
        else:
            await _watch(session, board)


async def _run(session: Session) -> None:
    from vxwatch.session.run import run

    await session.until_stopped(run(session))


async def _watch(session: Session, board: "Board") -> None:
    from vxwatch.cli.keys import listening
    from vxwatch.session.watching import Watch

    watch = Watch(session)
    async with listening(session, board, watch):
        await session.until_stopped(watch.run())


def _renderer(writer: Writer) -> Plain:
    terminal = os.isatty(1) and os.environ.get("TERM") != "dumb"
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    colour = wants_colour(os.environ, terminal=terminal)
    style = Style(colour=colour, unicode=encoding == "utf8", terminal=terminal)
    return Plain(writer, style, ci=bool(os.environ.get("CI")))
