"""Which files git tracks where outputs lie, asked once until an index changes.

A repository inside the workspace, be it a submodule or a clone, has an index of its own. Where
there is no git, nothing is tracked.
"""

import os
import threading
from bisect import bisect_left
from collections.abc import Iterable
from itertools import islice

from vxwatch.graph.places import upward
from vxwatch.workspace.gitplace import git_directory

Stamp = tuple[int, int, int] | None


class TrackedFiles:
    """The tracked files of a workspace, whose `root` is absolute and real.

    Calls may come from different threads. `generation` moves whenever an index was read.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self.generation = 0
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Stamp, list[str]]] = {}
        self._inner: dict[str, bool] = {}

    def below(self, places: Iterable[str]) -> list[str]:
        """The tracked files at the places and below them, relative to the root, there or not.

        Costs what is found, not what the repository holds.
        """
        with self._lock:
            return sorted(self._below(places))

    def _below(self, places: Iterable[str]) -> set[str]:
        found: set[str] = set()
        for place in places:
            paths = self._of(self._repository(place))
            prefix = f"{place}/" if place else ""
            for path in islice(paths, bisect_left(paths, prefix), None):
                if not path.startswith(prefix):
                    break
                found.add(path)
            at = bisect_left(paths, place)
            found.update(paths[at : at + 1] if paths[at : at + 1] == [place] else ())
        return found

    def moved(self) -> bool:
        """Whether an index that was asked is another one by now."""
        with self._lock:
            return any(
                known[0] != index_stamp(self._full(repository))
                for repository, known in self._known.items()
            )

    def _repository(self, place: str) -> str:
        """The innermost repository around a place, "" for the one around the workspace."""
        for directory in upward(place):
            if directory and directory not in self._inner:
                self._inner[directory] = os.path.lexists(f"{self._root}/{directory}/.git")
            if directory and self._inner[directory]:
                return directory
        return ""

    def _of(self, repository: str) -> list[str]:
        """What the repository tracks, sorted."""
        full = self._full(repository)
        stamp = index_stamp(full)
        known = self._known.get(repository)
        if known is None or known[0] != stamp:
            from vxwatch.workspace.git import Git  # noqa: PLC0415 - what only restores asks nothing

            files = Git(full, self._root).tracked([""])
            prefix = f"{repository}/" if repository else ""
            known = stamp, sorted(prefix + path for path in files)
            self._known[repository] = known
            self.generation += 1
        return known[1]

    def _full(self, repository: str) -> str:
        return f"{self._root}/{repository}".rstrip("/")


class Sources:
    """What git tracks of a workspace, as it was when this was made or renewed."""

    def __init__(self, files: TrackedFiles) -> None:
        """Nothing is asked before somebody wants to know."""
        self._files = files
        self._generation = files.generation
        self._known: dict[str, bool] = {}

    def holds(self, place: str) -> bool:
        """Whether git tracks what is at the place, or anything below it."""
        known = self._known.get(place)
        if known is None:
            known = self._known[place] = bool(self._files.below([place]))
            if len(self._known) == 1:
                self._generation = self._files.generation
        return known

    def renew(self) -> bool:
        """Look again; whether it may be something else by now."""
        if not self._known:
            return False
        moved = self._files.moved() or self._files.generation != self._generation
        if moved:
            self._known.clear()
        return moved


def index_stamp(directory: str) -> Stamp:
    """What moves when git's index of the repository around a directory does.

    git writes it anew whenever it changes the work tree.
    """
    place = git_directory(directory)
    if place is None:
        return None
    try:
        status = os.stat(f"{place}/index")
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size
