"""What a write grant leaves as it is: files that vx, git, shells and editors obey.

What is there is mounted read-only. What is not there cannot be mounted over without appearing on
the host, so it is looked at again when the task has ended: see `births`. Reads only.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from vxwatch.config.load import content_of
from vxwatch.sandbox.paths import inside, inside_any
from vxwatch.sandbox.places import follow, lies, listing
from vxwatch.workspace.manifests import NAMES

CONFIGS = tuple(sorted(NAMES))
"""Names under which vx finds projects and tasks."""

OBEYED = (
    *(".bash_login", ".bash_logout", ".bash_profile", ".bashrc", ".profile"),
    *(".zlogin", ".zlogout", ".zprofile", ".zshenv", ".zshrc"),
    *(".envrc", ".gitconfig", ".gitmodules", ".mcp.json", ".npmrc", ".pnpmfile.cjs", ".yarnrc.yml"),
    *(".cursor", ".devcontainer", ".husky", ".idea", ".vscode"),
)
"""Names that make shells, git, package managers and editors run something."""

OWN = ".vx"
"""The directory in which vx keeps what a task must not forge."""

_OF_GIT = (
    *("commondir", "config", "config.worktree", "gitdir"),
    *("hooks", "info", "modules", "worktrees"),
)
_GIT_MADE = ("hooks", "info", "modules", "worktrees")
"""Directories of git's that are made for a box that may write beside them: empty, they mean nothing."""


@dataclass(slots=True)
class Protection:
    """`fixed` is mounted read-only, `made` must be made for that, `watched` is looked at later."""

    fixed: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    watched: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Territory:
    """Where a task may write and who lives there: real, absolute paths.

    `writes` are the granted paths, `root` is the workspace's, `projects` are the directories of
    it and of its members, `home` is the user's: the places where names count even before they
    exist. `configs` are the files that vx has read, or would if they were there, `repositories` git's directories.
    """

    writes: AbstractSet[str]
    root: str
    projects: AbstractSet[str]
    home: str
    configs: Iterable[str]
    repositories: AbstractSet[str]
    git_config: bool


def protect(land: Territory) -> Protection:
    """Everything in what the task may write that is to stay as it is."""
    guard = _Guard(land.writes)
    for path in land.configs:
        if guard.reaches(path):
            guard.path(path, watch=True)
    projects = set(filter(guard.reaches, land.projects))
    for project in projects:
        guard.project(project)
    homes = projects | set(filter(guard.reaches, (land.home,)))
    for directory in homes | land.writes:
        for name in OBEYED:
            guard.path(f"{directory}/{name}", watch=directory in homes)
    if land.root in projects and lies(f"{land.root}/{OWN}") is None:
        guard.make(f"{land.root}/{OWN}")
    if not land.git_config:
        for repository in filter(guard.reaches, land.repositories):
            guard.repository(repository)
    return guard.found


class _Guard:
    """Collects what is to stay in these write grants."""

    def __init__(self, writes: AbstractSet[str]) -> None:
        self.found = Protection()
        self._writes = writes

    def reaches(self, path: str) -> bool:
        """Whether a grant opens the path."""
        return inside_any(path, self._writes)

    def path(self, path: str, *, watch: bool = False) -> None:
        """Fix what is there. A link, or a file with a second name, can be changed all the same."""
        if path in self._writes:
            return  # named by a grant of its own
        try:
            status = os.lstat(path)
        except OSError:
            if watch:
                self.found.watched.append(path)
            return
        if stat.S_ISLNK(status.st_mode):
            self.found.watched.append(path)
            place = follow(path)
            if place.kind != "missing" and self.reaches(place.path):
                self.found.fixed.append(place.path)
            return
        self.found.fixed.append(path)
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            self.found.watched.append(path)

    def make(self, directory: str) -> None:
        """Fix a directory that is not there yet."""
        self.found.made.append(directory)
        self.found.fixed.append(directory)

    def project(self, project: str) -> None:
        """The names in a project by which vx and git find what it is."""
        for name in CONFIGS:
            self.path(f"{project}/{name}", watch=True)
        git = f"{project}/.git"
        if git not in self._writes and lies(git) is None:
            self.found.watched.append(git)
        for module in _modules(project):
            self.path(module)

    def repository(self, repository: str) -> None:
        """What in git's directory makes git run something, or look elsewhere."""
        others = (name for name in listing(repository) if name.startswith("config"))
        for name in dict.fromkeys((*_OF_GIT, *others)):
            path = f"{repository}/{name}"
            if name in _GIT_MADE and lies(path) is None and path not in self._writes:
                self.make(path)
            else:
                self.path(path, watch=True)


def _modules(project: str) -> Iterator[str]:
    """The `.git` of each submodule: a file that says which repository to obey."""
    try:
        lines = os.fsdecode(content_of(f"{project}/.gitmodules")).splitlines()
    except OSError:
        return
    for line in lines:
        name, equals, value = (part.strip() for part in line.partition("="))
        path = os.path.normpath(f"{project}/{value}")
        if name == "path" and equals and inside(path, project):
            yield f"{path}/.git"


def repositories(pointer: str) -> Iterator[str]:
    """Git's directories that the `.git` file of a worktree or a submodule stands for.

    That file could say anything, so it is believed only where the directory says the same of it.
    """
    directory = _line(pointer, "gitdir: ", os.path.dirname(pointer))
    if directory is None or lies(directory) != "directory":
        return
    if _is_module(directory, pointer):
        yield directory
    elif _line(f"{directory}/gitdir", "", directory) == pointer:
        yield directory
        common = _line(f"{directory}/commondir", "", directory)
        if common is not None and inside(directory, f"{common}/worktrees"):
            yield common


def _is_module(directory: str, pointer: str) -> bool:
    """Whether a repository around the pointer keeps this directory for its submodules."""
    above = os.path.dirname(pointer)
    while above != "/":
        above = os.path.dirname(above)
        if inside(directory, f"{above}/.git/modules"):
            return True
    return False


def _line(path: str, start: str, base: str) -> str | None:
    """The path that is the only line of a file, made real."""
    try:
        text = os.fsdecode(content_of(path))
    except OSError:
        return None
    if not text.startswith(start) or not (name := text[len(start) :].rstrip("\n")):
        return None
    return follow(os.path.join(base, name)).path
