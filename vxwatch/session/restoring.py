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
from vxwatch.process.twin import Twin, pays

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vxwatch.model import Task, TaskId
    from vxwatch.session.knowledge import Knowledge


def restore_all(
    tasks: "Sequence[Task]", known: "Knowledge", cache: Cache, root: str, command: str
) -> dict["TaskId", Outcome] | None:
    """How these tasks, whose keys can be vouched for, ended; None where one of them must run."""
    keys = {task.id: known.keys.key(task.id) for task in tasks}
    if not cache.expect(keys.values()):
        return None
    started: dict[TaskId, int] = {}
    with closing(TaskLocks(root)) as locks:
        ended = _restore_all(tasks, keys, cache, locks, started)
    if ended is None:
        return None
    if cache.store is not None and not cache.store.read_only:
        with cache.trouble("the history of this run is not whole"):
            recorder = Recorder(cache.store, root, command)
            for task_id, outcome in ended.items():
                recorder.ended(outcome, known.keys.made(task_id), started[task_id])
            recorder.end(None)
    return None if known.in_trouble else ended


def _restore_all(
    tasks: "Sequence[Task]",
    keys: "Mapping[TaskId, str]",
    cache: Cache,
    locks: TaskLocks,
    started: dict["TaskId", int],
) -> dict["TaskId", Outcome] | None:
    """A copy of this process restores every second one, where they are many."""
    ended: dict[TaskId, Outcome] = {}
    if not pays(len(tasks)):
        return ended if _restore_each(tasks, keys, cache, locks, started, ended) else None
    mine, others = tasks[::2], tasks[1::2]
    with Twin(lambda: _as_the_copy(others, keys, cache, locks)) as twin:
        if not _restore_each(mine, keys, cache, locks, started, ended):
            return None
        made = twin.result() or ()
    left = {task.id: task for task in others}
    for task_id, at, anew, packed in made:
        cache.take(left.pop(task_id), keys[task_id], packed)
        started[task_id] = at
        ended[task_id] = Outcome(task_id, "restored" if anew else "fresh")
    rest = tuple(left.values())
    return ended if _restore_each(rest, keys, cache, locks, started, ended) else None


def _as_the_copy(
    tasks: "Iterable[Task]", keys: "Mapping[TaskId, str]", cache: Cache, locks: TaskLocks
) -> "Iterator[tuple[TaskId, int, bool, bytes]]":
    """Restore what nothing is in the way of; the rest is left to the process itself."""
    for task in tasks:
        at = time.time_ns()
        taken = locks.take(task.id)
        if not isinstance(taken, Held):
            try:
                made = cache.put_back(task, keys[task.id])
            finally:
                taken.release()
            if made is not None:
                yield task.id, at, *made


def _restore_each(
    tasks: "Iterable[Task]",
    keys: "Mapping[TaskId, str]",
    cache: Cache,
    locks: TaskLocks,
    started: dict["TaskId", int],
    ended: dict["TaskId", Outcome],
) -> bool:
    """Restore these and note when and how; False at the first that has to run."""
    for task in tasks:
        started[task.id] = time.time_ns()
        reused = _restore(task, keys[task.id], cache, locks)
        if reused is None:
            return False
        ended[task.id] = Outcome(task.id, reused)
    return True


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
