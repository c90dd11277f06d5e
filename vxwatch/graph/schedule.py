r"""Decides which tasks start next in one pass over the graph, and which never will.

It starts nothing and knows no clock: the caller asks `ready`, starts what it gets, and says
`finish` for each. A server finishes when it is ready, a group as soon as it is asked for, a
task that needs no run likewise.

    waiting -> (its dependencies finished) -> startable -> running -> finished
       \-------------> skipped <------------/

Tasks are started once, never more than `limit` run, what those that run claim is there, and when
nothing runs and nothing is ready the pass is done. Work and memory are proportional to the tasks
of the pass, not to the graph.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from vxwatch.graph.order import ordered
from vxwatch.graph.room import Claims, Room
from vxwatch.graph.tasks import Graph
from vxwatch.model import TaskId

Continue = Literal["never", "deps-ok", "always"]
"""After a failure: start nothing more; go on with what does not depend on it; go on."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What the tasks of a pass cost.

    `seconds` is how long they take, `usual` how long those that it leaves out; `claims` is what
    tasks need of what there is while they run, `capacity` how much of that there is. What
    `capacity` leaves out is not counted.
    """

    seconds: Mapping[TaskId, float] = field(default_factory=dict)
    usual: float = 1.0
    claims: Mapping[TaskId, Claims] = field(default_factory=dict)
    capacity: Claims = field(default_factory=dict)


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
        """A pass over `pending`, at most `limit` at once.

        `pending` holds, with a task, all of the graph that depend on it; whatever else its
        tasks depend on counts as finished, except the `broken`, which failed before the pass,
        are no part of it, and block what depends on them as a failure in it would.
        """
        if limit < 1:
            raise ValueError("a pass that may run nothing never ends")
        pending = frozenset(pending)
        costs = costs or Costs()
        self._mode = mode
        self._room = Room(limit, costs.capacity, costs.claims)
        self._above = {
            task: [above for above in graph.dependents[task] if above in pending]
            for task in pending
        }
        self._missing = {
            task: sum(below in pending for below in graph.dependencies[task]) for task in pending
        }
        self._chain = _chains(self._above, costs)
        self._skipped: dict[TaskId, TaskId] = {}
        self._unstarted = set(pending)
        for task in pending:
            if not self._missing[task]:
                self._offer(task)
        if mode != "always":
            self._block_above(graph, (task for task in broken if task not in pending))

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
        if ok or self._mode == "always":
            for above in self._above[task]:
                self._missing[above] -= 1
                if not self._missing[above]:
                    self._offer(above)
            return {}
        if self._mode == "never":
            return self._skip(sorted(self._unstarted), task)
        return self._skip(self._above[task], task)

    def _offer(self, task: TaskId) -> None:
        if task in self._unstarted:
            self._room.queue(task, self._chain[task])

    def _block_above(self, graph: Graph, broken: Iterable[TaskId]) -> None:
        for task in broken:
            self._skip([above for above in graph.dependents[task] if above in self._above], task)

    def _skip(self, tasks: Iterable[TaskId], blocker: TaskId) -> Mapping[TaskId, TaskId]:
        skipped: dict[TaskId, TaskId] = {}
        ahead = list(tasks)
        while ahead:
            task = ahead.pop()
            if task in self._unstarted:
                self._unstarted.discard(task)
                self._room.forget(task)
                skipped[task] = blocker
                ahead.extend(self._above[task])
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
