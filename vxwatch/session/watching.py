"""`vx watch`: a first cycle in which everything may have changed, then one for each change.

    watching -> (settled change) -> what it touches -> cycle -> watching
                                          '-> nothing -> watching

A change of the workspace's own files loads it anew: tasks, projects and servers come and go
without a restart. While it does not load, changes are kept and wait for the repair. Nothing
a cycle does is proportional to the workspace; only a reload is.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from vxwatch.errors import UserError
from vxwatch.events import Notice, Refused, RunStarted, Watching
from vxwatch.graph.places import Owners
from vxwatch.session.configs import ConfigFiles
from vxwatch.session.cycle import Cycle
from vxwatch.session.planning import Plan, make_plan
from vxwatch.session.territory import Territory
from vxwatch.watch.engines import open_watcher
from vxwatch.watch.loop import ChangeFeed

if TYPE_CHECKING:
    from vxwatch.model import TaskId
    from vxwatch.session.session import Session

RULES = ".gitignore"


async def watch(session: "Session") -> None:
    """Watch until the session is stopped."""
    await Watch(session).run()


class Watch:
    """The state of a watch between two cycles."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._number = 0
        self._configs = ConfigFiles(session.workspace.root, session.workspace.config_files)
        self._territory = Territory(session.plan, session.affected, session.ignores)
        self._owners = Owners(session.workspace.projects.values())
        self._feed = self._open_feed()
        self._moved = False
        self._broken = False
        self._waiting: frozenset[str] = frozenset()
        self._told: set[TaskId] = set()
        self._unseen: frozenset[str] = frozenset()

    async def run(self) -> None:
        """Watch, run the first cycle, then react until cancelled."""
        session = self._session
        async with self._feed:
            # A content that is looked at from here on can be told from any later one.
            session.learn()
            session.index.read()
            self._territory.know(session.index)
            self._name_unreadable()
            projects = {task.rpartition("#")[0] for task in session.plan.graph.order}
            session.emit(Watching(len(projects)))
            await self._cycle(session.plan.graph.order, ())
            while True:
                changed = await self._feed.next()
                await self._react(changed | self._waiting)

    def _open_feed(self) -> ChangeFeed:
        session = self._session
        watcher = open_watcher(
            self._territory.scope(),
            session.nursery.directory,
            self._note,
            "poll" if session.options.poll else None,
        )
        root, quiet = session.workspace.root, session.options.quiet
        return ChangeFeed(watcher, root, self._refresh, self._rescan, self._note, quiet=quiet)

    def _refresh(self, paths: Collection[str]) -> frozenset[str]:
        configs = self._configs.changed(paths)
        self._moved |= bool(configs)
        changed = self._look(frozenset(paths) | self._unseen) | configs
        if any(path.rpartition("/")[2] == RULES for path in paths):
            self._feed.replace(self._territory.scope())
        return changed

    def _look(self, paths: frozenset[str]) -> frozenset[str]:
        """What changed among the paths; those that cannot be judged now are judged with the next."""
        self._unseen = frozenset()
        try:
            return self._session.index.refresh(paths)
        except UserError as error:
            self._session.emit(Refused(error))
            self._unseen = paths
            return frozenset()

    def _rescan(self, tree: str) -> frozenset[str]:
        configs = self._configs.rescan(tree)
        self._moved |= bool(configs)
        return self._session.index.rescan(tree) | configs

    async def _react(self, changed: frozenset[str]) -> None:
        """Bring what the changes touch up to date."""
        self._waiting = frozenset()
        paths = tuple(sorted(changed))
        if self._moved:
            self._moved = False
            self._broken = not await self._load()
            if not self._broken:
                await self._cycle(self._session.plan.graph.order, paths)
                return
        if self._broken:
            self._waiting = changed
            return
        pending = self._touched(changed)
        if pending:
            self._session.keys.forget(pending)
            await self._cycle(pending, paths)
        self._say_what_keeps_running(changed)

    async def _cycle(self, pending: "Collection[TaskId]", paths: tuple[str, ...]) -> None:
        self._number += 1
        with self._feed.cycle():
            await Cycle(self._session, self._number, pending, paths).run()

    def _touched(self, changed: frozenset[str]) -> "frozenset[TaskId]":
        session = self._session
        touched = session.affected.touched(changed, session.index.ignored)
        graph = session.plan.graph
        pending = graph.downstream(touched.inputs | touched.uncached | touched.restarts)
        dead = {
            task
            for task, server in session.servers.items()
            if not server.alive and task not in pending and self._wanted(task, changed, pending)
        }
        return graph.downstream(pending | dead) if dead else pending

    def _wanted(
        self, server: "TaskId", changed: frozenset[str], pending: "frozenset[TaskId]"
    ) -> bool:
        """Whether a server that is down is to be tried again: its project or a user of it is touched."""
        dependents = self._session.plan.graph.dependents[server]
        return not pending.isdisjoint(dependents) or any(
            self._owns(server, path) for path in changed
        )

    def _owns(self, task: "TaskId", path: str) -> bool:
        owner = self._owners.of(path)
        return owner is not None and owner.name == task.rpartition("#")[0]

    async def _load(self) -> bool:
        """Take up the workspace as it is now; False when it does not load."""
        session = self._session
        try:
            plan = make_plan(session.options, lambda error: session.emit(Refused(error)))
        except UserError as error:
            session.emit(Refused(error))
            self._note("what changes from now on waits until this is mended; servers stay up")
            return False
        await session.replace(plan)
        self._take_up(plan)
        return True

    def _take_up(self, plan: Plan) -> None:
        session = self._session
        session.emit(
            RunStarted("watch", plan.requested, plan.graph.order, plan.servers, plan.broad)
        )
        session.index.read()
        self._name_unreadable()
        self._configs.replace(plan.workspace.config_files)
        self._owners = Owners(plan.workspace.projects.values())
        self._territory = Territory(plan, session.affected, session.ignores)
        self._territory.know(session.index)
        self._feed.replace(self._territory.scope())

    def _say_what_keeps_running(self, changed: frozenset[str]) -> None:
        """Once for each server: a change in its project that nothing takes up."""
        session = self._session
        for task, server in session.servers.items():
            if task in self._told or not server.alive:
                continue
            for path in changed:
                if self._owns(task, path) and not any(True for _ in session.affected.takers(path)):
                    self._told.add(task)
                    config = session.workspace.projects[server.task.project].config
                    self._note(f"{task} keeps running (no restart_on in {config} names {path})")
                    break

    def _name_unreadable(self) -> None:
        for path, reason in self._session.index.unreadable.items():
            self._note(f"{path} cannot be read ({reason}): a change of it may go unseen")

    def _note(self, text: str) -> None:
        self._session.emit(Notice(text))
