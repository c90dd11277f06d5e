"""Where the outputs of a workspace's tasks belong, and what of them others may have there."""

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from vxwatch.cache.content import Clock
from vxwatch.cache.declared import Declared
from vxwatch.cache.outputs import Outputs, Spared
from vxwatch.cache.presences import Presences
from vxwatch.cache.sharing import Sharing
from vxwatch.cache.tracked import TrackedFiles
from vxwatch.graph.places import upward
from vxwatch.model import Globs, Project, Task, Workspace


class TaskOutputs:
    """The outputs of each task that declares some. Calls may come from different threads.

    `root` is absolute and real; what takes long ends unfinished once `is_stopping` says so.
    """

    def __init__(
        self,
        root: str,
        projects: Mapping[str, Project],
        clock: Clock,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._root = root
        self._clock = clock
        self._is_stopping = is_stopping
        self._tracked: TrackedFiles | None = TrackedFiles(root)
        self._lock = threading.RLock()
        self.load(projects)

    def load(self, projects: Mapping[str, Project]) -> None:
        """Take up the projects as they are now."""
        self._projects = projects
        self._places = sorted(project.dir for project in projects.values())
        self._known: dict[tuple[str, Globs], tuple[Outputs, Declared]] = {}
        self._sharing: Sharing | None = None

    def share(self, workspace: Workspace) -> None:
        """Have tasks leave alone what others made in the same places, if these rules allow that."""
        self._sharing = Sharing(workspace, self.declared)

    def track_by(self, files: TrackedFiles | None) -> None:
        """Whom to ask what git tracks; None where the caller knows that no output is."""
        self._tracked = files

    def of(self, task: Task) -> tuple[Outputs, Declared]:
        """What handles the outputs of the task, and which paths they are."""
        assert task.outputs is not None
        # What makes nothing makes the same wherever it lies.
        place = task.project if task.outputs.files else ""
        with self._lock:
            known = self._known.get((place, task.outputs))
            if known is None:
                project = self._projects[task.project]
                declared = Declared(project, task.outputs, self._places)
                outputs = Outputs(self._root, declared, self.below, self._clock, self._is_stopping)
                known = self._known[place, task.outputs] = outputs, declared
            return known

    def of_others(self, task: Task, presences: Presences) -> Spared:
        """Tells which paths were last seen of another task that declares them, or lead there."""
        sharing = self._sharing
        if sharing is None:
            return lambda _: ()
        return lambda paths: sharing.of_others(task, paths, presences)

    def declared(self, task: Task) -> Declared:
        """Which paths are outputs of the task."""
        return self.of(task)[1]

    def has_places(self, task: Task) -> bool:
        """Whether there is anywhere that outputs of the task belong."""
        return bool(self.declared(task).roots)

    def has_files(self, task: Task) -> bool:
        """Whether there is anything where outputs of the task belong."""
        return any(os.path.lexists(f"{self._root}/{root}") for root in self.declared(task).roots)

    def is_blocked(self, task: Task) -> bool:
        """Whether something that is no directory stands where one with outputs of the task belongs."""
        declared = self.declared(task)
        places = {above for root in declared.roots for above in upward(root) if above != root}
        kept = (root for root in declared.roots if not declared.matches(root))
        places.update(root for root in kept if declared.holds(root))
        full = [f"{self._root}/{place}" for place in places]
        return any(os.path.lexists(path) and not os.path.isdir(path) for path in full)

    def below(self, places: Iterable[str]) -> Sequence[str]:
        """The files that git tracks at these places and below them."""
        with self._lock:
            return () if self._tracked is None else self._tracked.below(places)
