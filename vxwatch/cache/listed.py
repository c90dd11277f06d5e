"""What lies in directories, read again only where something may have come or gone.

What proves that nothing did are the stamps of a directory: each name that comes or goes moves them.
"""

import os
from collections.abc import Callable, Sequence

from vxwatch.cache.content import Clock, older
from vxwatch.cache.stamps import Stamp, stamp_of
from vxwatch.cache.walk import listing

Names = tuple[Sequence[str], Sequence[str]]
"""Paths of directories, and of what is none."""


class Listed:
    """Directories by path, relative to an absolute root."""

    def __init__(self, root: str, clock: Clock) -> None:
        """No directory is looked at before somebody asks."""
        self._root = root
        self._clock = clock
        self._seen: dict[str, tuple[Stamp, Names]] = {}

    def inside(self, directory: str, known: Callable[[str], bool]) -> Names:
        """What may count in a directory: the directories, and all else that was not `known` when it was read.

        Nothing where there is no directory, or none that can be read.
        """
        try:
            stamp = stamp_of(os.stat(f"{self._root}/{directory}"))
        except OSError:
            return (), ()
        seen = self._seen.get(directory)
        if seen is not None and seen[0] == stamp:
            return seen[1]
        now = self._clock()
        inner: list[str] = []
        others: list[str] = []
        for path, is_directory in listing(self._root, directory):
            if is_directory:
                inner.append(path)
            elif not known(path):
                others.append(path)
        if older(stamp, now):
            self._seen[directory] = stamp, (inner, others)
        return inner, others
