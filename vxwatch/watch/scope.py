"""What is to be watched, as a value, and the role it gives every directory.

A scope promises exactness: a directory without a role is neither watched nor listed, so a
pruned tree costs nothing however large it is. It never reads the disk itself.
"""

import posixpath
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum


@dataclass(frozen=True, slots=True)
class Scope:
    """The directories whose changes are wanted; none of them has to exist yet.

    `root` is absolute and real. All else is relative to it, "" being the root itself, or
    absolute where it lies outside. `trees` are watched with everything below them,
    `directories` alone, `parents` with the directories directly in them (a member may
    appear there, and be given its manifest later). `pruned` gives those of some directories
    inside the root that are neither watched nor descended into. A directory that is named here
    is watched as it is named, whatever `pruned` says. It is called on the event loop.
    """

    root: str
    trees: frozenset[str] = frozenset()
    directories: frozenset[str] = frozenset()
    parents: frozenset[str] = frozenset()
    pruned: Callable[[Sequence[str]], Collection[str]] = lambda _: ()


class Role(IntEnum):
    """How much of a watched directory is wanted; a higher one includes the lower."""

    ANCHOR = 1  # only that what is wanted below it comes and goes
    FLAT = 2  # its entries
    PARENT = 3  # its entries, and those of the directories in it
    TREE = 4  # everything below


@dataclass(frozen=True, slots=True)
class Terrain:
    """A scope with its questions prepared; every path here is absolute."""

    scope: Scope
    starts: tuple[str, ...] = field(init=False)
    above: frozenset[str] = field(init=False)
    _named: dict[str, Role] = field(init=False)
    _leading: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        named: dict[str, Role] = {}
        kinds = ((Role.FLAT, "directories"), (Role.PARENT, "parents"), (Role.TREE, "trees"))
        for role, kind in kinds:
            named.update((self.absolute(path), role) for path in getattr(self.scope, kind))
        outside = sorted(path for path in named if not self._inside(path))
        starts = (self.scope.root, *outside)
        object.__setattr__(self, "starts", starts)
        object.__setattr__(self, "above", frozenset(a for s in starts for a in ancestors(s)))
        object.__setattr__(self, "_named", named)
        object.__setattr__(self, "_leading", frozenset(a for n in named for a in ancestors(n)))

    def absolute(self, path: str) -> str:
        """The absolute form of a path of the scope."""
        return posixpath.normpath(posixpath.join(self.scope.root, path))

    def relative(self, path: str) -> str:
        """The form in which the scope's user knows an absolute path."""
        root = self.scope.root
        if path == root:
            return ""
        return path[len(root.rstrip("/")) + 1 :] if self._inside(path) else path

    def named(self, path: str) -> bool:
        """Whether the scope names this directory itself; it may then be a symbolic link."""
        return path in self._named or path == self.scope.root

    def role(self, path: str, parent: Role | None) -> Role | None:
        """The role of a directory in a directory of the role `parent`; None: not wanted."""
        return self.roles({path: parent}).get(path)

    def roles(self, found: Mapping[str, Role | None]) -> dict[str, Role]:
        """The roles of directories, each with the role of the one it is in; not of the unwanted."""
        inherited = {
            path: role for path, up in found.items() if (role := self._inherited(path, up))
        }
        asked = {self.relative(path): path for path in inherited if self._inside(path)}
        for path in self.scope.pruned([*asked]) if asked else ():
            del inherited[asked[path]]
        roles = {path: inherited.get(path) or self._own(path) for path in found}
        return {path: role for path, role in roles.items() if role}

    def _inherited(self, path: str, parent: Role | None) -> Role | None:
        """The role that it gets from the directory around it, if it is not pruned."""
        if parent not in (Role.TREE, Role.PARENT):
            return None
        role = Role.TREE if parent is Role.TREE else Role.FLAT
        return role if self._named.get(path, 0) < role else None

    def _own(self, path: str) -> Role | None:
        """The role that it has wherever it lies."""
        if path in self._named:
            return self._named[path]
        leads = path in self._leading or path in self.above or path == self.scope.root
        return Role.ANCHOR if leads else None

    def _inside(self, path: str) -> bool:
        root = self.scope.root
        return path == root or path.startswith(root.rstrip("/") + "/")


def ancestors(path: str) -> Iterator[str]:
    """The directories above an absolute path, nearest first, up to "/"."""
    while path != "/":
        path = posixpath.dirname(path)
        yield path
