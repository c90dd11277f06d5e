"""`vx last`: how the tasks of an earlier run ended, and which runs there were."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vxwatch.cache import history
from vxwatch.cache.database import NAME, CacheError
from vxwatch.cache.history import Result, Run
from vxwatch.cache.place import cache_place
from vxwatch.cache.store import Store
from vxwatch.cli.directory import given_place, working_directory
from vxwatch.durations import format_age
from vxwatch.errors import UserError
from vxwatch.output import past, tables
from vxwatch.workspace.discover import find_root, load_workspace

SHOWN = 20
"""Runs that `--list` names."""

_SECOND = 1_000_000_000
_ALL = 1 << 30


def show_run(number: int | None, cache_dir: str | None, *, failed: bool, as_json: bool) -> int:
    """Print the tasks of a run, the last one if no number is given; the failed ones alone."""
    with _history(cache_dir) as (store, root):
        if store is None:
            found = None
        elif number is None:
            found = next(iter(history.runs(store, root, 1)), None)
        else:
            found = history.run(store, root, number)
        if store is None or found is None:
            raise _unknown(number)
        results = history.results(store, found.id)
    tasks = [_task(one) for one in results if not failed or one.status == "failed"]
    value = {**_run(found), "counts": _counted(results), "tasks": tasks}
    if as_json:
        tables.write_json(value)
    else:
        tables.line(past.head(value))
        if tasks:
            tables.columns(past.rows(value))
    return 0


def list_runs(cache_dir: str | None, *, failed: bool, as_json: bool) -> int:
    """Print the last runs, the latest first; those in which a task failed alone."""
    with _history(cache_dir) as (store, root):
        runs: list[dict[str, Any]] = []
        for one in [] if store is None else history.runs(store, root, _ALL if failed else SHOWN):
            counts = _counted(history.results(store, one.id)) if store is not None else {}
            if not failed or counts.get("failed"):
                runs.append({**_run(one), "counts": counts})
            if len(runs) == SHOWN:
                break
    if as_json:
        tables.write_json({"runs": runs})
    elif runs:
        tables.columns(past.listed(runs))
    else:
        tables.line("no run is known here")
    return 0


@contextmanager
def _history(cache_dir: str | None) -> Iterator[tuple[Store | None, str]]:
    """The history of the workspace, None where there is none yet, and the workspace's root."""
    workspace = load_workspace(find_root(working_directory()))
    place = given_place(cache_dir) or cache_place(workspace.root, workspace.cache_dir)
    if not os.path.exists(f"{place}/{NAME}"):
        yield None, workspace.root
        return
    try:
        with Store(place) as store:
            yield store, workspace.root
    except CacheError as error:
        raise UserError("cache", error.message, error.hint) from None


def _unknown(number: int | None) -> UserError:
    if number is None:
        return UserError("no-run", "no run is known here", "run a task: `vx run TASK`")
    return UserError(
        "no-run", f"no run {number} is known here", "`vx last --list` has those there are"
    )


def _run(run: Run) -> dict[str, Any]:
    """`seconds` is None for a run that goes on, or was killed."""
    started = run.started / _SECOND
    return {
        "run": run.id,
        "command": run.command,
        "started": started,
        "ago": format_age(max(0.0, time.time_ns() / _SECOND - started)),
        "seconds": run.seconds,
        "signal": run.signal,
    }


def _task(result: Result) -> dict[str, Any]:
    return {
        "task": result.task,
        "status": result.status,
        "code": result.code,
        "started": result.started / _SECOND,
        "seconds": result.seconds,
        "cpu": result.cpu,
        "peak_memory": result.rss,
        "attempts": result.attempts,
        "detail": result.detail,
        "key": result.key,
    }


def _counted(results: list[Result]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in results:
        counts[one.status] = counts.get(one.status, 0) + 1
    return counts
