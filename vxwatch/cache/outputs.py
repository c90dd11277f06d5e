"""The outputs of a task on disk: what is there, gone, taken into an archive, and put back.

Never touches what git tracks, follows no link on the way to an output, and enters no repository
that lies in one. Nothing else is trusted to have stayed as it was between two calls: a file is
what its bytes are, or what its stamps prove (`content.older`).
"""

import contextlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO, NamedTuple

import xxhash

from vxwatch.cache.archive import CHUNK, ArchiveWriter, Sink, Target, read
from vxwatch.cache.content import Clock
from vxwatch.cache.declared import Declared
from vxwatch.cache.manifest import DIRECTORY, FILE, LINK, MODES, Item, order
from vxwatch.cache.ondisk import (
    NOTHING,
    REPOSITORY,
    Finder,
    Presence,
    Tracked,
    Tree,
    kind_of,
    presence_of,
)
from vxwatch.cache.places import Places
from vxwatch.cache.stamps import Stamp, stamp_of

Stopping = Callable[[], bool]

Spared = Callable[[Collection[str]], Collection[str]]
"""Which of these outputs another task made, so that they are no strays."""

_OWNER = 0o700


class CannotSaveError(Exception):
    """What the task made cannot be kept, and why, in the user's terms."""


class StoppedError(Exception):
    """It was to end before it was done."""


class CannotRestoreError(Exception):
    """What was saved could not be put back, and why."""


class Difference(NamedTuple):
    """How a tree differs from a list of items: what must go, and what must be written.

    `spared` is neither, and is no part of the tree.
    """

    tree: Tree
    strays: tuple[str, ...]
    wanted: frozenset[str]
    spared: Collection[str] = ()

    def __bool__(self) -> bool:
        return bool(self.strays or self.wanted)


class Outputs:
    """The outputs of one task in one workspace, whose `root` is absolute and real."""

    def __init__(
        self,
        root: str,
        declared: Declared,
        tracked: Tracked,
        clock: Clock,
        stopping: Stopping = lambda: False,
    ) -> None:
        """While `stopping` says so, what would take long raises `StoppedError`."""
        self._root = root
        self._declared = declared
        self._finder = Finder(root, declared, tracked)
        self._clock = clock
        self._stopping = stopping

    def find(self) -> Tree:
        """Look at what is there. Raises `LinkedPlaceError` and OSError."""
        with Places(self._root) as places:
            return self._finder.find(places)

    def clean(self) -> Tree:
        """Remove what is there, but for the directories that are declared as such; what was found.

        Raises `LinkedPlaceError` and OSError; then part of it may be gone.
        """
        with Places(self._root) as places:
            tree = self._finder.find(places)
            self._remove(places, tree, (*tree.items, *tree.strange))
        return tree

    def capture(self, file: Target) -> tuple[tuple[Item, ...], Presence, str, int]:
        """Write what is there into an archive: the items, their stamps, its digest and its size.

        Raises `CannotSaveError`, `LinkedPlaceError` and OSError.
        """
        at = self._clock()
        writer = ArchiveWriter(file)
        items: list[Item] = []
        with Places(self._root) as places:
            tree = self._seen(places)
            for path, what in tree.strange.items():
                raise CannotSaveError(f"its output {path} is {what}")
            for path, status in tree.items.items():
                items.append(_save(places, path, status, writer, self._stopping))
        content = {item.path: item.content for item in items if item.kind != DIRECTORY}
        return tuple(items), presence_of(at, tree, content), writer.end(), writer.size

    def _seen(self, places: Places) -> Tree:
        try:
            return self._finder.find(places)
        except OSError as error:
            where = f" {error.filename}" if isinstance(error.filename, str) else ""
            raise CannotSaveError(f"its outputs cannot be seen:{where} {error.strerror}") from None

    def compare(
        self, items: Sequence[Item], known: Presence = NOTHING, spared: Spared = lambda _: ()
    ) -> tuple[Difference, Presence]:
        """How the disk differs from the items; the presence is true if it does not.

        `spared` is asked of what is there and no item. What stamps do not prove is read. Raises `LinkedPlaceError` and OSError.
        """
        at = self._clock()
        if not self._declared.roots:
            return Difference(Tree(), (), frozenset()), Presence(at, {})
        with Places(self._root) as places:
            tree = self._finder.find(places)
            tracked = frozenset(tree.tracked)
            expected = [item for item in items if item.path not in tracked]
            wanted = {i.path for i in expected if not _is_there(places, i, tree, known)}
        paths = {item.path for item in expected}
        strays = [path for path in (*tree.items, *tree.strange) if path not in paths]
        others = spared(strays) if strays else ()
        tree.leave_out(others)
        presence = presence_of(at, tree, _contents(expected))
        strays = [path for path in strays if path not in others]
        return Difference(tree, tuple(strays), frozenset(wanted), others), presence

    def restore(
        self, items: Sequence[Item], difference: Difference, file: BinaryIO | None
    ) -> Presence:
        """Write what differs, from the archive of the items, which is None where they are none.

        Raises `CannotRestoreError`, `DamagedError`, `LinkedPlaceError` and OSError; then the outputs are neither
        this nor that.
        """
        old, wanted = difference.tree, difference.wanted
        directories = {item.path: item.mode for item in items if item.kind == DIRECTORY}
        replaced = [
            path
            for path, status in old.items.items()
            if path in wanted and not (path in directories and stat.S_ISDIR(status.st_mode))
        ]
        written: dict[str, Stamp] = {}
        with Places(self._root) as places:
            loosened = self._remove(places, old, (*replaced, *difference.strays))
            if file is not None:
                read(
                    file,
                    items,
                    lambda item: _writing(places, item, wanted, written, self._stopping),
                )
            for path in sorted(directories, key=order, reverse=True):
                if path in wanted or path in loosened:
                    places.set_mode(path, directories[path])
            at = self._clock()
            tree = self._finder.find(places)
        tree.leave_out(difference.spared)
        _check(items, tree, old, written)
        return presence_of(at, tree, _contents(items))

    def _remove(self, places: Places, tree: Tree, paths: Collection[str]) -> set[str]:
        """Remove these, a directory only where nothing is left in it; the directories made writable."""
        loosened = {
            path
            for path, status in tree.directories.items()
            if path in tree.items and status.st_mode & _OWNER != _OWNER
        }
        for path in loosened:
            places.loosen(path)
        for path in sorted(paths, key=order, reverse=True):
            status = tree.items.get(path)
            directory = status is not None and stat.S_ISDIR(status.st_mode)
            if directory and path in self._declared.roots:
                continue  # a box or a watcher may hold on to it
            if tree.strange.get(path) != REPOSITORY:
                places.remove(path, directory=directory)
        return loosened


