"""One pass over the graph: which of the pending tasks must run, and running them in order.

A cycle looks at the pending tasks only; everything else keeps its outcome. It owns the tasks
in flight: when it is cancelled, their trees are ended politely before it returns.
"""

import asyncio
from typing import TYPE_CHECKING

from vxwatch.events import CycleEnded, CycleStarted, Outcome, TaskEnded
from vxwatch.graph.schedule import Schedule
from vxwatch.session.execute import execute

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
        broken = session.memory.broken
        schedule = Schedule(graph, self._pending, limit, options.keep_going, broken)
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
        try:
            outcome = await self._outcome(task)
        except asyncio.CancelledError:
            self._note(Outcome(task.id, "aborted"))
            raise
        finally:
            self._running.discard(task.id)
        self._note(outcome)
        self._ended.put_nowait(outcome)

    def _begin(self, task: "Task") -> None:
        self._running.add(task.id)
        overtaken = self._session.memory.overtaken
        overtaken.discard(task.id)
        follows = task.persistent is None or task.persistent.restart_on_dependencies
        if follows and not overtaken.isdisjoint(self._session.plan.graph.dependencies[task.id]):
            overtaken.add(task.id)

    def _note(self, outcome: Outcome) -> None:
        self._session.memory.record(outcome)
        if self._session.workspace.task(outcome.task).command is not None:
            self._outcomes.append(outcome)
            self._session.emit(TaskEnded(outcome))

    async def _outcome(self, task: "Task") -> Outcome:
        session = self._session
        if task.command is None:
            return Outcome(task.id, "fresh")
        if task.persistent is not None:
            return await self._server(task)
        key = session.keys.key(task.id)
        if session.memory.settled.get(task.id) == key:
            return Outcome(task.id, "fresh")
        session.memory.settled.pop(task.id, None)
        outcome = await execute(session, task)
        session.keys.ran(task.id)
        if outcome.status == "ran" and task.id not in session.memory.overtaken:
            session.memory.settled[task.id] = key
        return outcome

    async def _server(self, task: "Task") -> Outcome:
        session = self._session
        server = session.server(task)
        outcome = await server.ensure(task, session.keys.fingerprint(task.id))
        if outcome.status == "ready" and task.id in session.memory.overtaken:
            server.distrust()
        return outcome

    def _skip(self, skipped: "Mapping[TaskId, TaskId]") -> None:
        for task_id, blocker in skipped.items():
            self._note(Outcome(task_id, "skipped", blocked_by=blocker))

    def _result(self, seconds: float) -> CycleEnded:
        moved = sum(1 for o in self._outcomes if o.status not in ("fresh", "kept"))
        kept = self._session.plan.commands - moved
        ended = CycleEnded(self._number, tuple(self._outcomes), kept, seconds, self._paths)
        self._session.emit(ended)
        return ended
