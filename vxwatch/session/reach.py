"""What a change means for the tasks and servers of a session: what is to be looked at for it.

Costs the changed paths and the servers, never the tasks of the workspace.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from vxwatch.graph.places import Owners

if TYPE_CHECKING:
    from vxwatch.graph.affected import Touched
    from vxwatch.model import TaskId
    from vxwatch.session.session import Session


class Reach:
    """As the workspace was last loaded."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self.load()

    def load(self) -> None:
        """Take up the workspace as it is now."""
        self._owners = Owners(self._session.workspace.projects.values())

    def direct(self, changed: Collection[str]) -> "Touched":
        """The tasks that take what changed."""
        session = self._session
        return session.affected.touched(changed, session.index.ignored)

    def touched(self, changed: Collection[str]) -> "tuple[Touched, frozenset[TaskId]]":
        """The tasks that take what changed, and all that is to be looked at therefore."""
        touched, graph = self.direct(changed), self._session.plan.graph
        pending = graph.downstream(touched.inputs | touched.uncached | touched.restarts)
        dead = {
            task
            for task, server in self._session.servers.items()
            if server.startable and task not in pending and self._wanted(task, changed, pending)
        }
        more = dead | self._unblocked()
        return touched, graph.downstream(pending | more) if more else pending

    def outdated(self, changed: Collection[str]) -> frozenset[str]:
        """Those of the paths of which a task took something else when it ran than they hold now."""
        if not changed:
            return frozenset()
        touched, keys = self.direct(changed), self._session.keys
        tasks = touched.inputs | touched.uncached
        return frozenset().union(*(keys.outdated(task, changed) for task in tasks))

    def owners(self, changed: Collection[str]) -> frozenset[str]:
        """The projects in which something changed."""
        owners = map(self._owners.of, changed)
        return frozenset(owner.name for owner in owners if owner is not None)

    def left_alone(self, server: "TaskId", changed: Collection[str]) -> str | None:
        """A change in the server's project that nothing takes up, if there is one."""
        takers = self._session.affected.takers
        own = (path for path in changed if self._owns(server, path))
        return next((path for path in own if not any(True for _ in takers(path))), None)

    def _unblocked(self) -> "set[TaskId]":
        """What was skipped for want of a server that has come up by itself since."""
        memory, servers = self._session.memory, self._session.servers
        blockers = {task: memory.outcomes[task].blocked_by for task in memory.broken}
        return {
            task
            for task, blocker in blockers.items()
            if blocker in servers and servers[blocker].alive
        }

    def _wanted(
        self, server: "TaskId", changed: Collection[str], pending: "frozenset[TaskId]"
    ) -> bool:
        """Whether a server that is down is to be tried again: its project or a user of it is touched."""
        users = self._session.plan.graph.downstream([server])
        return not pending.isdisjoint(users) or any(self._owns(server, path) for path in changed)

    def _owns(self, task: "TaskId", path: str) -> bool:
        owner = self._owners.of(path)
        return owner is not None and owner.name == task.rpartition("#")[0]
