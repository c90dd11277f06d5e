"""Remembers what each file was when it was last looked at.

A path is in the record while a file or link exists there. Looking is the only way in and out,
and says whether something changed that counts; whoever must know what came and what went is
told.
"""

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import takewhile

from vxwatch.cache.content import UNREAD, UNREADABLE, Clock, Seen, glance, look, stamped
from vxwatch.cache.remembered import UNSURE
from vxwatch.cache.stamps import Stamp
from vxwatch.cache.tree import PathTree
from vxwatch.graph.places import upward

_SIZE, _MOVED, _INODE = 0, 2, 3  # of a stamp
_RATIO = 100
_SMALL = 1 << 20  # bytes


class Record:
    """Files by path, relative to a root."""

    def __init__(self, root: str, clock: Clock, moved: Callable[[str, bool], None]) -> None:
        """`root` is absolute; `moved` is told of a path that came (True) or went (False).

        `generation` is another one whenever anything of the record is.
        """
        self._root = root
        self._clock = clock
        self._moved = moved
        self._seen: dict[str, Seen] = {}
        self._tree = PathTree()
        self._marked: dict[str, str | None] = {}
        self._renewed: set[str] = set()
        self.unreadable: dict[str, str] = {}
        self.generation = 0
        self._read = 0  # files
        self._read_bytes = 0

    def __contains__(self, path: str) -> bool:
        return path in self._seen

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen)

    def holds(self, directory: str) -> bool:
        """Whether a file of the record lies below this directory."""
        return self._tree.holds(directory)

    def below(self, directory: str, but: Collection[str] = ()) -> list[str]:
        """The files below a directory, without those below the directories `but`."""
        return list(self._tree.below(directory, but))

    def is_directory(self, path: str) -> bool:
        """Whether a directory, and no link to one, is at the path now."""
        try:
            return stat.S_ISDIR(os.lstat(self._full(path)).st_mode)
        except OSError:
            return False

    def plain(self, directories: Iterable[str]) -> list[str]:
        """Those of the directories that are no links, nor lead through one."""
        inner = {f"{path}/": path for path in directories}
        behind = self.behind_links(inner)
        return [path for name, path in inner.items() if name not in behind]

    def behind_links(self, paths: Iterable[str]) -> set[str]:
        """Those of the paths that lead through a link now."""
        plain = {"": True}
        found = set()
        for path in paths:
            directory = path.rpartition("/")[0]
            if directory not in plain:
                unknown = list(takewhile(lambda above: above not in plain, upward(directory)))
                for above in reversed(unknown):
                    parent = plain[above.rpartition("/")[0]]
                    plain[above] = parent and not os.path.islink(self._full(above))
            if not plain[directory]:
                found.add(path)
        return found

    def take_in(self, paths: Iterable[str], known: Callable[[str, Stamp], str | None]) -> None:
        """Begin with those of the files that are there, without reading them.

        `known` tells what a path with these stamps holds, where they vouch for it. Nobody is told
        that they came.
        """
        # In a large workspace this is most of what a run has to do after an edit.
        root, taken, add = self._root, self._seen, self._tree.add
        for path in paths:
            full = f"{root}/{path}"
            try:
                stamp = stamped(full)
            except OSError:
                stamp = None
            if stamp is not None:
                digest = known(path, stamp)
                taken[path] = Seen(stamp, digest or UNREAD, digest is not None)
            elif (seen := glance(full)) is not None:
                taken[path] = seen
                if seen.digest:
                    self._note_unreadable(path, seen)
            else:
                continue
            add(path)
        self.generation += 1

    def vouched(self, path: str, stamp: Stamp) -> str | None:
        """What the file with these stamps holds, if they vouch for what was read here."""
        seen = self._seen.get(path)
        return seen.digest if seen and seen.settled and seen.stamp == stamp else None

    def prove(self, paths: Iterable[str], since: int | None = None) -> bool:
        """Whether the stamps of all these files prove that they hold what was last read of them.

        With `since`, that none was written after that time (of the wall clock, in nanoseconds),
        either.
        """
        try:
            for path in paths:
                seen = self._seen.get(path)
                if seen is None or not seen.settled or stamped(self._full(path)) != seen.stamp:
                    return False
                if since is not None and seen.stamp[_MOVED] > since:
                    return False
        except OSError:
            return False
        return True

    def known(self) -> dict[str, str]:
        """The files, with the digests of those whose stamps vouch for what was read, else ""."""
        return {path: seen.digest if seen.settled else "" for path, seen in self._seen.items()}

    def entries(self) -> Iterator[tuple[str, Stamp, str]]:
        """Path, stamps and digest of each file; `UNSURE` if the stamps vouch for nothing of it."""
        for path, seen in self._seen.items():
            sure = seen.settled or seen.digest == UNREAD
            yield path, seen.stamp, seen.digest if sure else UNSURE

    def written_down(self) -> None:
        """All that was read so far was written down."""
        self._read = self._read_bytes = 0

    def worth_keeping(self, others: int) -> bool:
        """Whether to read again what was read here costs more than to write it down.

        That has to be done with so many `others`.
        """
        few = self._read * _RATIO < max(len(self._seen), others) and self._read_bytes < _SMALL
        return self._read > 0 and not few

    def look(self, path: str) -> bool:
        """Look at a path now; True if what counts differs from the last time."""
        before = self._seen.get(path)
        now = look(self._full(path), before, self._clock)
        if now is None:
            return self.drop(path)
        if now is before:
            return False
        self._put(path, now)
        self._read += 1
        self._read_bytes += now.stamp[_SIZE]
        if before is not None and before.digest == now.digest:
            if before.stamp[_INODE] != now.stamp[_INODE]:
                self._renewed.add(path)
            return False
        self._marked.setdefault(path, before and before.digest)
        return True

    def drop(self, path: str) -> bool:
        """Take a file out that is gone; True if it was there."""
        before = self._seen.pop(path, None)
        if before is None:
            return False
        self._marked.setdefault(path, before.digest)
        self.generation += 1
        self._tree.discard(path)
        self.unreadable.pop(path, None)
        self._moved(path, False)
        return True

    def mark(self) -> None:
        """Remember what every file holds now, and that it is the file that it is."""
        self._marked = {}
        self._renewed = set()

    def renewed(self, path: str) -> bool:
        """Whether another file with the same content came to the path since the last mark."""
        if path in self._renewed:
            return True
        seen, now = self._seen.get(path), glance(self._full(path))
        return seen is not None and (now is None or now.stamp[_INODE] != seen.stamp[_INODE])

    def returned(self, paths: Collection[str]) -> frozenset[str]:
        """Those that were seen to differ since the last mark, and hold again what they held then."""
        return frozenset(
            path
            for path in self._marked.keys() & paths
            if self._marked[path] == (self._seen[path].digest if path in self._seen else None)
        )

    def digests(self, paths: Collection[str]) -> dict[str, str]:
        """What the files hold; the unread ones are read, and those that vanished left out."""
        for path in [path for path in paths if self._seen[path].digest == UNREAD]:
            self.look(path)
        return {path: self._seen[path].digest for path in paths if path in self._seen}

    def _put(self, path: str, seen: Seen) -> None:
        new = path not in self._seen
        self._seen[path] = seen
        self.generation += 1
        if seen.digest.startswith(UNREADABLE):
            self._note_unreadable(path, seen)
        elif self.unreadable:
            self.unreadable.pop(path, None)
        if new:
            self._tree.add(path)
            self._moved(path, True)

    def _note_unreadable(self, path: str, seen: Seen) -> None:
        self.unreadable[path] = os.strerror(int(seen.digest[1:].partition(" ")[0]))

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}"
