"""What is lost with the directory of a project, when another one comes to its place.

A directory may be moved away and made anew in one go, with the same files in it, as git does it:
no input differs then, but what tasks made in it is gone, and a server runs in a directory that is
nowhere any more. Costs the paths that are asked about, and the tasks of the projects there.
"""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from vxwatch.graph.places import upward

if TYPE_CHECKING:
    from vxwatch.model import Project, Task, TaskId
    from vxwatch.session.session import Session


class Homes:
    """Where the projects of the tasks lie, as the workspace was last loaded."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self.load()

    def load(self) -> None:
        """Take up the workspace as it is now."""
        plan = self._session.plan
        named = {task.rpartition("#")[0] for task in plan.graph.order}
        self._projects = [plan.workspace.projects[name] for name in named]
        self._places = {above for project in self._projects for above in upward(project.dir)}

    def uprooted(self, paths: Collection[str]) -> "dict[TaskId, str]":
        """Tasks whose work is gone with their project's directory, which is given with each.

        Of the paths those count that are the directory of a project, or hold it.
        """
        moved = self._places.intersection(paths)
        if not moved:
            return {}
        return {
            task.id: project.dir or "."
            for project in self._projects
            if not moved.isdisjoint(upward(project.dir))
            for task in self._tasks(project)
            if self._is_lost(task)
        }

    def _tasks(self, project: "Project") -> "Iterator[Task]":
        return (t for t in project.tasks.values() if t.id in self._session.plan.graph.dependencies)

    def _is_lost(self, task: "Task") -> bool:
        session = self._session
        if task.persistent is not None:
            server = session.servers.get(task.id)
            began_with = server.fingerprint if server is not None else None
            return began_with is not None and began_with != session.keys.fingerprint(task.id)
        key = session.memory.settled.get(task.id)
        makes_files = task.outputs is not None and bool(task.outputs.files)
        return makes_files and key is not None and not session.caching.stands(task, key)
