"""Restores all that a run would, where it has nothing to run, without an event loop.

Only for a run that shows no output of what it restores. Where anything is in the way (a task that
must run, another vx at work, trouble with the cache) nothing is decided here: an event loop is for
that, and finds fresh what was restored before.
"""

import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Literal

from vxwatch.cache.history import Recorder
from vxwatch.cache.locks import Held, TaskLocks
from vxwatch.cache.reuse import Cache
from vxwatch.outcome import Outcome
from vxwatch.process.twin import Twin, pays

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from vxwatch.model import Task, TaskId


_RESTORE = 1e-3
"""Seconds to restore a task that has few outputs."""


def restore_all(
    tasks: "Sequence[Task]",
    keys: "Mapping[TaskId, str]",
    cache: Cache,
    root: str,
    command: str,
    stands: "Callable[[TaskId], bool]",
) -> dict["TaskId", Outcome] | None:
    """How these tasks ended, whose keys can be vouched for; None where one of them must run.

    Their results are known to be there (`Cache.expect`). `stands` says whether the inputs of a task still are what its key says: a watch that is at work
    here may have made what they are by now, and nothing older is to come over that.
    """
    begun = time.time_ns()
    started: dict[TaskId, int] = {}
    with closing(TaskLocks(root)) as locks:
        ended = _restore_all(tasks, _Restorer(keys, cache, locks, stands), started)
    if ended is not None and cache.store is not None and not cache.store.read_only:
        with cache.trouble("the history of this run is not whole"):
            recorder = Recorder(cache.store, root, command, begun)
            for task_id, outcome in ended.items():
                recorder.ended(outcome, keys[task_id], started[task_id])
            recorder.end(None)
    return ended


class _Restorer:
    """Restores one task after the other, each alone among all vx processes."""

    def __init__(
        self,
        keys: "Mapping[TaskId, str]",
        cache: Cache,
        locks: TaskLocks,
        stands: "Callable[[TaskId], bool]",
    ) -> None:
        self.keys = keys
        self.cache = cache
        self._locks = locks
        self._stands = stands

    @contextmanager
    def alone(self, task: "Task") -> "Iterator[bool]":
        """Stands around a restore; whether it may be done. Raises OSError if there is no lock."""
        taken = self._locks.take(task.id)
        if isinstance(taken, Held):
            yield False
            return
        try:
            yield self._stands(task.id)
        finally:
            taken.release()

    def restore(self, task: "Task") -> Literal["fresh", "restored"] | None:
        """Make its outputs those of its key; None where an event loop is for that."""
        try:
            with self.alone(task) as free:
                reused = self.cache.reuse(task, self.keys[task.id]) if free else None
        except OSError:
            return None
        return None if reused is None else reused.status

    def as_the_copy(self, tasks: "Iterable[Task]") -> "Iterator[tuple[TaskId, int, bool, bytes]]":
        """Restore what nothing is in the way of; the rest is left to the process itself."""
        for task in tasks:
            at = time.time_ns()
            with self.alone(task) as free:
                made = self.cache.put_back(task, self.keys[task.id]) if free else None
            if made is not None:
                yield task.id, at, *made


def whatever_it_takes(_task: "TaskId") -> bool:
    """Where no session is at work, nobody has made anything newer."""
    return True


def _restore_all(
    tasks: "Sequence[Task]", restorer: _Restorer, started: dict["TaskId", int]
) -> dict["TaskId", Outcome] | None:
    """A copy of this process restores every second one, where they are many."""
    ended: dict[TaskId, Outcome] = {}
    if not pays(len(tasks) * _RESTORE):
        return ended if _restore_each(tasks, restorer, started, ended) else None
    mine, others = tasks[::2], tasks[1::2]
    with Twin(lambda: restorer.as_the_copy(others)) as twin:
        if not _restore_each(mine, restorer, started, ended):
            return None
        made = twin.result() or ()
    left = {task.id: task for task in others}
    for task_id, at, anew, packed in made:
        restorer.cache.take(left.pop(task_id), restorer.keys[task_id], packed)
        started[task_id] = at
        ended[task_id] = Outcome(task_id, "restored" if anew else "fresh")
    rest = tuple(left.values())
    return ended if _restore_each(rest, restorer, started, ended) else None


def _restore_each(
    tasks: "Iterable[Task]",
    restorer: _Restorer,
    started: dict["TaskId", int],
    ended: dict["TaskId", Outcome],
) -> bool:
    """Restore these and note when and how; False at the first that has to run."""
    for task in tasks:
        started[task.id] = time.time_ns()
        reused = restorer.restore(task)
        if reused is None:
            return False
        ended[task.id] = Outcome(task.id, reused)
    return True
