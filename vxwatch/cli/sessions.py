"""`vx run` and `vx watch` at the edge: environment, signals, output, exit code."""

import gc
import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from typing import Any, Literal

from vxwatch.cache.loaded import keep
from vxwatch.cache.standing import Command
from vxwatch.cli.directory import given_place, working_directory
from vxwatch.cli.nothing import UNTOLD, say
from vxwatch.cli.signals import Early, Interrupted, answer
from vxwatch.config.concurrency import tasks_at_once
from vxwatch.durations import parse_duration
from vxwatch.errors import UserError
from vxwatch.output.text import counts
from vxwatch.session.knowledge import Knowledge, listing_ahead
from vxwatch.session.planning import Options, Plan, make_plan
from vxwatch.workspace.git import Listing

Verb = Literal["run", "watch"]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def begin(verb: Verb, *, forwarded: tuple[str, ...], **given: Any) -> int:
    """Plan, run and end a session; return the exit code."""
    # A signal that is ignored from the start (nohup, a script's `&`) stays ignored.
    heeded = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    early = Early()
    try:
        answer(heeded, early.interrupt)
        # Who writes to a terminal from the background is not to be stopped for it (stty tostop).
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        options = _options(verb, forwarded, given, os.environ)
        # A watch has to list the files after it began to watch them.
        with listing_ahead(options.directory if verb == "run" else "") as listing:
            return _begin(options, given, heeded, early, listing)
    except Interrupted as interrupted:
        return 128 + interrupted.number if verb == "run" else 0
    finally:
        answer(heeded, signal.SIG_IGN)


def _begin(
    options: Options,
    given: Mapping[str, Any],
    heeded: list[signal.Signals],
    early: Early,
    listing: Listing | None,
) -> int:
    plan = make_plan(options)
    if given.get("graph") or given.get("dry"):
        return _instead(plan, options, given)
    if options.learn:
        from vxwatch.session.learning import check

        check(plan)
    _refuse_a_task_of(plan.workspace.root, os.environ)
    plan = _kept(plan, options)
    if any(given.get(option) for option in ("summarize", "profile", "report")):
        return _reported(plan, options, given, heeded, early)
    with closing(Knowledge(plan, options, os.environ, listing)) as known:
        for text, hint in UNTOLD:
            known.tell(text, hint)
        code = _nothing_to_do(plan, options, known) if options.verb == "run" else None
        if code is not None:
            return code
        with _nursery_ahead(plan):
            _get_ready()
            from vxwatch.cli.live import live

            return live(plan, options, known, heeded, early)


def _nursery_ahead(plan: Plan) -> AbstractContextManager[None]:
    """Have the nursery's process come up while the rest loads, unless a task is to get the terminal."""
    if any(plan.workspace.task(task).interactive for task in plan.graph.order):
        return nullcontext()
    from vxwatch.process.ahead import started

    return started()


def _get_ready() -> None:
    """Load what a session that may run something is made of, and collect garbage from then on."""
    from vxwatch.cli import eventloop

    eventloop.load()
    import vxwatch.cli.live  # noqa: F401

    gc.freeze()
    gc.enable()


def _kept(plan: Plan, options: Options) -> Plan:
    """The same, of a workspace that later runs need not load."""
    if not options.frozen and not plan.workspace.fingerprint:
        # It spares time and nothing else.
        with suppress(OSError):
            return plan._replace(workspace=keep(plan.workspace, plan.since))
    return plan


def _instead(plan: Plan, options: Options, given: Mapping[str, Any]) -> int:
    """Only say what would be done."""
    from vxwatch.cli.dry import show_forecast, show_graph

    if given["graph"]:
        return show_graph(plan)
    return show_forecast(plan, options, as_json=given["dry"] == "json")


def _reported(
    plan: Plan,
    options: Options,
    given: Mapping[str, Any],
    heeded: list[signal.Signals],
    early: Early,
) -> int:
    """A run about which something is written at its end; it goes the long way in any case."""
    from vxwatch.cli import reports

    with _nursery_ahead(plan), closing(Knowledge(plan, options, os.environ)) as known:
        _get_ready()
        from vxwatch.cli.live import live

        record = reports.record(given)
        code = live(plan, options, known, heeded, early, record)
    return reports.write(record, plan, options, given, code)


def _refuse_a_task_of(root: str, environ: Mapping[str, str]) -> None:
    """A task that calls vx on its own workspace would wait for itself, or run without end."""
    if environ.get("VX_WORKSPACE") == root:
        task = environ.get("VX_TASK", "a task")
        raise UserError(
            "nested",
            f"{task} calls vx on the workspace that it is part of",
            "name what it needs in its depends_on instead",
        )


def _nothing_to_do(plan: Plan, options: Options, known: Knowledge) -> int | None:
    """The exit code where all is fresh; nothing that runs something needs to load then."""
    from vxwatch.session.warm import Warm

    begun = time.monotonic()
    warm = Warm(plan, options, known)
    outcomes = warm.look()
    fresh = outcomes is not None
    if outcomes is None and plan.broad and not os.environ.get("CI"):
        outcomes = warm.restore(options.command)
    if outcomes is None:
        return None
    text = counts(outcomes)
    if not say(text, time.monotonic() - begun):
        return None
    warm.prove(Command(sys.argv[1:], options.directory, os.environ), text if fresh else "")
    return 0


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
        on_busy=given.get("on_busy", "restart-stale"),
        poll=environ.get("VX_WATCH_POLL", "0") not in ("", "0"),
        cache=_caching(given),
        cache_dir=given_place(given.get("cache_dir")),
        learn=given.get("learn", False),
        frozen=given["frozen"],
    )


def _caching(given: Mapping[str, Any]) -> Literal["use", "renew", "read", "off"]:
    uses: Mapping[str, Literal["use", "renew", "read"]] = {
        "local:rw": "use",
        "local:w": "renew",
        "local:r": "read",
    }
    chosen = [name for name in ("no_cache", "renew", "cache_use") if given.get(name)]
    if len(chosen) > 1:
        message = "--cache, --force and --no-cache exclude each other"
        raise UserError("two-caches", message, "--cache local:w is --force")
    if given["no_cache"] or given.get("learn"):
        return "off"
    return "renew" if given["renew"] else uses[given.get("cache_use") or "local:rw"]


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
