"""Which files, beside the listed ones themselves, decide what files a workspace has.

They are git's own (its index, its rules, its settings) and every `.gitignore`. While none of them
moves, and no directory does, `Git.tracked_and_untracked` gives the same answer.
"""

import os
from collections.abc import Iterable, Iterator

from vxwatch.process.command import capture
from vxwatch.workspace.git import Git, environment, git_program
from vxwatch.workspace.gitplace import common_directory, git_directory

_RULES = ".gitignore"
_OF_A_REPOSITORY = ("index", "config", "config.worktree", "info/exclude", "info/attributes")
_EXCLUDES = "core.excludesfile"


def sources(git: Git, directories: Iterable[str]) -> Iterator[str]:
    """Absolute paths of what decides the listing, also of what is not there but would count.

    `directories`, relative to the root of `git`, are all that are not ignored.
    """
    for directory in directories:
        place = os.path.join(git.root, directory) if directory else git.root
        yield f"{place}/{_RULES}"
        yield from _repository(place)
    above = git.root
    while above != "/":
        above = os.path.dirname(above)
        yield f"{above.rstrip('/')}/{_RULES}"
        yield f"{above.rstrip('/')}/.git"
        yield from _repository(above)
    if git.present:
        yield from _settings(git.root)


def _repository(directory: str) -> Iterator[str]:
    """What counts of the repository whose work tree begins at this directory, if one does."""
    marker = f"{directory.rstrip('/')}/.git"
    if not os.path.lexists(marker):
        return
    yield marker
    homes = {git_directory(directory), common_directory(directory)} - {None}
    yield from (f"{place}/{name}" for place in homes for name in _OF_A_REPOSITORY)


def _settings(root: str) -> Iterator[str]:
    """The files that git has its settings from, and the one that holds everybody's rules."""
    done = capture(
        (git_program(root), "config", "--list", "--show-origin", "-z"),
        cwd=root,
        env=environment(os.environ),
    )
    home = os.path.expanduser("~")
    shared = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    yield from (f"{home}/.gitconfig", f"{shared}/git/config", f"{shared}/git/ignore")
    yield "/etc/gitconfig"
    words = iter(os.fsdecode(done.out).split("\0"))
    for origin, setting in zip(words, words, strict=False):
        kind, _, path = origin.partition(":")
        if kind == "file":
            yield os.path.join(root, path)
        name, _, value = setting.partition("\n")
        if name == _EXCLUDES:
            yield os.path.join(root, os.path.expanduser(value))
