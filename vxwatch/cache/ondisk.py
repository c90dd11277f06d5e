"""What is on disk of a task's outputs: found without following a link, and proven by stamps."""

import contextlib
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from vxwatch.cache.content import older
from vxwatch.cache.declared import NEVER, Declared
from vxwatch.cache.manifest import DIRECTORY, FILE, LINK, Kind, order
from vxwatch.cache.places import Places
from vxwatch.cache.stamps import Stamp, stamp_of
from vxwatch.graph.places import upward

Tracked = Callable[[Sequence[str]], Collection[str]]
"""The files that git tracks in some directories or at some paths."""


REPOSITORY = "a git repository"
"""What stands for a repository among the strange outputs: it is entered by nobody."""

_STRANGE = (
    (stat.S_ISFIFO, "a fifo"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)


class Tree:
    """What is on disk of a task's outputs.

    `items` are the outputs, `directories` all that was looked into, in order; `strange` are the
    outputs that no archive can hold, with what they are; `tracked` are left alone; `bare` are
    the roots at which nothing is.
    """

    def __init__(self) -> None:
        self.items: dict[str, os.stat_result] = {}
        self.directories: dict[str, os.stat_result] = {}
        self.strange: dict[str, str] = {}
        self.tracked: list[str] = []
        self.bare: list[str] = []

    def leave_out(self, paths: Collection[str]) -> None:
        """These are outputs of somebody else; a directory was looked into all the same."""
        for path in paths:
            self.items.pop(path, None)


class Presence(NamedTuple):
    """What was on disk of a task's outputs at a time: of each path its stamps and its content.

    The stamps of directories, whose content is empty, prove that nothing came or went; those
    that are None, that nothing was there.
    """

    at: int
    paths: Mapping[str, tuple[Stamp | None, str]]

    def stands(self, root: str) -> bool:
        """Whether the stamps alone prove that all of it is as it was."""
        for path, (stamp, _) in self.paths.items():
            try:
                now = stamp_of(os.lstat(f"{root}/{path}"))
            except (FileNotFoundError, NotADirectoryError):
                now = None
            except OSError:
                return False
            if now != stamp or (stamp is not None and not older(stamp, self.at)):
                return False
        return True

    def touched(self, root: str) -> bool:
        """Whether a file or link of it was written since, came or went, as far as stamps tell."""
        return self._differs(root, files=True)

    def stirred(self, root: str) -> bool:
        """Whether a name came or went in a directory of it since, as far as stamps tell."""
        return self._differs(root, files=False)

    def _differs(self, root: str, *, files: bool) -> bool:
        for path, (stamp, content) in self.paths.items():
            if files == (bool(content) or stamp is None):
                try:
                    now = stamp_of(os.lstat(f"{root}/{path}"))
                except OSError:
                    now = None
                if now != stamp:
                    return True
        return False

    def lacks(self, root: str) -> bool:
        """Whether a file or link of it is there no more: to look at the rest is in vain then."""
        return any(
            content and not os.path.lexists(f"{root}/{path}")
            for path, (_, content) in self.paths.items()
        )

    def is_new(self, since: int) -> bool:
        """Whether each file and link was written after that time, and no directory is for nothing.

        Then nothing of it is left over from before.
        """
        filled: set[str] = set()
        for path, (_, content) in self.paths.items():
            if content:
                filled.update(upward(path))
        return all(
            stamp is None or (stamp[2] >= since if content else path in filled)
            for path, (stamp, content) in self.paths.items()
        )

    def vouched(self, path: str, stamp: Stamp) -> str | None:
        """The content of the file with these stamps, if they prove it."""
        known = self.paths.get(path)
        proven = known is not None and known[0] == stamp and older(stamp, self.at)
        return known[1] if known is not None and proven else None


NOTHING = Presence(0, {})


class Finder:
    """Looks for the outputs of one task in one workspace, whose `root` is absolute and real."""

    def __init__(self, root: str, declared: Declared, tracked: Tracked) -> None:
        self._root = root
        self._declared = declared
        self._tracked = tracked

    def find(self, places: Places) -> Tree:
        """Look at what is there. Raises `LinkedPlaceError` and OSError."""
        tree = Tree()
        for root in self._declared.roots:
            self._look(places, root, tree)
        paths = [*tree.items, *tree.strange]
        tracked = self._tracked(self._declared.roots) if paths else ()
        for path in tracked:
            status = tree.items.get(path)
            if status is not None and not stat.S_ISDIR(status.st_mode):
                del tree.items[path]
                tree.tracked.append(path)
        tree.items = dict(sorted(tree.items.items(), key=lambda item: order(item[0])))
        return tree

    def _look(self, places: Places, root: str, tree: Tree) -> None:
        status = places.status(root) if root else os.lstat(self._root)
        if status is None:
            tree.bare.append(root)
        elif stat.S_ISDIR(status.st_mode):
            self._walk(places, root, status, tree)
        elif stat.S_ISLNK(status.st_mode) and self._declared.holds(root):
            places.open(root)  # raises: what is behind it is not ours
        elif self._declared.matches(root):
            _sort_in(tree, root, status)

    def _walk(self, places: Places, root: str, status: os.stat_result, tree: Tree) -> None:
        ahead = [(root, status)]
        while ahead:
            directory, status = ahead.pop()
            entries = sorted(_entries(places.open(directory)), reverse=True)
            if directory != root and any(name == ".git" for name, _ in entries):
                if self._declared.covers(directory):
                    tree.strange[directory] = REPOSITORY
                continue
            tree.directories[directory] = status
            if self._declared.holds(directory):
                tree.items[directory] = status
            prefix = f"{directory}/" if directory else ""
            for name, inner in entries:
                path = prefix + name
                if stat.S_ISDIR(inner.st_mode):
                    if self._declared.enters(path):
                        ahead.append((path, inner))
                elif name not in NEVER and self._declared.matches(path):
                    _sort_in(tree, path, inner)


def kind_of(status: os.stat_result) -> Kind:
    """What is there, which is nothing strange."""
    if stat.S_ISDIR(status.st_mode):
        return DIRECTORY
    return LINK if stat.S_ISLNK(status.st_mode) else FILE


def presence_of(at: int, tree: Tree, content: Mapping[str, str]) -> Presence:
    """What is there of this content, looked at since `at`."""
    paths: dict[str, tuple[Stamp | None, str]] = dict.fromkeys(tree.bare, (None, ""))
    for found in (tree.directories, tree.items):
        for path, status in found.items():
            paths[path] = stamp_of(status), content.get(path, "")
    return Presence(at, paths)


def _sort_in(tree: Tree, path: str, status: os.stat_result) -> None:
    strange = next((what for test, what in _STRANGE if test(status.st_mode)), None)
    if strange is None:
        tree.items[path] = status
    else:
        tree.strange[path] = strange


def _entries(handle: int) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(handle) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                yield entry.name, entry.stat(follow_symlinks=False)
