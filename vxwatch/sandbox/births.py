"""What appeared in a task's write grants that was to stay as it was.

A name that is not there cannot be kept free by a mount without one that shows on the host, so the
places are looked at before the task and after it. Nothing is removed: who made it is not known for
sure, it may be the user. Reads only.
"""

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vxwatch.sandbox.places import listing
from vxwatch.sandbox.protected import CONFIGS

Mark = tuple[int, ...] | None
"""Tells whether a path is what it was; None where nothing is."""


def mark(path: str) -> Mark:
    """What is at this path now, by its inode, size and times; of a directory the inode."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    identity = status.st_dev, status.st_ino
    if stat.S_ISDIR(status.st_mode):
        return identity
    return *identity, status.st_size, status.st_mtime_ns


@dataclass(frozen=True, slots=True)
class Births:
    """The places before the task ran: `marks` by path, `members` by the directory they are in."""

    marks: Mapping[str, Mark]
    members: Mapping[str, frozenset[str]]

    def found(self) -> tuple[str, ...]:
        """The absolute paths that are other ones now, and configs of members that are new."""
        changed = [path for path, before in self.marks.items() if mark(path) != before]
        for parent, names in self.members.items():
            fresh = (name for name, kind in listing(parent).items() if kind == "directory")
            for name in set(fresh) - names:
                places = (f"{parent}/{name}/{config}" for config in CONFIGS)
                changed += [path for path in places if os.path.lexists(path)]
        return tuple(sorted(changed))


def before(watched: Iterable[str], parents: Iterable[str]) -> Births:
    """Look at these paths, and at what lies in the directories of which members may come."""
    return Births(
        {path: mark(path) for path in watched},
        {parent: frozenset(listing(parent)) for parent in parents},
    )
