"""Watches the directories of a scope and tells which paths may have changed.

Whatever changes in a directory of the scope once the watcher is entered is told, as a path
or as a directory to look through again; what is told is a hint, and content decides. A
directory is watched first and listed then, and what the listing finds counts as changed, so
nothing is lost between the two. Directories that the system does not watch for us are
polled, and one line says why. It never looks into a directory without a role, and never
reads a file.
"""

import asyncio
import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, Self

from vxwatch.watch.notifier import AT_WILL, Notifier, OpenNotifier, Raw
from vxwatch.watch.poller import INTERVAL, NoEvents, Poller
from vxwatch.watch.scope import Role, Scope, Terrain, ancestors

_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_DENIED = frozenset({errno.EACCES, errno.EPERM})
_POLLING = f"polling every {INTERVAL * 1000:.0f} ms"
_WHY_POLLING = {
    AT_WILL: f"{_POLLING} instead of watching (VX_WATCH_POLL)",
    errno.ENOSPC: (
        "the limit of inotify watches is reached (fs.inotify.max_user_watches): "
        f"{_POLLING} what is left; sudo sysctl fs.inotify.max_user_watches=1048576 raises it"
    ),
    errno.EMFILE: (
        "the limit of inotify instances is reached (fs.inotify.max_user_instances): "
        f"{_POLLING}; sudo sysctl fs.inotify.max_user_instances=1024 raises it"
    ),
    errno.ETIME: f"no event arrived for a file made as a test: {_POLLING}",
    errno.EILSEQ: f"a directory holds a file name that is not UTF-8: {_POLLING} there",
}


@dataclass(frozen=True, slots=True)
class Batch:
    """Paths that may have changed, and directories below which anything may have.

    All relative to the root, or absolute outside it. A directory that came or went is
    among the paths too. `written` are those of the paths into which something may have been
    written, be it what was there, or to which another file may have come; `shifted` are directories
    that were moved there, perhaps back.
    """

    paths: frozenset[str] = frozenset()
    rescan: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    shifted: frozenset[str] = frozenset()


class Watcher(Protocol):
    """An open watch of a scope; leaving the block ends it, with its threads and descriptors."""

    @property
    def lag(self) -> float:
        """Seconds by which a change may be told late, on a loaded machine too."""

    @property
    def settles(self) -> float:
        """Seconds of quiet that each batch has behind it already."""

    async def __aenter__(self) -> Self:
        """Return once changes are told."""

    async def __aexit__(self, *exc_info: object) -> None:
        """End."""

    async def next(self) -> Batch:
        """Wait for changes, and give all there are. May be cancelled without losing any."""

    @property
    def late(self) -> bool:
        """Whether what came and went may be told late, or never."""

    def take(self) -> Batch:
        """What there is by now, without waiting; `next` does not give it any more."""

    def doubt(self, paths: Iterable[str], trees: Iterable[str] = ()) -> None:
        """Tell these once more where what comes and goes may leave no trace.

        Somebody else saw them first, and they may be gone before the next look for changes.
        """

    def replace(self, scope: Scope) -> None:
        """Watch this scope from now on; the root stays. New directories are to be rescanned."""


