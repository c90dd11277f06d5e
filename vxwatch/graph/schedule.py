r"""Decides which tasks start next in one pass over the graph, and which never will.

It starts nothing and knows no clock: the caller asks `ready`, starts what it gets, and says
`finish` for each. A server finishes when it is ready, a group as soon as it is asked for, a
task that needs no run likewise.

    waiting -> (its dependencies finished) -> startable -> running -> finished
       \-------------> skipped <------------/

Each task is started once, and once more for each time that it is taken in again with `add`. Never
more than `limit` run, what those that run claim is there, and when nothing runs and nothing is
ready the pass is done. Work and memory are proportional to the tasks of the pass, not to the
graph.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from vxwatch.graph.order import ordered
from vxwatch.graph.room import Claims, Room
from vxwatch.graph.tasks import Graph
from vxwatch.model import TaskId

Continue = Literal["never", "deps-ok", "always"]
"""After a failure: start nothing more; go on with what does not depend on it; go on."""


class Costs(NamedTuple):
    """What the tasks of a pass cost.

    `seconds` is how long they take, `usual` how long those that it leaves out; `claims` is what
    tasks need of what there is while they run, `capacity` how much of that there is. What
    `capacity` leaves out is not counted. `servers` wait more than they compute.
    """

    seconds: Mapping[TaskId, float] = MappingProxyType({})
    usual: float = 1.0
    claims: Mapping[TaskId, Claims] = MappingProxyType({})
    capacity: Claims = MappingProxyType({})
    servers: frozenset[TaskId] = frozenset()


class Schedule:
    """The state of one pass. `skipped` maps a task to the failed one that blocked it."""

    def __init__(
        self,
        graph: Graph,
        pending: Iterable[TaskId],
        limit: int,
        mode: Continue = "deps-ok",
        broken: Iterable[TaskId] = (),
        costs: Costs | None = None,
    ) -> None:
        """A pass over `pending`, at most `limit` at once and as many servers beside them.

        `pending` holds, with a task, all of the graph that depend on it; whatever else its
        tasks depend on counts as finished, except the `broken`, which failed before the pass,
        are no part of it, and block what depends on them as a failure in it would.
        """
        if limit < 1:
            raise ValueError("a pass that may run nothing never ends")
        self._graph = graph
        self._mode = mode
        self._room = Room(limit)
        self._missing: dict[TaskId, int] = {}
        self._chain: dict[TaskId, float] = {}
        self._again: set[TaskId] = set()
        self._blockers: dict[TaskId, TaskId] = {task: task for task in broken}
        self._skipped: dict[TaskId, TaskId] = {}
        self._unstarted: set[TaskId] = set()
        self.add(pending, costs)

    def add(self, tasks: Iterable[TaskId], costs: Costs | None = None) -> Mapping[TaskId, TaskId]:
        """Take these in, too, which hold with a task all of the graph that depend on it.

        One that finished or was skipped starts anew, one that runs starts once more when it has
        finished. Gives those of them that are skipped, with the reason.
        """
        costs = costs or Costs()
        added = frozenset(tasks)
        self._room.learn(costs.capacity, costs.claims, costs.servers)
        self._again |= added & self._room.taken
        self._unstarted |= added - self._room.taken
        for task in added:
            self._skipped.pop(task, None)
            self._blockers.pop(task, None)
            self._room.forget(task)
        for task in added:
            self._missing[task] = sum(map(self._unfinished, self._graph.dependencies[task]))
        above = {task: self._above(task) for task in added}
        self._chain |= _chains(above, costs)
        for task in added:
            self._offer(task)
        return self._block(added)

    @property
    def skipped(self) -> Mapping[TaskId, TaskId]:
        """The tasks that will not run, each with the failed task that is the reason."""
        return self._skipped

    @property
    def running(self) -> frozenset[TaskId]:
        """The tasks that were handed out and have not finished."""
        return self._room.taken

    @property
    def done(self) -> bool:
        """Whether every task finished or was skipped."""
        return not self._room.taken and not self._unstarted

    def ready(self) -> list[TaskId]:
        """The tasks to start now, the head of the longest remaining chain first.

        They count as running until `finish`.
        """
        started = self._room.admit()
        self._unstarted.difference_update(started)
        return started

    def finish(self, task: TaskId, *, ok: bool) -> Mapping[TaskId, TaskId]:
        """A running task ended. Returns what is skipped because of it, with the reason."""
        self._room.leave(task)
        if task in self._again:
            self._again.discard(task)
            self._unstarted.add(task)
            self._offer(task)
            return self._block([task])
        above = self._above(task)
        for other in above:
            self._missing[other] -= 1
        if ok or self._mode == "always":
            for other in above:
                self._offer(other)
            return {}
        self._blockers[task] = task
        return self._skip(sorted(self._unstarted) if self._mode == "never" else above, task)

    def _unfinished(self, task: TaskId) -> bool:
        return task in self._unstarted or task in self._room

    def _above(self, task: TaskId) -> list[TaskId]:
        return [other for other in self._graph.dependents[task] if self._unfinished(other)]

    def _offer(self, task: TaskId) -> None:
        if task in self._unstarted and not self._missing[task]:
            self._room.queue(task, self._chain[task])

    def _block(self, tasks: Iterable[TaskId]) -> Mapping[TaskId, TaskId]:
        """Skip those of the tasks that depend on what did not succeed."""
        skipped: dict[TaskId, TaskId] = {}
        if self._mode != "always" and self._blockers:
            for task in tasks:
                below = self._graph.dependencies[task]
                blocker = next((self._blockers[b] for b in below if b in self._blockers), None)
                skipped |= self._skip([task], blocker) if blocker else {}
        return skipped

    def _skip(self, tasks: Iterable[TaskId], blocker: TaskId) -> dict[TaskId, TaskId]:
        skipped: dict[TaskId, TaskId] = {}
        ahead = list(tasks)
        while ahead:
            task = ahead.pop()
            if task in self._unstarted:
                ahead.extend(self._above(task))
                self._unstarted.discard(task)
                self._room.forget(task)
                skipped[task] = self._blockers[task] = blocker
        self._skipped.update(skipped)
        return skipped


def _chains(above: Mapping[TaskId, list[TaskId]], costs: Costs) -> dict[TaskId, float]:
    """How long it takes at least from the start of each task to the end of the pass."""
    chains: dict[TaskId, float] = {}
    order, _ = ordered(above, above.__getitem__)
    for task in order:
        rest = max((chains[other] for other in above[task]), default=0.0)
        chains[task] = rest + costs.seconds.get(task, costs.usual)
    return chains
