"""What a run would do with each task now, and why: nothing is run, removed or restored for it.

A forecast goes by keys and by what lies on disk, as a run does. It cannot know that a saved result
is damaged, nor that a task will change what another one takes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vxwatch.cache import history
from vxwatch.cache.difference import Moved, difference, direct_difference
from vxwatch.cache.results import is_kept

if TYPE_CHECKING:
    from vxwatch.cache.history import CycleDone, Result
    from vxwatch.cache.key import Key
    from vxwatch.cache.store import Store
    from vxwatch.model import Task, TaskId
    from vxwatch.session.knowledge import Knowledge
    from vxwatch.session.planning import Options, Plan

Would = Literal["run", "restore", "fresh", "start", "nothing"]

NOT_KEPT = "nothing of it is kept (it has no cache.outputs), so every run runs it"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run would do with a task: `start` a server, `nothing` for a group.

    `reason` is what else there is to say than what moved since the run `since`; that is None
    where no run is known with which to compare, or not what the task was made of then.
    """

    task: "TaskId"
    would: Would
    reason: str
    moved: tuple[Moved, ...] = ()
    since: int | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """What was last done about a task, in which run, and why: what had moved, or another reason."""

    run: int
    result: "Result"
    reason: str = ""
    moved: tuple[Moved, ...] = ()


@dataclass(frozen=True, slots=True)
class InCycle:
    """What a cycle did about a task: None if it did not look at it.

    `takes` holds those of the changed paths that the task takes.
    """

    cycle: "CycleDone"
    result: "Result | None"
    takes: tuple[str, ...]


class Forecast:
    """Of one plan. Whatever is asked may raise `UserError`, or `CacheError` where it reads history."""

    def __init__(self, plan: "Plan", options: "Options", known: "Knowledge") -> None:
        """Lists the files of the plan's tasks."""
        self._plan = plan
        self._options = options
        self._known = known
        known.learn()
        self._cache = known.open_cache()
        self._now: dict[str, Key] = {}
        self._then: dict[str, Mapping[str, str] | None] = {}

    @property
    def store(self) -> "Store | None":
        """The cache with its history; None where there is none to use."""
        return None if self._cache is None else self._cache.store

    def verdict(
        self, task_id: "TaskId", against: "tuple[int, Result] | None" = None, *, deep: bool = True
    ) -> Verdict:
        """What a run would do; what moved since the run and result `against`, else the last ones.

        `deep`: find out what moved first behind tasks that moved.
        """
        task = self._plan.workspace.task(task_id)
        before = against or self._before(task_id)
        known = None if before is None else self._components(before[1].key)
        moved: tuple[Moved, ...] = ()
        if known is not None:
            now = self._known.keys.made(task_id).components
            moved = (
                difference(known, now, self._components) if deep else direct_difference(known, now)
            )
        would, reason = self._would(task, before)
        if would == "run" and not reason and before is not None and known is None:
            reason = "what it was made of before is not known any more"
        since = None if before is None or known is None else before[0]
        return Verdict(task_id, would, reason, moved, since)

    def last(self, task_id: "TaskId") -> Done | None:
        """When something was last done about the task; None if nothing was, as far as is known."""
        if self.store is None:
            return None
        done = history.last_done(self.store, self._root, task_id)
        if done is None:
            return None
        run, result = done
        before = history.last_result(self.store, self._root, task_id, result.place)
        if before is None:
            return Done(run, result, "it had not run here before")
        old, new = self._components(before[1].key), self._components(result.key)
        if old is None or new is None:
            return Done(run, result)
        again = before[1].key == result.key and before[1].status == "failed"
        moved = difference(old, new, self._components)
        return Done(run, result, "it had failed before" if again else "", moved)

    def cycle(self, task_id: "TaskId") -> "InCycle | None":
        """What the last cycle of a watch did about the task; None if a run came after it."""
        if self.store is None:
            return None
        cycle = history.last_cycle(self.store, self._root)
        latest = history.runs(self.store, self._root, 1)
        if cycle is None or (latest[0].id != cycle.run and latest[0].started > cycle.started):
            return None
        affected, ignored = self._known.affected, self._known.index.ignored
        takes = (p for p in cycle.paths if affected.takes(task_id, p, ignored=p in ignored))
        return InCycle(cycle, history.result_in(self.store, cycle, task_id), tuple(takes))

    def flaky(self, task_id: "TaskId") -> bool:
        """Whether the task failed and passed with what it is made of now."""
        keys = self._known.keys
        if self.store is None or not keys.decides(task_id):
            return False
        return bool(history.flaky(self.store, {task_id: keys.key(task_id)}))

    @property
    def _root(self) -> str:
        return self._plan.workspace.root

    def _before(self, task_id: "TaskId") -> "tuple[int, Result] | None":
        if self.store is None:
            return None
        return history.last_result(self.store, self._root, task_id)

    def _components(self, key: str | None) -> Mapping[str, str] | None:
        """What a key was made of: one of now, or one of an earlier run."""
        if key is None:
            return None
        if not self._now:
            made = map(self._known.keys.made, self._plan.graph.order)
            self._now.update((one.hex, one) for one in made)
        if key in self._now:
            return self._now[key].components
        if key not in self._then and self.store is not None:
            self._then[key] = history.components(self.store, key)
        return self._then.get(key)

    def _would(self, task: "Task", before: "tuple[int, Result] | None") -> tuple[Would, str]:
        if task.command is None:
            return "nothing", "it is a group, and stands for what it depends on"
        if task.persistent is not None:
            return "start", ""
        always = self._always(task)
        if always:
            return "run", always
        assert self._cache is not None
        key = self._known.keys.key(task.id)
        if self._cache.standing(task, key) is not None:
            return "fresh", ""
        if self.store is not None and self.store.entry(key) is not None:
            return "restore", "what it made of this is kept, and is not what lies on disk"
        return "run", _cause(key, before)

    def _always(self, task: "Task") -> str:
        """Why the task runs whatever its key is; "" if it does not."""
        if self._options.cache == "off":
            return "the cache is not used"
        keys = self._known.keys
        if not keys.tells(task.id):
            return "it declares neither inputs nor outputs, so every run runs it"
        if not is_kept(task):
            return NOT_KEPT
        untold = keys.untold(task.id)
        if untold is not None:
            return f"it builds on {untold}, which declares neither inputs nor outputs"
        if self._cache is None or self.store is None:
            return "the cache cannot be used"
        return "it was asked for with --force" if self._options.cache == "renew" else ""


def _cause(key: str, before: "tuple[int, Result] | None") -> str:
    """Why a task runs whose result is not kept, where that is not what moved."""
    if before is None:
        return "it never ran here"
    if before[1].key != key:
        return ""
    if before[1].status == "failed":
        return "it failed the last time"
    return "what it made was not saved, or is not kept any more"
