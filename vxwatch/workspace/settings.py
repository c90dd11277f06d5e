"""Which files git has its settings from, and its rules for every repository of a user.

Also those that it would have them from: what is not there, says nothing yet, or is included under a
condition. Relative paths are as git takes them: a file of rules from the top of the work tree, what
is included from the file that includes it.
"""

import os
from collections.abc import Iterator

from vxwatch.process.command import capture
from vxwatch.workspace.git import SAFE, environment
from vxwatch.workspace.gitplace import git_directory

_LIST = (*SAFE, "config", "--list", "--includes", "--show-origin", "-z")
_EXCLUDES = "core.excludesfile"
_WORK_TREE = "core.worktree"
_INCLUDE = "include.path"
_CONDITIONAL = "includeif."
_ON_BRANCH = "onbranch:"
_CONDITIONS = ("gitdir:", "gitdir/i:", "hasconfig:", _ON_BRANCH)
_BRANCH = ("HEAD", "reftable/tables.list")
_OF_THE_BUILD = "%("  # as in %(prefix)


class _UnknownError(Exception):
    """Nobody but git can tell what a setting refers to."""


def settings(program: str, top: str) -> set[str] | None:
    """Absolute paths, links in them not followed, for the repository whose work tree is at `top`.

    None where it is not to be told. `program` is git's. Not the files of the repository itself.
    """
    done = capture((program, *_LIST), cwd=top, env=environment(os.environ))
    if done.code:
        return None
    found = {*_usual(program, top)}
    words = iter(os.fsdecode(done.out).split("\0"))
    try:
        for origin, setting in zip(words, words, strict=False):
            kind, _, path = origin.partition(":")
            if kind == "file":
                found.update(_concerned(top, os.path.join(top, path), setting))
    except _UnknownError:
        return None
    return found


def _usual(program: str, top: str) -> Iterator[str]:
    """Where settings and rules are looked for, whatever is said (git-config(1), "FILES")."""
    home = os.path.expanduser("~")
    shared = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    yield os.path.join(top, home, ".gitconfig")
    yield from (os.path.join(top, shared, name) for name in ("git/config", "git/ignore"))
    yield "/etc/gitconfig"
    for path in (program, os.path.realpath(program)):
        yield f"{os.path.dirname(os.path.dirname(path))}/etc/gitconfig"
    named = (os.environ.get(name) for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"))
    yield from (os.path.join(top, path) for path in named if path)


def _concerned(top: str, origin: str, setting: str) -> Iterator[str]:
    """The file that a setting comes from, and those that it names. Raises `_UnknownError`."""
    if not os.path.lexists(origin):
        raise _UnknownError  # git takes another directory for the top
    yield origin
    name, _, value = setting.partition("\n")
    if name == _EXCLUDES:
        yield from _named(top, value)
    elif name == _WORK_TREE:
        place = os.path.join(git_directory(top) or top, value)
        if os.path.realpath(place) != os.path.realpath(top):
            raise _UnknownError
    elif name == _INCLUDE or (name.startswith(_CONDITIONAL) and name.endswith(".path")):
        yield from _named(os.path.dirname(origin), value)
        yield from _condition(top, name)


def _condition(top: str, name: str) -> Iterator[str]:
    """What it depends on, beside settings and places, whether a file is included."""
    if name == _INCLUDE:
        return
    condition = name.removeprefix(_CONDITIONAL)
    if not condition.startswith(_CONDITIONS):
        raise _UnknownError
    if condition.startswith(_ON_BRANCH):
        yield from (f"{git_directory(top)}/{one}" for one in _BRANCH)


def _named(base: str, value: str) -> Iterator[str]:
    if value.startswith(_OF_THE_BUILD):
        raise _UnknownError
    if value:
        yield os.path.join(base, os.path.expanduser(value))