class TreeWatcher:
    """The watcher: directories by scope, events by a notifier, the rest by polling.

    `open_notifier` is None for a watch that only polls. `scratch` is a directory of ours in
    which the notifier may prove itself. `notice` takes lines for the user.
    """

    def __init__(
        self,
        scope: Scope,
        open_notifier: OpenNotifier | None,
        scratch: str,
        notice: Callable[[str], None],
    ) -> None:
        self._terrain = Terrain(scope)
        self._open_notifier = open_notifier
        self._scratch = scratch
        self._notice = notice
        self._said: set[object] = set()
        self._notifier: Notifier = NoEvents()
        self._poller = Poller()
        self._interval = INTERVAL
        self._next_look = 0.0
        self._roles: dict[str, Role] = {}
        self._below: dict[str, set[str]] = {}
        self._denied: set[str] = set()
        self._paths: set[str] = set()
        self._rescan: set[str] = set()
        self._written: set[str] = set()
        self._shifted: set[str] = set()
        self._doubted: set[tuple[str, bool]] = set()
        self._retold: set[tuple[str, bool]] = set()
        self._arrived = asyncio.Event()
        self._closed = False

    @property
    def lag(self) -> float:
        """Seconds by which a change may be told late, on a loaded machine too."""
        return max(self._notifier.lag, 2 * self._interval if self._poller else 0.0)

    @property
    def settles(self) -> float:
        """Seconds of quiet that each batch has behind it already."""
        return self._notifier.settles

    @property
    def late(self) -> bool:
        """Whether what came and went may be told late, or never."""
        return len(self._poller) > 0 or self._notifier.settles > 0

    async def __aenter__(self) -> Self:
        """Watch every directory of the scope that is there, and see the proof of it."""
        try:
            await self._open()
        except BaseException:
            await self._notifier.aclose()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """End the notifier, and a look that is under way."""
        self._closed = True
        await self._notifier.aclose()

    async def next(self) -> Batch:
        """Wait for changes, and give all there are. May be cancelled without losing any."""
        while True:
            if not (self._paths or self._rescan or self._retold):
                looked = await self._wait()
                self._arrived.clear()
                self._digest(self._notifier.take())
                self._digest(looked)
            batch = self._batch()
            if batch.paths or batch.rescan:
                return batch

    def take(self) -> Batch:
        """What there is by now, without waiting; `next` does not give it any more."""
        self._digest(self._notifier.take())
        return self._batch()

    def _batch(self) -> Batch:
        relative = self._terrain.relative
        again: tuple[set[str], set[str]] = set(), set()
        for path, is_tree in self._retold:
            again[is_tree].add(path)
        paths, trees, written, shifted = (
            frozenset(map(relative, kind))
            for kind in (self._paths, self._rescan, self._written & self._paths, self._shifted)
        )
        for told in (self._paths, self._rescan, self._written, self._shifted, self._retold):
            told.clear()
        return Batch(paths | again[False], trees | again[True], written, shifted)

    def doubt(self, paths: Iterable[str], trees: Iterable[str] = ()) -> None:
        """Tell these after the next look at the polled directories, if there are any."""
        if self._poller:
            self._doubted.update((path, False) for path in paths)
            self._doubted.update((tree, True) for tree in trees)

    def replace(self, scope: Scope) -> None:
        """Watch this scope from now on; the root stays. New directories are to be rescanned."""
        before = dict(self._roles)
        self._digest(self._notifier.take())
        self._terrain = Terrain(scope)
        self._reconcile()
        grown = {path for path, role in self._roles.items() if role > before.get(path, Role.ANCHOR)}
        self._rescan |= {path for path in grown if os.path.dirname(path) not in grown}
        self._arrived.set()

    async def _open(self) -> None:
        if self._open_notifier is not None:
            try:
                self._notifier = self._open_notifier(self._arrived.set, self._scratch)
            except OSError as error:
                self._notifier = NoEvents(error.errno or errno.EIO)
        self._reconcile()
        if not await self._notifier.ready():
            await self._notifier.aclose()
            self._notifier = NoEvents(errno.ETIME)
            self._reconcile()

    async def _wait(self) -> Raw:
        """Wait for an event, or for what the next look at the polled directories finds."""
        if not self._poller:
            await self._arrived.wait()
            return Raw()
        loop = asyncio.get_running_loop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._next_look):
                await self._arrived.wait()
        start = loop.time()
        if start < self._next_look:
            return Raw()
        doubted, self._doubted = self._doubted, set()
        try:
            different = await asyncio.to_thread(self._poller.look, lambda: self._closed)
        except BaseException:
            self._doubted |= doubted
            raise
        self._retold |= doubted
        took = loop.time() - start
        self._interval = max(INTERVAL, 4 * took)  # a huge tree costs a fifth of a core
        self._next_look = loop.time() + self._interval
        return self._poller.accept(different)

    def _digest(self, raw: Raw) -> None:
        """Take events in: what to tell, what to watch from now on, what no longer."""
        if raw.refused or raw.lost:
            self._recover(raw.refused)
        gone, renewed = [], []
        self._written |= raw.written
        self._shifted |= raw.shifted
        for path, structural in raw.paths.items():
            parent = self._roles.get(os.path.dirname(path))
            known = path in self._roles
            if parent is not None and parent > Role.ANCHOR and (structural or not known):
                self._paths.add(path)
            if structural and known:
                gone.append(path)
            if structural or path in self._denied:
                renewed.append(path)
        # Before anything is watched: a renamed directory is the same one under a new name.
        for path in gone:
            self._drop(path)
        for path in renewed:
            self._appeared(path)
        if gone or renewed:
            self._find_starts()

    def _recover(self, refused: dict[str, int]) -> None:
        """Events are missing: look at every directory again, and have all files looked at."""
        for directory, code in refused.items():
            if directory in self._roles:
                self._poll(directory, code)
        self._reconcile()
        self._rescan.update(self._terrain.starts)

    def _appeared(self, path: str) -> None:
        parent = self._roles.get(os.path.dirname(path))
        role = None if parent is None else self._terrain.role(path, parent)
        if role is not None and path not in self._roles and self._is_directory(path):
            self._denied.discard(path)
            self._cover({path: role})

    def _reconcile(self) -> None:
        """Make what is watched what the scope wants of the directories that are there."""
        before = self._roles
        self._roles, self._below = {}, {}
        told = set(self._paths)
        self._find_starts()
        self._paths = told
        self._forget(before.keys() - self._roles.keys())

    def _find_starts(self) -> None:
        """Watch what the scope begins at, or wait for it in the nearest directory there is."""
        starts = self._terrain.starts
        waiting = set()
        for start in starts:
            role = self._terrain.role(start, None)
            if start in self._roles or role is None:
                continue
            if os.path.isdir(start):
                self._cover({start: role})
            if start not in self._roles:
                waiting.add(next(path for path in ancestors(start) if os.path.isdir(path)))
        self._cover(dict.fromkeys(waiting - self._roles.keys(), Role.ANCHOR))
        above = (self._terrain.above & self._roles.keys()) - waiting
        self._forget({path for path in above if not _is_within(path, starts)})

    def _cover(self, frontier: dict[str, Role]) -> None:
        """Watch these directories and what is wanted below; what is in them counts as changed."""
        while frontier:
            if self._notifier.bulky:
                frontier = self._spread(frontier)
            refused = self._notifier.add(frontier)
            inner: dict[str, Role | None] = {}
            for directory, role in frontier.items():
                if self._settle(directory, role, refused.get(directory)):
                    names, below = self._list(directory)
                    if role > Role.ANCHOR:
                        self._paths.update(names)
                    inner |= dict.fromkeys(below, role)
            frontier = self._terrain.roles(self._unwatched(inner))

    def _spread(self, frontier: dict[str, Role]) -> dict[str, Role]:
        """These directories and those that a first listing finds below them."""
        found, level = dict(frontier), frontier
        while level:
            inner: dict[str, Role | None] = {}
            for directory, role in level.items():
                inner |= dict.fromkeys(self._list(directory)[1], role)
            level = self._terrain.roles(self._unwatched(inner))
            level = {path: role for path, role in level.items() if path not in found}
            found |= level
        return found

    def _unwatched(self, directories: dict[str, Role | None]) -> dict[str, Role | None]:
        return {path: role for path, role in directories.items() if path not in self._roles}

    def _settle(self, directory: str, role: Role, refused: int | None) -> bool:
        """Note how a directory is watched; False if it is not."""
        if refused in _GONE:
            return False
        if refused in _DENIED:
            self._denied.add(directory)
            self._say(
                "denied",
                f"changes in {self._terrain.relative(directory)} stay unseen: "
                "it may not be read (nor, perhaps, others)",
            )
            return False
        self._roles[directory] = role
        self._below.setdefault(os.path.dirname(directory), set()).add(directory)
        if refused is not None:
            self._poll(directory, refused)
        elif directory in self._poller:
            self._poller.drop([directory])
            self._rescan.add(directory)
        return True

    def _poll(self, directory: str, reason: int) -> None:
        if directory not in self._poller:
            self._poller.add(directory)
        self._say(reason, _WHY_POLLING.get(reason, f"{os.strerror(reason)}: {_POLLING}"))

    def _say(self, subject: object, line: str) -> None:
        if subject not in self._said:
            self._said.add(subject)
            self._notice(line)

    def _list(self, directory: str) -> tuple[list[str], list[str]]:
        """The paths in a directory, and those of them that are directories to be followed."""
        names, below = [], []
        for path, is_directory in _entries(directory):
            names.append(path)
            if is_directory or (self._terrain.named(path) and os.path.isdir(path)):
                below.append(path)
        return names, below

    def _is_directory(self, path: str) -> bool:
        if self._terrain.named(path):
            return os.path.isdir(path)
        try:
            return stat.S_ISDIR(os.lstat(path).st_mode)
        except OSError:
            return False

    def _drop(self, directory: str) -> None:
        """The directory is gone, or another one now, and with it all below it."""
        self._rescan.add(directory)
        self._below.get(os.path.dirname(directory), set()).discard(directory)
        lost, queue = [], [directory]
        while queue:
            path = queue.pop()
            lost.append(path)
            queue.extend(self._below.pop(path, ()))
        self._forget(lost)

    def _forget(self, directories: Iterable[str]) -> None:
        directories = list(directories)
        if directories:
            for directory in directories:
                self._roles.pop(directory, None)
            self._notifier.drop(directories)
            self._poller.drop(directories)


def _entries(directory: str) -> Iterator[tuple[str, bool]]:
    """The paths in a directory, and whether each is one itself; none if it cannot be read."""
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            yield entry.path, entry.is_dir(follow_symlinks=False)


def _is_within(path: str, tops: Iterable[str]) -> bool:
    return any(path == top or path.startswith(top.rstrip("/") + "/") for top in tops)
