"""Which files, beside the listed ones themselves, decide what files a workspace has.

They are git's own (its index, its rules, its settings) and every `.gitignore`; of a link, what it
leads to as well. While none of them moves, and no directory does, `Git.tracked_and_untracked` gives
the same answer.
"""

import os
from collections.abc import Iterable, Iterator

from vxwatch.workspace.git import Git, git_program
from vxwatch.workspace.gitplace import common_directory, git_directory
from vxwatch.workspace.settings import settings
from vxwatch.workspace.trail import trail

_RULES = ".gitignore"
_OF_A_REPOSITORY = (
    *("index", "config", "config.worktree", "commondir"),
    *("info/exclude", "info/attributes"),
)
_AT_THE_TOP = (".git", ".gitmodules")


def sources(git: Git, directories: Iterable[str]) -> set[str] | None:
    """Absolute paths of what decides the listing, also of what is not there but would count.

    None where that is not to be told. `directories`, relative to the root of `git`, are all that
    are not ignored.
    """
    places = [f"{git.root}/{directory}".rstrip("/") for directory in directories]
    above = [*_above(git.root)]
    repositories = [place for place in (git.root, *above) if _begins(place)][:1]
    found = {path for place in (*places, *above) for path in _of(place)}
    found.update(f"{place}/{name}" for place in above for name in _AT_THE_TOP)
    program = git_program(git.root)
    if program and git.present:
        repositories += [place for place in places if place != git.root and _begins(place)]
    for place in repositories if program else ():
        named = settings(program, place or "/")
        if named is None:
            return None
        found.update(step for path in named for step in trail(path))
    return found


def _above(root: str) -> Iterator[str]:
    """The directories above the root, nearest first; "" for the last one."""
    while root:
        root = root.rpartition("/")[0]
        yield root


def _begins(directory: str) -> bool:
    """Whether the work tree of a repository begins at this directory."""
    return os.path.lexists(f"{directory}/.git")


def _of(directory: str) -> Iterator[str]:
    """What counts of a directory: its rules, and its repository if one begins here."""
    rules = f"{directory}/{_RULES}"
    yield rules
    if os.path.islink(rules):
        yield from trail(rules)
    if not _begins(directory):
        return
    yield f"{directory}/.git"
    homes = {git_directory(directory), common_directory(directory)} - {None}
    for path in (f"{place}/{name}" for place in homes for name in _OF_A_REPOSITORY):
        yield from trail(path)
