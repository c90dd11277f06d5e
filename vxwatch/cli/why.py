"""`vx why`: what a run would do with a task now, what moved, and what happened the last time."""

import os
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

from vxwatch.cache import history
from vxwatch.cache.database import CacheError
from vxwatch.cache.store import spelled
from vxwatch.cli.directory import given_place, working_directory
from vxwatch.cli.told import to_standard_error
from vxwatch.cli.verdicts import moved_value, verdict_value
from vxwatch.durations import format_age
from vxwatch.errors import UserError
from vxwatch.masking import Masker
from vxwatch.output import reasons, tables
from vxwatch.process.environment import secret_values
from vxwatch.session.forecast import Done, Forecast, InCycle
from vxwatch.session.knowledge import Knowledge
from vxwatch.session.planning import Options, Plan, make_plan

if TYPE_CHECKING:
    from vxwatch.cache.history import Result
    from vxwatch.model import TaskId

_SECOND = 1_000_000_000


def explain(
    name: str,
    arguments: tuple[str, ...],
    run: int | None,
    cache_dir: str | None = None,
    *,
    as_json: bool,
) -> int:
    """Print why the task would run, or would not, against its previous run or that of an id."""
    place = given_place(cache_dir)
    options = Options("run", (name,), working_directory(), arguments=arguments, cache_dir=place)
    plan = make_plan(options)
    if len(plan.requested) != 1:
        raise UserError(
            "not-one-task",
            f"{name} is a group, and stands for {len(plan.requested)} tasks",
            f"name one of them: vx why {plan.requested[0]}" if plan.requested else "",
        )
    masker = Masker(secret_values(os.environ, plan.workspace).values())
    with closing(Knowledge(plan, options, os.environ)) as known:
        known.hear(to_standard_error)
        value = masker.within(_answer(plan, options, known, run))
    if as_json:
        tables.write_json(value)
    else:
        tables.lines(reasons.why(value))
    return 0


def _answer(plan: Plan, options: Options, known: Knowledge, run: int | None) -> dict[str, Any]:
    task = plan.requested[0]
    forecast = Forecast(plan, options, known)
    try:
        against = None if run is None else _in_run(forecast, plan, task, run)
        verdict = forecast.verdict(task, against)
        last, flaky = forecast.last(task), forecast.flaky(task)
        cycle = forecast.cycle(task)
    except CacheError as error:
        raise UserError("cache", error.message, error.hint) from None
    return {
        **verdict_value(plan, verdict),
        "last": None if last is None else _last(plan, last),
        "cycle": None if cycle is None else _cycle(cycle),
        "flaky": flaky,
    }


def _in_run(forecast: Forecast, plan: Plan, task: "TaskId", run: int) -> "tuple[int, Result]":
    """How the task ended in the run of that id."""
    store, root = forecast.store, plan.workspace.root
    found = None if store is None else history.run(store, root, run)
    if store is None or found is None:
        raise UserError(
            "no-run", f"no run {run} is known here", "`vx last --list` has those there are"
        )
    for result in reversed(history.results(store, run)):
        if result.task == spelled(task) and result.key is not None:
            return run, result
    raise UserError("no-run", f"{task} was not looked at in run {run}", f"see `vx last {run}`")


def _cycle(found: InCycle) -> dict[str, Any]:
    cycle, result = found.cycle, found.result
    return {
        "run": cycle.run,
        "number": cycle.number,
        "started": cycle.started / _SECOND,
        "ago": _ago(cycle.started),
        "paths": [*cycle.paths],
        "takes": [*found.takes],
        "status": None if result is None else result.status,
        "detail": "" if result is None else result.detail,
    }


def _ago(then: int) -> str:
    return format_age(max(0.0, (time.time_ns() - then) / _SECOND))


def _last(plan: Plan, done: Done) -> dict[str, Any]:
    result = done.result
    return {
        "run": done.run,
        "started": result.started / _SECOND,
        "ago": _ago(result.started),
        "status": result.status,
        "code": result.code,
        "seconds": result.seconds,
        "detail": result.detail,
        "reason": done.reason,
        "moved": moved_value(plan, result.task, done.moved),
    }
