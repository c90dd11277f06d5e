"""Changes found by looking: for directories of which the system does not tell us.

A look compares modification and change time, size, inode and mode of every entry, so a
rewrite that keeps size and date, and a change of mode, are seen. An entry that changed just
before a look is told once more when its time has passed: a second change within the same
tick of the file system's clock leaves no other mark. It reads directories and inodes, never
the content of files.
"""

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator

from vxwatch.watch.notifier import AT_WILL, Raw

INTERVAL = 0.5
"""Seconds between two looks."""

_TICK = 2_000_000_000
"""Nanoseconds: the coarsest clock of a file system in use (FAT)."""

Stamp = tuple[int, int, int, int, int, bool]
Listing = dict[str, Stamp]
"""The entries of one directory by name; none when it cannot be read."""


class Poller:
    """What a set of directories looked like, and what is different now.

    `look` may run on another thread; what it found counts only once `accept` was called, so
    a look that was given up loses nothing.
    """

    def __init__(self) -> None:
        self._seen: dict[str, Listing] = {}

    def __len__(self) -> int:
        return len(self._seen)

    def __contains__(self, directory: str) -> bool:
        return directory in self._seen

    def add(self, directory: str) -> None:
        """Remember what the directory holds now."""
        self._seen[directory] = listing(directory)

    def drop(self, directories: Iterable[str]) -> None:
        """Forget these."""
        for directory in directories:
            self._seen.pop(directory, None)

    def look(self, stopped: Callable[[], bool] = lambda: False) -> dict[str, Listing]:
        """The directories that are different now, as they are; ends early when `stopped`."""
        different = {}
        for directory, old in list(self._seen.items()):
            if stopped():
                break
            new = listing(directory)
            if new != old:
                different[directory] = new
        return different

    def accept(self, different: dict[str, Listing]) -> Raw:
        """The changes that make these listings of the remembered ones."""
        raw = Raw()
        for directory, new in different.items():
            old = self._seen.get(directory)
            if old is not None:
                self._seen[directory] = new
                for name, structural in changes(old, new):
                    raw.add(os.path.join(directory, name), structural)
        return raw


def listing(directory: str) -> Listing:
    """Look at every entry of a directory; links are not followed."""
    found: Listing = {}
    young = time.time_ns() - _TICK
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                try:
                    seen = entry.stat(follow_symlinks=False)
                except OSError:  # gone since the directory was read
                    continue
                found[entry.name] = (
                    seen.st_mtime_ns,
                    seen.st_ctime_ns,
                    seen.st_size,
                    seen.st_ino,
                    seen.st_mode,
                    seen.st_ctime_ns > young,
                )
    except OSError:  # the parent tells what became of it
        return {}
    return found


def changes(old: Listing, new: Listing) -> Iterator[tuple[str, bool]]:
    """The names that differ, and whether the entry may be another one."""
    for name in old.keys() | new.keys():
        before, after = old.get(name), new.get(name)
        if before != after:
            yield name, before is None or after is None or _identity(before) != _identity(after)


def _identity(stamp: Stamp) -> tuple[int, int]:
    return stamp[3], stat.S_IFMT(stamp[4])


class NoEvents:
    """A notifier for a watch that only polls: it refuses every directory."""

    lag = 0.0
    settles = 0.0
    bulky = False

    def __init__(self, reason: int = AT_WILL) -> None:
        self._reason = reason

    def add(self, directories: Iterable[str]) -> dict[str, int]:
        """Refuse them."""
        return dict.fromkeys(directories, self._reason)

    def drop(self, directories: Iterable[str]) -> None:
        """Nothing is watched."""

    async def ready(self) -> bool:
        """There is nothing to wait for."""
        return True

    def take(self) -> Raw:
        """Nothing ever happens here."""
        return Raw()

    async def aclose(self) -> None:
        """Nothing is held."""
