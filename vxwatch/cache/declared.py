"""Which paths are the outputs of a task.

Pure. Patterns of a project stop at the projects inside it. What never counts as an input may be
an output: a directory that is declared as a whole is one with all it holds, `node_modules` and
`*.tsbuildinfo` too; only a pattern that looks for names in it does not enter what it was not
meant for. `.git` and `.vx` are nobody's output.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from vxwatch.globs import EXCLUDED, Matcher, expand, literal, rooted, split
from vxwatch.graph.places import outermost, upward
from vxwatch.model import Globs, Project

NEVER = frozenset({".git", ".vx"})
"""Names that are never looked into, cleaned or saved."""

_ANY = "\x1f"


class Declared:
    """The declared outputs of one task, its paths relative to the root of the workspace."""

    def __init__(self, project: Project, outputs: Globs, projects: Sequence[str]) -> None:
        """`projects` are the directories of all projects, sorted."""
        own = rooted(project.dir, outputs.files)
        self._nested = _inside(project.dir, projects) if own else frozenset()
        self._own = Matcher(own)
        self._wide = Matcher(outputs.workspace_files)
        self.roots = tuple(outermost({*self._own.roots(), *self._wide.roots()}))
        """Where outputs lie, none inside another: directories or files, there or not."""
        self._whole = frozenset(_wholes((*own, *outputs.workspace_files)))

    def matches(self, path: str) -> bool:
        """Whether a file or link at the path is an output."""
        if self._own.matches(path) and not self._is_nested(path):
            return True
        return self._wide.matches(path)

    def holds(self, directory: str) -> bool:
        """Whether all that comes into the directory is an output, so that it is one itself."""
        return self.matches(f"{directory}/{_ANY}")

    def covers(self, path: str) -> bool:
        """Whether the path is an output, be it a directory or a file."""
        return self.matches(path) or self.holds(path)

    def enters(self, directory: str) -> bool:
        """Whether outputs may lie in a directory that was found below a root."""
        name = directory.rpartition("/")[2]
        if name in NEVER:
            return False
        return name not in EXCLUDED or any(above in self._whole for above in upward(directory))

    def _is_nested(self, path: str) -> bool:
        return bool(self._nested) and any(place in self._nested for place in upward(path))


def _inside(directory: str, projects: Sequence[str]) -> frozenset[str]:
    """Those of the sorted directories that lie inside one. Costs these, not all."""
    prefix = f"{directory}/" if directory else ""
    found: set[str] = set()
    for other in islice(projects, bisect_left(projects, prefix), None):
        if not other.startswith(prefix):
            break
        if other:
            found.add(other)
    return frozenset(found)


def _wholes(patterns: Collection[str]) -> Iterator[str]:
    """The directories of which everything is declared."""
    for pattern in patterns:
        if pattern.startswith("!"):
            continue
        for parts in map(split, expand(pattern)):
            names = [literal(part) for part in parts]
            known = names[:-1] if parts[-1] == "**" else names
            if None not in known:
                yield "/".join(name for name in known if name is not None)
