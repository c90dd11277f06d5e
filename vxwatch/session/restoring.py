"""Restores all that a run would, where it has nothing to run, without an event loop.

Only for a run that shows no output of what it restores. Where anything is in the way (a task that
must run, another vx at work, trouble with the cache) nothing is decided here: an event loop is for
that, and finds fresh what was restored before.
"""

import time
from contextlib import closing
from typing import TYPE_CHECKING, Literal

from vxwatch.cache.history import Recorder
from vxwatch.cache.locks import Held, TaskLocks
from vxwatch.cache.reuse import Cache
from vxwatch.events import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vxwatch.model import Task, TaskId
    from vxwatch.session.knowledge import Knowledge


def restore_all(
    tasks: "Sequence[Task]", known: "Knowledge", cache: Cache, root: str, command: str
) -> dict["TaskId", Outcome] | None:
    """How these tasks, whose keys can be vouched for, ended; None where one of them must run."""
    keys = {task.id: known.keys.key(task.id) for task in tasks}
    if not cache.expect(keys.values()):
        return None
    ended: dict[TaskId, Outcome] = {}
    started: dict[TaskId, int] = {}
    with closing(TaskLocks(root)) as locks:
        for task in tasks:
            started[task.id] = time.time_ns()
            reused = _restore(task, keys[task.id], cache, locks)
            if reused is None:
                return None
            ended[task.id] = Outcome(task.id, reused)
    if cache.store is not None and not cache.store.read_only:
        with cache.trouble("the history of this run is not whole"):
            recorder = Recorder(cache.store, root, command)
            for task_id, outcome in ended.items():
                recorder.ended(outcome, known.keys.made(task_id), started[task_id])
            recorder.end(None)
    return None if known.in_trouble else ended


def _restore(
    task: "Task", key: str, cache: Cache, locks: TaskLocks
) -> Literal["fresh", "restored"] | None:
    try:
        taken = locks.take(task.id)
    except OSError:
        return None
    if isinstance(taken, Held):
        return None
    try:
        reused = cache.reuse(task, key)
    finally:
        taken.release()
    return None if reused is None else reused.status
