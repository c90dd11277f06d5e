"""Which files git tracks where outputs lie, asked once until an index changes.

A repository inside the workspace, be it a submodule or a clone, has an index of its own. Where
there is no git, nothing is tracked.
"""

import os
from bisect import bisect_left
from collections.abc import Iterable
from itertools import islice

from vxwatch.graph.places import upward
from vxwatch.workspace.gitplace import git_directory

Stamp = tuple[int, int, int] | None


class TrackedFiles:
    """The tracked files of a workspace, whose `root` is absolute and real."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[str, tuple[Stamp, list[str]]] = {}
        self._inner: dict[str, bool] = {}

    def below(self, places: Iterable[str]) -> list[str]:
        """The tracked files at the places and below them, relative to the root, there or not.

        Costs what is found, not what the repository holds.
        """
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
        return sorted(found)

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
        full = f"{self._root}/{repository}".rstrip("/")
        stamp = index_stamp(full)
        known = self._known.get(repository)
        if known is None or known[0] != stamp:
            from vxwatch.workspace.git import Git  # noqa: PLC0415 - what only restores asks nothing

            files = Git(full, self._root).tracked([""])
            prefix = f"{repository}/" if repository else ""
            known = stamp, sorted(prefix + path for path in files)
            self._known[repository] = known
        return known[1]


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
