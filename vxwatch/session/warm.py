"""Whether a run has nothing to do, found out without an event loop; and the proof of it.

Only what is plainly so counts: every task is kept by the cache, and what it made under its
present key lies on disk as it was saved. Whatever else there is, an event loop is for.
"""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from vxwatch.cache.place import cache_place
from vxwatch.cache.proof import prove
from vxwatch.cache.reuse import Cache, is_kept
from vxwatch.cache.store import Store
from vxwatch.events import Outcome
from vxwatch.session.footprint import footprint

if TYPE_CHECKING:
    from vxwatch.cache.standing import Command
    from vxwatch.model import Task
    from vxwatch.session.knowledge import Knowledge
    from vxwatch.session.planning import Options, Plan


class Warm:
    """One look at a plan before it runs."""

    def __init__(self, plan: "Plan", options: "Options", known: "Knowledge") -> None:
        self._plan = plan
        self._options = options
        self._known = known
        self._outputs: set[str] = set()

    def outcomes(self) -> tuple[Outcome, ...] | None:
        """How the tasks ended, where all are fresh; None where something may be to do."""
        workspace = self._plan.workspace
        ordered = (workspace.task(task) for task in self._plan.graph.order)
        tasks = [task for task in ordered if task.command is not None]
        if not tasks or self._plan.left_out or self._options.cache != "use":
            return None
        if not all(is_kept(task) and not task.interactive for task in tasks):
            return None
        self._known.learn()
        with self._cache() as (cache, trouble):
            if trouble or not all(self._stands(cache, task) for task in tasks):
                return None
        return tuple(Outcome(task.id, "fresh") for task in tasks)

    def prove(self, command: "Command", text: str) -> None:
        """Write down that the command has nothing to do, where stamps can prove that.

        Not where git's commits or commands of the config have a say, which have to be asked each
        time, nor where secrets count, which are not to be guessed from a hash.
        """
        if self._options.affected is not None or any("[" in one for one in self._options.filters):
            return
        tasks = [self._plan.workspace.task(task) for task in self._plan.graph.order]
        if any(t.input_runtime or t.input_workspace_runtime or t.env_secret for t in tasks):
            return
        known = self._known
        paths = footprint(self._plan.workspace, self._options.directory, known.index, known.ignores)
        if paths is None or self._plan.workspace.secrets:
            return
        names = {name for task in tasks for name in task.input_env}
        # It spares time and nothing else.
        with contextlib.suppress(OSError):
            prove(
                command,
                self._plan.workspace.root,
                text,
                names=names,
                paths=paths | self._outputs,
                since=self._plan.since,
            )

    @contextlib.contextmanager
    def _cache(self) -> Iterator[tuple[Cache, list[str]]]:
        """The cache, and what there is to tell of it; the way with an event loop tells it again."""
        trouble: list[str] = []
        workspace = self._plan.workspace
        place = cache_place(workspace.root, workspace.cache_dir)
        cache = Cache(
            workspace.root,
            workspace.projects,
            lambda: Store(place),
            lambda text, _: trouble.append(text),
        )
        try:
            yield cache, trouble
        finally:
            cache.close()

    def _stands(self, cache: Cache, task: "Task") -> bool:
        present = cache.standing(task, self._known.keys.key(task.id))
        if present is None:
            return False
        self._outputs.update(present.paths)
        return True
