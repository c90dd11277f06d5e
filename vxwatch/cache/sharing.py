"""Which outputs are another task's, where the rules let tasks make some in the same places.

A task that is restored there takes away what is left of itself, and leaves what others made.
"""

from collections.abc import Callable, Collection, Sequence

from vxwatch.cache.declared import Declared
from vxwatch.cache.presences import Presences
from vxwatch.graph.places import upward
from vxwatch.model import Task, Workspace


class Sharing:
    """Of one workspace; where all outputs are exclusive nothing is shared."""

    def __init__(self, workspace: Workspace, declared: Callable[[Task], Declared]) -> None:
        """`declared` gives what a task with outputs may make."""
        self._declared = declared
        self._tasks: Sequence[Task] = ()
        if not workspace.rules.exclusive_outputs:
            tasks = (t for project in workspace.projects.values() for t in project.tasks.values())
            self._tasks = [task for task in tasks if task.outputs is not None]

    def of_others(self, task: Task, paths: Collection[str], presences: Presences) -> frozenset[str]:
        """Those of the paths that were last seen of other tasks that declare them, or lead there."""
        found: set[str] = set()
        for other in self._tasks:
            known = presences.of(other.id) if other.id != task.id else None
            if known is None:
                continue
            seen = known[1].paths
            theirs = [path for path in paths if path in seen and seen[path][0] is not None]
            covers = self._declared(other).covers if theirs else None
            found.update(p for path in theirs if covers and covers(path) for p in upward(path))
        return frozenset(found.intersection(paths))
