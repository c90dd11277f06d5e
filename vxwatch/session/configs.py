"""The files that decide what the workspace is, and whether one of them really changed.

A hint that a path may have changed is held against the content last seen there. Files that do
not exist yet count too: a member appears when its manifest does. Nothing but regular files is
opened; what cannot be read is told apart from what is not there. Of a directory that counts, the
content is the names in it. Where links lead to a file, each of them counts, and what they end at.
"""

import os
from collections.abc import Collection, Iterable

import xxhash

from vxwatch.cache.content import is_gone
from vxwatch.cache.stamps import Stamp, stamp_of
from vxwatch.config.load import content_of
from vxwatch.workspace.manifests import NAMES
from vxwatch.workspace.trail import led_through, trail

_CHANGED = 2  # of a stamp
_SLACK = 20_000_000
"""Nanoseconds by which a file system's clock may be behind ours."""
_TICK = 10_000_000
"""The same for one that keeps up with the kernel's. Shorter than what a change waits to settle: the
edit for which all is loaded anew is no reason to do so twice."""


class ConfigFiles:
    """What config files held when they were last looked at."""

    def __init__(self, root: str, files: Iterable[str]) -> None:
        self._root = root
        self._seen: dict[str, str | None] = {}
        self._stamps: dict[str, Stamp | None] = {}
        self._directories: set[str] = set()
        self._uncounted: set[str] = set()
        self._told: dict[str, int | None] = {}
        self._know(self._whole(files))

    def replace(self, files: Iterable[str], since: int) -> frozenset[str]:
        """The workspace was loaded from these files; what is known of others stays.

        Gives those that may have been read in another state than they are in: that changed after
        `since` (nanoseconds of the wall clock), or after they were last looked at, be it to what
        was known of them. Also one that did not count, and did not the last time, and is there: git
        may have taken it away, and brought it back just as it was.
        """
        files = self._whole(files)
        moved = {path for path in files if path in self._seen and self._rewritten(path, since)}
        before = self._uncounted
        others = self._seen.keys() - files
        self._uncounted = {p for p in others if os.path.lexists(os.path.join(self._root, p))}
        # What comes there from now on is a change, also if it is what was there.
        self._seen.update(dict.fromkeys(others - self._uncounted))
        moved |= {path for path in self._know(files) if self._newer(path, since)}
        return frozenset(moved | (self._uncounted - before))

    def _whole(self, files: Iterable[str]) -> frozenset[str]:
        """The files, and all by which links lead to them."""
        files = frozenset(files)
        return files | led_through(self._root, files)

    def _know(self, files: Iterable[str]) -> list[str]:
        """Remember what these hold; gives those that were not known."""
        fresh = [path for path in files if path not in self._seen]
        for path in fresh:
            self._look(path)
        self._directories = {above for path in self._seen for above in _above(path)}
        return fresh

    def changed(self, hints: Collection[str]) -> frozenset[str]:
        """The config files at or below the hinted paths whose content is another one now."""
        candidates = {path for path in hints if self.counts(path)}
        candidates |= {os.path.dirname(path) for path in hints} & self._seen.keys()
        for path in hints:
            if path in self._directories:
                candidates |= self._below(path)
        return frozenset(path for path in candidates if self._moved(path))

    def counts(self, path: str) -> bool:
        """Whether what is at the path decides what the workspace is, or would if it were there."""
        return path in self._seen or os.path.basename(path) in NAMES

    def rescan(self, tree: str) -> frozenset[str]:
        """The same for every known config file in a directory ("" for the root)."""
        return frozenset(path for path in self._below(tree) if self._moved(path))

    def stale(self, since: int, parents: Iterable[str]) -> bool:
        """Whether what was read after `since` (wall clock, nanoseconds) may be outdated already.

        Also when a file may have come into a directory of one, or a member into a parent.
        """
        directories = {os.path.dirname(path) for path in self._seen}.union(parents)
        return any(self._newer(path, since) for path in directories.union(self._seen))

    def late(self, files: Iterable[str], since: int) -> list[str]:
        """Those of the files that may have changed since they were read, after `since`.

        Whoever read them found a fault in them, and may have been the last to see it: they may lie where
        nobody watched. Each state of a file is told once.
        """
        files = self._whole(files)
        self._know(files)
        late = [path for path in files if self._moved(path) or self._newer(path, since)]
        untold = [path for path in late if self._told.get(path, 0) != self._changed_at(path)]
        self._told.update((path, self._changed_at(path)) for path in untold)
        return untold

    def _newer(self, path: str, since: int) -> bool:
        at = self._changed_at(path)
        return at is None or at > since - _SLACK

    def _rewritten(self, path: str, since: int) -> bool:
        """Whether a known file changed after `since` or its last look; this is one then."""
        now = self._stamp(path)
        if now is None:
            return self._seen[path] is not None and self._moved(path)
        rewritten = now != self._stamps.get(path) or now[_CHANGED] > since - _TICK
        if rewritten:
            self._look(path)
        return rewritten

    def _changed_at(self, path: str) -> int | None:
        full = os.path.join(self._root, path)
        stamp = self._stamp(path)
        if not os.path.islink(full):
            return stamp and stamp[_CHANGED]
        try:
            itself = os.lstat(full).st_ctime_ns
        except OSError:
            return None
        return max(itself, stamp[_CHANGED]) if stamp else itself

    def _stamp(self, path: str) -> Stamp | None:
        try:
            return stamp_of(os.stat(os.path.join(self._root, path)))
        except OSError:
            return None

    def _below(self, directory: str) -> set[str]:
        prefix = directory + "/" if directory else ""
        return {path for path in self._seen if path.startswith(prefix)}

    def _moved(self, path: str) -> bool:
        before = self._seen.get(path)
        self._look(path)
        return before != self._seen[path]

    def _look(self, path: str) -> None:
        self._stamps[path] = self._stamp(path)
        self._seen[path] = self._digest(path)

    def _digest(self, path: str) -> str | None:
        full = os.path.join(self._root, path)
        if os.path.islink(full):
            # What it ends at is looked at by itself: this is where that is.
            return "\0".join(trail(full))
        try:
            if os.path.isdir(full):
                return "\0".join(sorted(os.listdir(full)))
            return xxhash.xxh3_128_hexdigest(content_of(full))
        except OSError as error:
            return None if is_gone(error) else f"unreadable: {error.errno}"


def _above(path: str) -> Iterable[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
