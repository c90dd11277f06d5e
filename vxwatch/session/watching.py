"""`vx watch`: a first cycle in which everything may have changed, then one for each change.

    watching -> (settled change) -> what it touches -> cycle -> watching
                                          |               ^-- what changes while it runs
                                          '-> nothing -> watching

A change of the workspace's own files loads it anew: tasks, projects and servers come and go
without a restart. While it does not load, changes are kept and wait for the repair. Nothing
a cycle does is proportional to the workspace; only a reload is.
"""

import asyncio
import os
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from vxwatch.cache.tracked import index_stamp
from vxwatch.errors import ConfigError, GitError, UserError
from vxwatch.events import Refused, RunStarted, Watching
from vxwatch.session.again import Again
from vxwatch.session.configs import ConfigFiles
from vxwatch.session.cycle import Cycle
from vxwatch.session.held import HeldConfigs
from vxwatch.session.planning import Plan, make_plan
from vxwatch.session.race import race
from vxwatch.session.reach import Reach
from vxwatch.session.remarks import Remarks
from vxwatch.session.territory import Territory
from vxwatch.session.undone import Undone
from vxwatch.session.uprooted import Homes
from vxwatch.watch.engines import open_watcher
from vxwatch.watch.loop import ChangeFeed

if TYPE_CHECKING:
    from vxwatch.model import TaskId, Workspace
    from vxwatch.session.session import Session

RULES = ".gitignore"
_MOST_LOADS = 4
"""Loads in a row while configs are being written; then a cycle comes first."""
MOST_APART = 100
"""Changed paths that are handed to a running cycle one by one; more go together."""
RETRY = 0.25
"""Seconds after which a running cycle is asked again to take in what it could not."""


