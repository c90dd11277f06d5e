"""Which directories the member globs of a workspace name.

A glob means what it means to package managers: `packages/*` looks for a manifest in each
directory there, `!packages/old` takes one back. Directories that never count, directories that
begin with a dot (unless spelled out) and links are not entered.
"""

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from vxwatch import globs

_MANIFEST = "manifest"


class Members(NamedTuple):
    """Directories that the globs name, and those in which more may appear or vanish."""

    directories: tuple[str, ...]
    parents: tuple[str, ...]


def find_members(root: str, patterns: Sequence[str]) -> Members:
    """Walks the directories that the globs can name; `root` is absolute."""
    walk = _Walk(root)
    for pattern in patterns:
        if not pattern.startswith("!"):
            for alternative in globs.expand(pattern.rstrip("/")):
                walk.enter("", _directory_parts(alternative))
    names = _matcher(patterns).names
    found = (d for d in walk.found if names(_manifest_in(d)))
    return Members(tuple(sorted(found)), tuple(sorted(walk.looked_in)))


def is_member(directory: str, patterns: Iterable[str]) -> bool:
    """Whether the globs name this directory."""
    return _matcher(patterns).names(_manifest_in(directory))


class _Walk:
    """The directories that some glob leads to, each way walked once."""

    def __init__(self, root: str) -> None:
        self.found: set[str] = set()
        self.looked_in: set[str] = set()
        self._root = root
        self._seen: set[tuple[str, globs.Parts]] = set()

    def enter(self, directory: str, parts: globs.Parts) -> None:
        """Follow the rest of a glob from a directory that exists."""
        if (directory, parts) in self._seen:
            return
        self._seen.add((directory, parts))
        if not parts:
            self.found.add(directory)
            return
        self.looked_in.add(directory)
        head, rest = parts[0], parts[1:]
        if head == "**":
            self.enter(directory, rest)
        name = globs.literal(head)
        for child in self._children(directory) if name is None else self._child(directory, name):
            self.enter(child, parts if head == "**" else rest)

    def _children(self, directory: str) -> list[str]:
        try:
            with os.scandir(f"{self._root}/{directory}") as entries:
                names = [e.name for e in entries if e.is_dir(follow_symlinks=False)]
        except OSError:
            return []
        wanted = (n for n in names if n not in globs.EXCLUDED and not n.startswith("."))
        return [_join(directory, name) for name in wanted]

    def _child(self, directory: str, name: str) -> list[str]:
        child = _join(directory, name)
        path = f"{self._root}/{child}"
        return [child] if os.path.isdir(path) and not os.path.islink(path) else []


def _matcher(patterns: Iterable[str]) -> globs.Matcher:
    return globs.Matcher(f"{pattern.rstrip('/')}/{_MANIFEST}" for pattern in patterns)


def _manifest_in(directory: str) -> str:
    return _join(directory, _MANIFEST)


def _directory_parts(pattern: str) -> globs.Parts:
    return globs.split(f"{pattern}/{_MANIFEST}")[:-1]


def _join(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name
