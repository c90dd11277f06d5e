"""One pass over the graph: which of the pending tasks must run, and running them in order.

A cycle looks at the pending tasks only; everything else keeps its outcome. It owns the tasks
in flight: when it is cancelled, their trees are ended politely before it returns. While it runs
it takes in what further changes touch; a run of a task that builds from what is no longer there
is ended, and starts anew.
"""

import asyncio
import time
from typing import TYPE_CHECKING, Any

from vxwatch.cache.tracked import index_stamp
from vxwatch.events import CycleEnded, CycleStarted, Outcome, TaskEnded, TaskRestarted
from vxwatch.graph.places import inside
from vxwatch.graph.schedule import Schedule
from vxwatch.session.again import Again
from vxwatch.session.execute import execute

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from vxwatch.model import Task, TaskId
    from vxwatch.session.session import Session


class Cycle:
    """`await Cycle(...).run()`, once, then `end()`."""

    def __init__(
        self,
        session: "Session",
        number: int,
        pending: "Collection[TaskId]",
        paths: tuple[str, ...],
        again: Again | None = None,
    ) -> None:
        """`again` outlives a cycle, for those who have its changes taken in."""
        self._session = session
        self._number = number
        self._pending = frozenset(pending)
        self._paths = paths
        self._limit = session.plan.concurrency(session.options)
        self._ended: asyncio.Queue[Outcome | None] = asyncio.Queue()
        self._outcomes: dict[TaskId, Outcome] = {}
        self._running: set[TaskId] = set()
        self._schedule: Schedule | None = None
        self._again = again or Again()
        self._started: set[TaskId] = set()
        self._executing: dict[TaskId, asyncio.Task[Any]] = {}
        self._stale: dict[TaskId, str] = {}
        self._outdated: set[TaskId] = set()
        self._passed: dict[TaskId, str] = {}
        self._written: dict[TaskId, list[str]] = {}
        self._moving = False
        self._begun_at: dict[TaskId, int] = {}
        self._git = index_stamp(session.workspace.root)
        self._began_at, self._seconds = 0, 0.0

    def overtake(self, tasks: "Collection[TaskId]") -> None:
        """The inputs of these tasks moved just now: what runs of them builds from neither state.

        Of what has not begun a key may have been made already, for one that folds it.
        """
        self._moving = True
        self._session.memory.overtaken |= self._running.intersection(tasks)

    def put_off(self, tasks: "Collection[TaskId]") -> None:
        """What these build from moved just now; runs that were started anew already are left alone."""
        now = asyncio.get_running_loop().time()
        self._again.put_off(self._running.intersection(tasks), now)

    def _overtake_by(self, changed: "Collection[str]") -> None:
        """These changed while tasks ran."""
        if changed:
            touched = self._session.affected.touched(changed, self._session.index.ignored)
            self.overtake(touched.inputs | touched.uncached | touched.restarts)

    def passed(self, paths: "Collection[str]") -> None:
        """Something came to these paths and went again: what runs may have read it."""
        for task in self._running:
            path = next((p for p in paths if self._session.affected.takes(task, p)), None)
            if path is not None:
                self._session.memory.overtaken.add(task)
                self._passed[task] = path

    def takes(self, tasks: "Collection[TaskId]", uncached: "Collection[TaskId]") -> bool:
        """Whether all of these can be taken in now, `uncached` of them by a change in their project.

        What a task without declared inputs writes looks like an edit of what it takes: it runs to
        its end first. So does everything where the user wants it to.
        """
        if self._schedule is None or self._schedule.done:
            return False
        running = self._running.intersection(tasks)
        if not running.isdisjoint(uncached):
            return False
        if self._session.options.on_busy == "queue" and not running <= self._session.servers.keys():
            return False
        now = asyncio.get_running_loop().time()
        return self._again.may(self._started.intersection(tasks), now)

    def take_in(self, tasks: "Collection[TaskId]", paths: "Collection[str]") -> None:
        """Bring these up to date, too, which `takes` allows: the paths changed just now."""
        schedule, keys = self._schedule, self._session.keys
        assert schedule is not None
        self._again.count(self._started.intersection(tasks), asyncio.get_running_loop().time())
        self._started.difference_update(tasks)
        self._paths = tuple(sorted({*self._paths, *paths}))
        running = self._running.intersection(tasks)
        keys.forget(frozenset(tasks) - running)
        self._outdated |= running
        self._skip(schedule.add(tasks, self._session.means.costs(tasks, self._limit)))
        for task_id in sorted(running):
            job = self._executing.get(task_id)
            if task_id in self._stale or self._gave_up(task_id, paths):
                continue
            if job is not None and keys.tells(task_id) and keys.differs(task_id):
                self._stale[task_id] = self._first_taken(task_id, paths)
                job.cancel()
            elif not keys.tells(task_id):
                self._session.memory.overtaken.add(task_id)
        self._ended.put_nowait(None)

    def give_up_starts(self, projects: "Collection[str]") -> None:
        """The config of these changed: wait for no start of theirs if nothing else is waited for."""
        servers = self._session.servers
        if self._running <= servers.keys():
            for task_id in self._running:
                if task_id.rpartition("#")[0] in projects:
                    servers[task_id].give_up("")

    def _gave_up(self, task_id: "TaskId", paths: "Collection[str]") -> bool:
        """Give up the start of a server that begins from what is no longer there."""
        session = self._session
        server = session.servers.get(task_id)
        if server is None or session.options.on_busy == "queue":
            return False
        if not server.give_up(session.keys.fingerprint(task_id)):
            return False
        self._stale[task_id] = self._first_taken(task_id, paths)
        return True

    def _first_taken(self, task_id: "TaskId", paths: "Collection[str]") -> str:
        task = self._session.workspace.task(task_id)
        return next((path for path in sorted(paths) if self._takes(task, path)), "")

    async def run(self) -> None:
        """Bring every pending task up to date, or say what stood in the way."""
        session = self._session
        begun, self._began_at = asyncio.get_running_loop().time(), time.time_ns()
        graph, options = session.plan.graph, session.options
        session.emit(CycleStarted(self._number, self._paths, tuple(self._pending)))
        broken, costs = session.memory.broken, session.means.costs(self._pending, self._limit)
        schedule = Schedule(graph, self._pending, self._limit, options.keep_going, broken, costs)
        self._schedule = schedule
        self._skip(schedule.skipped)
        session.cycling = True
        try:
            await self._run_all(schedule)
        finally:
            session.cycling = False
        self._seconds = asyncio.get_running_loop().time() - begun

    async def _run_all(self, schedule: Schedule) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                for task_id in schedule.ready():
                    group.create_task(self._one(self._session.workspace.task(task_id)))
                if schedule.done:
                    break
                outcome = await self._ended.get()
                if outcome is not None:
                    self._skip(schedule.finish(outcome.task, ok=outcome.ok))

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
        if task.id in self._stale:
            self._session.emit(TaskRestarted(task.id, self._stale.pop(task.id)))
        elif outcome.status != "aborted" or task.id not in self._outdated:
            self._note(outcome, started)
        self._ended.put_nowait(outcome)

    def _begin(self, task: "Task") -> None:
        self._running.add(task.id)
        self._started.add(task.id)
        self._outdated.discard(task.id)
        self._passed.pop(task.id, None)
        if self._moving:
            self._session.keys.forget([task.id])
        self._session.begun.add(task.id)
        overtaken = self._session.memory.overtaken
        overtaken.discard(task.id)
        below = self._session.plan.graph.dependencies[task.id]
        follows = task.persistent is None or task.persistent.restart_on_dependencies
        if follows and not overtaken.isdisjoint(below):
            overtaken.add(task.id)
        # What it builds on is not there, or half: nothing of it may pass for the result of its key.
        if task.persistent is None and not self._session.memory.broken.isdisjoint(below):
            overtaken.add(task.id)

    def _note(self, outcome: Outcome, started: int) -> None:
        self._session.memory.record(outcome)
        self._session.means.learn(outcome)
        if self._session.workspace.task(outcome.task).command is not None:
            if outcome.status not in ("fresh", "kept") or outcome.task not in self._outcomes:
                self._outcomes[outcome.task] = outcome
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
        outcome = await session.caching.settle(task, self._execute, self._moved)
        if outcome.status not in ("fresh", "restored"):
            session.keys.ran(task.id)
            self._look_back(task)
            if not outcome.ok and task.id in self._outdated:
                # It failed amid a change, and runs once more: nobody is to look into that.
                self._stale.setdefault(task.id, "")
        if outcome.ok and task.id not in session.memory.overtaken:
            session.memory.settled[task.id] = key
        return outcome

    async def _execute(self, task: "Task") -> Outcome:
        """Run the task to its end, or until it is stale; not at all where it is already."""
        if task.id in self._outdated:
            return Outcome(task.id, "aborted")
        job = asyncio.current_task()
        assert job is not None
        self._executing[task.id] = job
        self._begun_at[task.id] = time.time_ns()
        try:
            return await execute(self._session, task)
        except asyncio.CancelledError:
            if task.id in self._stale and not job.uncancel():
                return Outcome(task.id, "aborted")
            self._stale.pop(task.id, None)
            raise
        finally:
            del self._executing[task.id]

    def _moved(self, task: "Task") -> str | None:
        """Look at the task's inputs once more; one that changed while it ran, if any did.

        One that is as it was may have changed and changed back.
        """
        session, begun = self._session, self._begun_at[task.id]
        seen = self._look_up(task)
        if session.index.stands(task.id, begun):
            self._written[task.id] = []
            return None
        rewritten = session.index.rewritten(task.id, begun)
        if rewritten:
            session.memory.overtaken.add(task.id)
        changed = session.look_again(task)
        self._written[task.id] = [path for path in rewritten if path not in seen]
        self._overtake_by(changed)
        if task.id not in session.memory.overtaken:
            return None
        taken = (path for path in sorted(changed) if self._takes(task, path))
        return next(taken, rewritten[0] if rewritten else "an input")

    def _look_back(self, task: "Task") -> None:
        """The task has run: have it run once more where it may have read what is there no more."""
        session = self._session
        written = self._written.pop(task.id, None)
        if task.id not in self._begun_at or session.options.verb != "watch":
            return
        if task.id in self._outdated:
            return
        if written is None:
            # What was seen to change is no edit that was undone unseen.
            seen = self._look_up(task)
            rewritten = session.index.rewritten(task.id, self._begun_at[task.id])
            written = [path for path in rewritten if path not in seen]
        renewed = {*session.index.renewed(written), *session.overwritten(written)}
        changed = session.index.refresh(renewed) if renewed else frozenset()
        self._overtake_by(changed)
        git = index_stamp(session.workspace.root) != self._git
        passed = [self._passed.pop(task.id)] if task.id in self._passed else []
        odd = renewed - changed - (set() if git else self._granted(task))
        again = session.memory.undone.once_more(task.id, odd, passed, git=git)
        if again:
            session.memory.overtaken.add(task.id)
            session.memory.again.add(task.id)
        if changed or again:
            session.found(changed | again)
        del self._begun_at[task.id]

    def _granted(self, task: "Task") -> set[str]:
        """The files that the task's sandbox may write by name: to do so is its work."""
        if task.sandbox is None:
            return set()
        project = self._session.workspace.projects[task.project]
        return {inside(project, path) for path in task.sandbox.write}

    def _look_up(self, task: "Task") -> frozenset[str]:
        """Look at what has happened by the end of the task; what is seen to have changed."""
        session = self._session
        changed = session.look()
        self._overtake_by(changed)
        begun = self._begun_at[task.id]
        if session.late():
            self._look_into(task, session.index.stirred(task.id, begun))
        elif session.shifted():
            self._look_into(task, session.index.shifted(task.id, session.shifted(), begun))
        return changed

    def _look_into(self, task: "Task", stirred: str | None) -> None:
        """A name came or went in this directory while the task ran: one that can be seen, or not."""
        session = self._session
        changed = session.index.refresh([stirred]) if stirred is not None else frozenset()
        if changed:
            self._overtake_by(changed)
            session.found(changed)
        elif stirred is not None:
            session.memory.overtaken.add(task.id)
            self._passed[task.id] = stirred or "."

    def _takes(self, task: "Task", path: str) -> bool:
        ignored = path in self._session.index.ignored
        return self._session.affected.takes(task.id, path, ignored=ignored)

    async def _server(self, task: "Task") -> Outcome:
        session = self._session
        server = session.server(task)
        self._begun_at[task.id] = time.time_ns()
        outcome = await server.ensure(task, session.keys.fingerprint(task.id))
        if outcome.status in ("ready", "failed"):
            self._look_back(task)
        if outcome.status == "ready" and task.id in session.memory.overtaken:
            server.distrust()
        return outcome

    def _skip(self, skipped: "Mapping[TaskId, TaskId]") -> None:
        for task_id, blocker in skipped.items():
            self._note(Outcome(task_id, "skipped", blocked_by=blocker), time.time_ns())

    def end(self) -> CycleEnded:
        """Say what came of it, when it has run.

        Apart, because what is saved upon that is no work of its tasks.
        """
        outcomes = tuple(self._outcomes.values())
        moved = sum(1 for outcome in outcomes if outcome.status not in ("fresh", "kept"))
        kept = self._session.plan.commands - moved
        ended = CycleEnded(self._number, outcomes, kept, self._seconds, self._paths)
        if self._session.options.verb == "watch":
            self._session.caching.cycle(self._number, self._began_at, self._seconds, self._paths)
        self._session.emit(ended)
        return ended
