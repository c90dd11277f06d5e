"""One pass over the graph: which of the pending tasks must run, and running them in order.

A cycle looks at the pending tasks only; everything else keeps its outcome. It owns the tasks
in flight: when it is cancelled, their trees are ended politely before it returns.
"""

import asyncio
import time
from typing import TYPE_CHECKING

from vxwatch.events import CycleEnded, CycleStarted, Outcome, TaskEnded
from vxwatch.graph.affected import LOCKFILES
from vxwatch.graph.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from vxwatch.model import Task, TaskId
    from vxwatch.session.session import Session


class Cycle:
    """`await Cycle(...).run()`, once."""

    def __init__(
        self, session: "Session", number: int, pending: "Collection[TaskId]", paths: tuple[str, ...]
    ) -> None:
        self._session = session
        self._number = number
        self._pending = frozenset(pending)
        self._paths = paths
        self._ended: asyncio.Queue[Outcome] = asyncio.Queue()
        self._outcomes: list[Outcome] = []
        self._running: set[TaskId] = set()

    def overtake(self, tasks: "Collection[TaskId]") -> None:
        """The inputs of these tasks moved just now: what runs of them builds from neither state."""
        self._session.memory.overtaken |= self._running.intersection(tasks)

    async def run(self) -> CycleEnded:
        """Bring every pending task up to date, or say what stood in the way."""
        session = self._session
        begun = asyncio.get_running_loop().time()
        graph, options = session.plan.graph, session.options
        session.emit(CycleStarted(self._number, self._paths, tuple(self._pending)))
        limit = session.plan.concurrency(options)
        broken, costs = session.memory.broken, session.means.costs(self._pending, limit)
        schedule = Schedule(graph, self._pending, limit, options.keep_going, broken, costs)
        self._skip(schedule.skipped)
        async with asyncio.TaskGroup() as group:
            while True:
                for task_id in schedule.ready():
                    group.create_task(self._one(session.workspace.task(task_id)))
                if schedule.done:
                    break
                outcome = await self._ended.get()
                self._skip(schedule.finish(outcome.task, ok=outcome.ok))
        return self._result(asyncio.get_running_loop().time() - begun)

    async def _one(self, task: "Task") -> None:
        self._begin(task)
        started = time.time_ns()
        try:
            outcome = await self._outcome(task)
        except asyncio.CancelledError:
            self._note(Outcome(task.id, "aborted"), started)
            raise
        finally:
            self._running.discard(task.id)
        self._note(outcome, started)
        self._ended.put_nowait(outcome)

    def _begin(self, task: "Task") -> None:
        self._running.add(task.id)
        self._session.begun.add(task.id)
        overtaken = self._session.memory.overtaken
        overtaken.discard(task.id)
        follows = task.persistent is None or task.persistent.restart_on_dependencies
        if follows and not overtaken.isdisjoint(self._session.plan.graph.dependencies[task.id]):
            overtaken.add(task.id)

    def _note(self, outcome: Outcome, started: int) -> None:
        self._session.memory.record(outcome)
        self._session.means.learn(outcome)
        if self._session.workspace.task(outcome.task).command is not None:
            self._outcomes.append(outcome)
            self._session.caching.ended(outcome, started)
            self._session.emit(TaskEnded(outcome))

    async def _outcome(self, task: "Task") -> Outcome:
        session = self._session
        if task.command is None:
            return Outcome(task.id, "fresh")
        if task.persistent is not None:
            return await self._server(task)
        key = session.keys.key(task.id)
        # Of a task whose results are kept the cache looks at what is really there.
        if session.memory.settled.get(task.id) == key and not session.caching.keeps(task):
            return Outcome(task.id, "fresh")
        session.memory.settled.pop(task.id, None)
        outcome = await session.caching.settle(task, self._moved)
        if outcome.status not in ("fresh", "restored"):
            session.keys.ran(task.id)
        if outcome.ok and task.id not in session.memory.overtaken:
            session.memory.settled[task.id] = key
        return outcome

    def _moved(self, task: "Task") -> str | None:
        """Look at the task's inputs once more; one that changed while it ran, if any did."""
        session = self._session
        if session.index.stands(task.id):
            return None
        own, wide = session.affected.roots(task.id)
        changed = session.index.refresh({*own, *wide, *LOCKFILES})
        if not changed:
            return None
        touched = session.affected.touched(changed, session.index.ignored)
        self.overtake(touched.inputs | touched.uncached | touched.restarts)
        session.found(changed)
        if task.id not in session.memory.overtaken:
            return None
        return next((path for path in sorted(changed) if self._takes(task, path)), "an input")

    def _takes(self, task: "Task", path: str) -> bool:
        ignored = path in self._session.index.ignored
        return self._session.affected.takes(task.id, path, ignored=ignored)

    async def _server(self, task: "Task") -> Outcome:
        session = self._session
        server = session.server(task)
        outcome = await server.ensure(task, session.keys.fingerprint(task.id))
        if outcome.status == "ready" and task.id in session.memory.overtaken:
            server.distrust()
        return outcome

    def _skip(self, skipped: "Mapping[TaskId, TaskId]") -> None:
        for task_id, blocker in skipped.items():
            self._note(Outcome(task_id, "skipped", blocked_by=blocker), time.time_ns())

    def _result(self, seconds: float) -> CycleEnded:
        moved = sum(1 for o in self._outcomes if o.status not in ("fresh", "kept"))
        kept = self._session.plan.commands - moved
        ended = CycleEnded(self._number, tuple(self._outcomes), kept, seconds, self._paths)
        self._session.emit(ended)
        return ended