class Watch:
    """The state of a watch between two cycles."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._number = 0
        self._configs = ConfigFiles(session.workspace.root, _configs(session.workspace))
        self._territory = Territory(session.plan, session.affected, session.ignores)
        self._reach = Reach(session)
        self._homes = Homes(session)
        self._remarks = Remarks(session, self._reach)
        self._held = HeldConfigs(session, self._configs, self._remarks.note)
        self._feed = self._open_feed()
        self._again = Again()
        self._asked = asyncio.Event()
        self._anew = False
        self._moved = False
        self._broken = False
        self._running: Cycle | None = None
        self._waiting: frozenset[str] = frozenset()
        self._undone = Undone()
        self._git = index_stamp(session.workspace.root)

    async def run(self) -> None:
        """Watch, run the first cycle, then react until cancelled."""
        session = self._session
        async with self._feed:
            # A content that is looked at from here on can be told from any later one.
            session.learn()
            session.listeners.append(self._feed.add)
            session.look = self._feed.look
            session.late = lambda: self._feed.late
            session.shifted = lambda: self._feed.shifted
            session.overwritten = self._feed.overwritten
            session.index.read()
            self._feed.read()
            self._territory.know(session.index)
            self._remarks.unreadable()
            projects = {task.rpartition("#")[0] for task in session.plan.graph.order}
            session.emit(Watching(len(projects)))
            parents = session.workspace.member_parents
            self._moved = self._configs.stale(session.plan.since, parents)
            if self._moved:
                await self._react(frozenset())
            else:
                await self._cycle(session.plan.graph.order, ())
                await self._renew_boxes()
            while True:
                changed = await self._next()
                try:
                    await self._react(changed - self._rewritten(changed) | self._waiting)
                    if self._asked.is_set():
                        await self._grant()
                except* GitError as errors:
                    self._wait_for_git(changed, errors)

    def _wait_for_git(self, changed: frozenset[str], error: Exception) -> None:
        """Git cannot say what it tracks: keep the changes; the next one loads all anew."""
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        assert isinstance(error, GitError)
        self._moved = True
        self._waiting |= changed
        self._remarks.refuse(error)

    def request(self, *, anew: bool) -> None:
        """Run all that is selected again, as soon as nothing runs; `anew`: use nothing of the cache."""
        self._anew = self._anew or anew
        self._asked.set()

    async def _grant(self) -> None:
        session = self._session
        anew, self._anew = self._anew, False
        self._asked.clear()
        if self._moved or self._broken:
            self._remarks.mended()
            await self._react(self._waiting)
            return
        order = session.plan.graph.order
        session.memory.settled.clear()
        session.keys.forget(order)
        options = session.options
        if anew and options.cache == "use":
            session.options = options._replace(cache="renew")
        try:
            await self._cycle(order, ())
        finally:
            session.options = options
        await self._renew_boxes()

    async def _next(self) -> frozenset[str]:
        """What changed; nothing when a server came up, or somebody asks for a cycle."""
        changed: frozenset[str] = frozenset()

        async def change() -> None:
            nonlocal changed
            changed = await self._feed.next()

        await race(change(), self._session.server_came_up.wait(), self._asked.wait())
        self._session.server_came_up.clear()
        return changed

    def _open_feed(self) -> ChangeFeed:
        session = self._session
        # By its name nothing in it counts, should the temp directory be in the workspace.
        scratch = os.path.join(session.nursery.directory, ".vx")
        os.mkdir(scratch, 0o700)
        watcher = open_watcher(
            self._territory.scope(),
            scratch,
            self._remarks.note,
            "poll" if session.options.poll else None,
        )
        root, quiet = session.workspace.root, session.options.quiet
        return ChangeFeed(
            watcher, root, self._refresh, self._rescan, self._remarks.note, quiet=quiet
        )

    def _refresh(self, paths: Collection[str]) -> frozenset[str]:
        configs = self._held.let_in(self._configs.changed(paths))
        # Of what came and went in between there is nothing to see but that.
        timely = self._running and not self._feed.late
        ghosts = self._session.index.ghosts(paths) if timely else ()
        changed = self._look(lambda: self._session.index.refresh(paths), configs)
        changed |= self._uprooted(paths)
        if self._running and ghosts:
            self._running.passed(ghosts)
        if any(path.rpartition("/")[2] == RULES for path in paths):
            self._feed.replace(self._territory.scope())
        # What mends the workspace may be no file of it: a directory, say.
        return changed | frozenset(paths) if self._broken else changed

    def _rescan(self, tree: str) -> frozenset[str]:
        configs = self._held.let_in(self._configs.rescan(tree))
        changed = self._look(lambda: self._session.index.rescan(tree), configs)
        return changed | self._uprooted([tree])

    def _uprooted(self, paths: Collection[str]) -> frozenset[str]:
        """Directories of projects that went with what tasks made in them; these look at it again."""
        found = self._homes.uprooted(paths)
        for task in found:
            self._session.memory.settled.pop(task, None)
        self._session.memory.again |= found.keys()
        return frozenset(found.values())

    def _look(self, look: Callable[[], frozenset[str]], configs: frozenset[str]) -> frozenset[str]:
        """What changed; what cannot be judged now is covered by loading all anew with the next."""
        if configs:
            self._moved = True
            self._remarks.mended()
        try:
            return look() | configs
        except UserError as error:
            self._remarks.refuse(error)
            self._moved = True
            return configs

    async def _react(self, changed: frozenset[str]) -> None:
        """Bring what the changes touch up to date."""
        self._waiting = frozenset()
        paths = tuple(sorted(changed))
        if self._moved or self._broken:
            if await self._load():
                self._session.memory.again.clear()
                await self._cycle(self._session.plan.graph.order, paths)
                await self._renew_boxes()
            else:
                self._waiting = changed
                await self._start_after_all()
            return
        _, pending = self._reach.touched(changed)
        again = self._session.memory.again
        pending |= self._session.plan.graph.downstream(again)
        again.clear()
        self._session.reloads.edited(lambda task: self._reach.left_alone(task, changed) is not None)
        if pending:
            self._session.keys.forget(pending)
            await self._cycle(pending, paths)
        self._session.reloads.settle()
        renewed = await self._renew_boxes()
        self._remarks.keeps_running(changed, pending | {*renewed})

    async def _start_after_all(self) -> None:
        """Start the servers whose start was given up for a config that does not load."""
        outcomes = self._session.memory.outcomes
        given_up = {
            task
            for task in self._session.servers
            if task in outcomes and outcomes[task].status == "aborted"
        }
        if given_up:
            await self._cycle(self._session.plan.graph.downstream(given_up), ())

    async def _renew_boxes(self) -> "Collection[TaskId]":
        """Restart the servers whose box shows what is no longer there; gives them."""
        session = self._session
        outdated = self._outdated()
        for task, path in tuple(outdated.items()):
            never = session.servers[task].restarts == "never"
            self._remarks.replaced(task, path, never=never)
            if never:
                del outdated[task]
            else:
                session.servers[task].distrust()
        if outdated:
            paths = tuple(sorted(set(outdated.values())))
            await self._cycle(session.plan.graph.downstream(outdated), paths)
        return outdated.keys()

    def _outdated(self) -> "dict[TaskId, str]":
        root = self._session.workspace.root
        found = {task: server.replaced() for task, server in self._session.servers.items()}
        return {task: os.path.relpath(path, root) for task, path in found.items() if path}

    async def _cycle(self, pending: "Collection[TaskId]", paths: tuple[str, ...]) -> None:
        self._number += 1
        cycle = Cycle(self._session, self._number, pending, paths, self._again)
        self._session.index.mark()
        self._session.caching.renew()
        self._running = cycle
        try:
            with self._feed.cycle():
                await race(cycle.run(), self._look_on(cycle))
        finally:
            self._running = None
        cycle.end()

    async def _look_on(self, cycle: Cycle) -> None:
        """Have a cycle take in what changes while it runs.

        It is told at once what it is overtaken by: what changes twice may look unchanged at its
        end.
        """
        waiting: frozenset[str] = frozenset()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY if waiting else None):
                    changed = await self._feed.glance()
                    touched, tasks = self._reach.touched(changed)
                    cycle.overtake(touched.inputs | touched.uncached | touched.restarts)
                    cycle.put_off(tasks)
                    waiting |= changed
            # What is loaded anew when the cycle has ended is all of it.
            if not self._moved and not self._broken:
                waiting = self._hand_over(cycle, waiting)
            elif self._moved:
                cycle.give_up_starts(self._reach.owners(waiting))

    def _hand_over(self, cycle: Cycle, changed: frozenset[str]) -> frozenset[str]:
        """Have the cycle take in what it can; what may be handed over later.

        A file that changed and changed back in the cycle before may be rewritten by its task.
        """
        sets = [changed] if len(changed) > MOST_APART else [frozenset({path}) for path in changed]
        taken: set[str] = set()
        pending: set[TaskId] = set()
        waiting: set[str] = set()
        for paths in sets:
            touched, tasks = self._reach.touched(paths)
            if not tasks or self._undone.may_be_own("", paths):
                continue
            if cycle.takes(tasks, touched.uncached):
                taken |= paths
                pending |= tasks
            else:
                waiting |= paths
        if taken:
            self._feed.taken(taken)
            cycle.take_in(pending, taken)
            self._remarks.keeps_running(frozenset(taken), pending)
        return frozenset(waiting)

    def _rewritten(self, changed: frozenset[str]) -> frozenset[str]:
        """What the tasks of the last cycle rewrote just as it was, as far as that can be told.

        A path that changed while tasks ran and changed back is an edit that was undone; but not
        when it did the same in the cycle that this caused. What a task took in between is none.
        """
        if not changed:
            return changed
        before, self._git = self._git, index_stamp(self._session.workspace.root)
        index = self._session.index
        returned = index.returned(changed)
        gone = frozenset(index.ghosts(returned))
        git = self._git != before
        rewritten = returned - self._undone.once_more("", returned - gone, gone, git=git)
        return rewritten - self._reach.outdated(rewritten)

    async def _load(self) -> bool:
        """Take up the workspace as it is now; False when it does not load."""
        session = self._session
        since = time.time_ns()
        try:
            loads = 0
            while True:
                loads += 1
                self._moved = False
                self._held.refuse()
                plan = make_plan(
                    session.options,
                    lambda error: session.emit(Refused(error)),
                    session.workspace.root,
                )
                moved = self._configs.replace(_configs(plan.workspace), plan.since)
                self._moved = bool(moved)
                await session.replace(plan)
                if not moved:
                    break
                if loads >= _MOST_LOADS:
                    self._feed.add(moved)
                    break
        except UserError as error:
            self._remarks.refuse(error)
            if not self._broken:
                self._remarks.note(
                    "what changes from now on waits until this is mended; servers stay up"
                )
            self._broken = True
            self._look_where_it_can_be_mended(error, since)
            return False
        self._broken = False
        self._take_up(plan)
        return True

    def _look_where_it_can_be_mended(self, error: UserError, since: int) -> None:
        """Wait for files that were not watched, and for a root that is gone.

        No event tells of that while we stand in it, nor of what changed `since` it was read.
        """
        files = error.files if isinstance(error, ConfigError) else ()
        if files or not os.path.isdir(self._session.workspace.root):
            self._feed.replace(self._territory.scope(files))
        if late := self._configs.late(files, since):
            self._feed.add(late)

    def _take_up(self, plan: Plan) -> None:
        session = self._session
        session.emit(
            RunStarted("watch", plan.requested, plan.graph.order, plan.servers, plan.broad)
        )
        session.index.read()
        self._feed.read()
        self._remarks.unreadable()
        self._reach.load()
        self._homes.load()
        self._territory = Territory(plan, session.affected, session.ignores)
        self._territory.know(session.index)
        self._feed.replace(self._territory.scope())


def _configs(workspace: "Workspace") -> tuple[str, ...]:
    """All that decides what the workspace is."""
    return (*workspace.config_files, *workspace.config_directories)