def _save(
    places: Places, path: str, status: os.stat_result, writer: ArchiveWriter, stopping: Stopping
) -> Item:
    kind = kind_of(status)
    if kind == LINK:
        item = Item(path, LINK, 0, 0, places.target(path))
        writer.header(item)
        return item
    item = Item(path, kind, status.st_mode & MODES, 0, "")
    if kind == DIRECTORY:
        writer.header(item)
        return item
    item = item._replace(size=status.st_size)
    writer.header(item)
    digest = _read_file(places, path, status, lambda data: _pass_on(data, writer.data, stopping))
    writer.pad(item.size)
    return item._replace(content=digest)


def _pass_on(data: bytes, sink: Sink, stopping: Stopping) -> None:
    if stopping():
        raise StoppedError
    sink(data)


def _read_file(places: Places, path: str, status: os.stat_result, sink: Sink) -> str:
    """Read a file that must be the one that was seen, and stay so; the digest of its bytes."""
    hasher = xxhash.xxh3_128()
    for data in _pieces(places, path, status):
        sink(data)
        hasher.update(data)
    return hasher.hexdigest()


def _pieces(places: Places, path: str, status: os.stat_result) -> Iterator[bytes]:
    size = 0
    try:
        with places.reading(path) as handle:
            while size <= status.st_size and (data := os.read(handle, CHUNK)):
                size += len(data)
                yield data
            after = os.fstat(handle)
    except OSError as error:
        raise CannotSaveError(f"its output {path} cannot be read: {error.strerror}") from None
    if size != status.st_size or stamp_of(after) != stamp_of(status):
        raise CannotSaveError(f"its output {path} changed while it was saved")


def _is_there(places: Places, item: Item, tree: Tree, known: Presence) -> bool:
    status = tree.items.get(item.path)
    if status is None or kind_of(status) != item.kind:
        return False
    if item.kind == LINK:
        return places.target(item.path) == item.content
    if (status.st_mode & MODES) != item.mode:
        return False
    return item.kind == DIRECTORY or _holds(places, item, status, known)


def _holds(places: Places, item: Item, status: os.stat_result, known: Presence) -> bool:
    """Whether a file of the right mode holds what it should."""
    if status.st_size != item.size:
        return False
    content = known.vouched(item.path, stamp_of(status))
    if content is None:
        try:
            content = _read_file(places, item.path, status, lambda _: None)
        except CannotSaveError:
            return False
    return content == item.content


def _contents(items: Iterable[Item]) -> dict[str, str]:
    return {item.path: item.content for item in items if item.kind != DIRECTORY}


@contextlib.contextmanager
def _writing(
    places: Places,
    item: Item,
    wanted: Collection[str],
    written: dict[str, Stamp],
    stopping: Stopping,
) -> Iterator[Sink | None]:
    """Make the item, if it is wanted; what its bytes go to."""
    if item.path not in wanted:
        yield None
    elif item.kind == DIRECTORY:
        places.open(item.path, make=True)
        yield None
    elif item.kind == LINK:
        places.link(item.path, item.content)
        yield None
    else:
        with places.creating(item.path) as handle:
            yield lambda data: _pass_on(data, lambda more: _write(handle, more), stopping)
            os.fchmod(handle, item.mode)
            written[item.path] = stamp_of(os.fstat(handle))


def _write(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _check(items: Sequence[Item], tree: Tree, old: Tree, written: Mapping[str, Stamp]) -> None:
    """Raise `CannotRestoreError` unless the tree is what was written now or found before."""
    spared = frozenset(tree.tracked)
    expected = [item for item in items if item.path not in spared]
    if tree.items.keys() != {item.path for item in expected} or tree.strange:
        raise CannotRestoreError("something else writes there")
    for item in expected:
        status = tree.items[item.path]
        if item.kind == FILE:
            before = written.get(item.path) or stamp_of(old.items[item.path])
            sound = stamp_of(status) == before
        else:
            sound = kind_of(status) == item.kind
        if not sound:
            raise CannotRestoreError(f"something else writes {item.path}")
