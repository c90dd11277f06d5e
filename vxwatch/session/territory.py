"""Which directories a watch listens to: those whose files can matter, and no other.

Built from a workspace and the tasks of a plan. Directories that git ignores, that a task
declares as output or that belong to a project outside the plan are never watched.
"""

import os
from typing import TYPE_CHECKING

from vxwatch.globs import excluded
from vxwatch.watch.scope import Scope
from vxwatch.workspace.gitwaits import GitWaitsError
from vxwatch.workspace.trail import led_through

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vxwatch.cache.files import FileIndex
    from vxwatch.graph.affected import Affected
    from vxwatch.session.planning import Plan
    from vxwatch.workspace.git import Ignores


class Territory:
    """The scope of one plan, and the knowledge that its questions are answered from."""

    def __init__(self, plan: "Plan", affected: "Affected", ignores: "Ignores") -> None:
        self._plan = plan
        self._affected = affected
        self._ignores = ignores
        self._index: FileIndex | None = None
        self._projects = {project.dir for project in plan.workspace.projects.values()}

    def know(self, index: "FileIndex") -> None:
        """Directories that hold a file of this index need no question to git."""
        self._index = index

    def scope(self, more: "Iterable[str]" = ()) -> Scope:
        """What to watch, and the directories of `more` files, also of those that links lead to."""
        workspace = self._plan.workspace
        named = {task.rpartition("#")[0] for task in self._plan.graph.order}
        literals = self._affected.literals()
        configs = {*workspace.config_files, *more}
        directories = {*workspace.config_directories}
        directories |= led_through(workspace.root, directories)
        configs |= directories | led_through(workspace.root, configs)
        return Scope(
            root=workspace.root,
            trees=frozenset(workspace.projects[name].dir for name in named)
            | frozenset(self._affected.directories()),
            directories=frozenset({"", *directories, *map(os.path.dirname, (*configs, *literals))}),
            parents=frozenset(workspace.member_parents),
            pruned=self.pruned,
        )

    def pruned(self, paths: "Sequence[str]") -> set[str]:
        """Those of the directories in which nothing can matter."""
        out = {path for path in paths if self._never(path)}
        index = self._index
        unsure = [p for p in paths if p not in out and not (index and index.holds(p))]
        try:
            return out | self._ignores.ignored(unsure) if unsure else out
        except GitWaitsError:
            # Whoever looks at the files meets it, too, and tells it. To be seen when it is mended.
            return out

    def _never(self, path: str) -> bool:
        if excluded(path) or self._affected.closed(path):
            return True
        return path in self._projects and not self._affected.reaches(path)
