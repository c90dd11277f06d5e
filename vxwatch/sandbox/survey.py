"""What a task's grants and its surroundings come to on this disk, before its box is made.

Reads only; `policy` decides what follows from it. What a write grant names and the disk does not
have yet is listed for the caller to make.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Literal

from vxwatch.model import Project, Task, Workspace
from vxwatch.process.tree import LaunchError
from vxwatch.sandbox.budget import MOST_MOUNTS, too_many
from vxwatch.sandbox.grants import (
    Access,
    Grant,
    Place,
    check_kind,
    check_write,
    literal,
    no_socket,
    parse,
)
from vxwatch.sandbox.paths import inside, inside_any
from vxwatch.sandbox.places import (
    follow,
    is_socket,
    is_special,
    lies,
    listing,
    places,
    texts,
    would_match,
)
from vxwatch.sandbox.policy import Entry, Ground
from vxwatch.sandbox.protected import Protection, Territory, protect, repositories
from vxwatch.sandbox.strangers import bound_sockets

_PRIVATE = (".git", ".vx")
_ENVIRONMENT = ".venv"


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that a write grant names and that does not exist."""

    grant: Grant
    path: str
    kind: Literal["file", "directory"]


@dataclass(frozen=True, slots=True)
class Survey:
    """The ground of one task; `sizes` counts the paths that each grant stands for.

    `interpreters` are the programs that its virtual environment links to. `watched` are paths that
    are to stay as they are and cannot be mounted, `nurseries` directories in which no member may
    appear. `withheld` maps packages that the project depends on, and that the task's key does
    not fold, to their directories. `names_git`: a grant names a repository.
    """

    ground: Ground
    missing: tuple[Missing, ...]
    interpreters: tuple[str, ...]
    sizes: Mapping[Grant, int]
    watched: tuple[str, ...] = ()
    nurseries: tuple[str, ...] = ()
    withheld: Mapping[str, str] = field(default_factory=dict)
    names_git: bool = False


def survey(
    task: Task,
    workspace: Workspace,
    *,
    home: str,
    temp: str,
    folded: AbstractSet[str] | None = None,
) -> Survey:
    """Look at all that the sandbox of this task names.

    Raises `UserError` for a refused grant, and `LaunchError` where there is no directory to run in.
    `home` is what `~` stands for; `temp` where the task's own temporary directory will be;
    `folded` names the projects whose keys the task's key folds, None where that does not count.
    """
    surveyor = _Surveyor(task, workspace, home, folded)
    if not os.path.isdir(surveyor.directory):
        # The box would have one all the same, and placeholders would bring it back on the disk.
        raise LaunchError(127, f"the working directory {surveyor.directory} does not exist")
    return surveyor.survey(temp)


class _Surveyor:
    """One look around for one task."""

    def __init__(
        self, task: Task, workspace: Workspace, home: str, folded: AbstractSet[str] | None
    ) -> None:
        assert task.sandbox is not None
        self.sandbox = task.sandbox
        self.workspace = workspace
        self.project = workspace.projects[task.project]
        self.root = workspace.root
        self.directory = os.path.realpath(self._absolute(self.project))
        self.home = home
        self.folded = folded
        directories = {self._absolute(project) for project in workspace.projects.values()}
        self.projects = directories | {self.root, self.directory}
        self.foreign = {path for path in directories if not inside(self.directory, path)}
        self.sizes: dict[Grant, int] = {}
        self.withheld: dict[str, str] = {}

    def survey(self, temp: str) -> Survey:
        granted = [p for _, p in self._granted("read", self.sandbox.read) if p.kind != "missing"]
        hidden = {p.path: p.kind for p in self._denied("deny.read", self.sandbox.deny_read)}
        kept = list(self._denied("deny.write", self.sandbox.deny_write))
        written = list(self._granted("write", self.sandbox.write))
        for grant, place in written:
            check_write(grant, place, directory=self.directory, root=self.root)
        denied = hidden.keys() | {place.path for place in kept}
        written = [(g, p) for g, p in written if not self._never(p, denied)]
        wanted = [
            Place(place.named, place.path, _meant(grant, place), place.links)
            for grant, place in written
        ]
        # What a worktree's file says is what git obeys, so a task may only read it.
        reads = (*granted, *filter(_is_pointer, wanted), *_repositories(granted))
        led = tuple(_repositories(wanted))
        writes = (*(p for p in wanted if not _is_pointer(p)), *led)
        baseline, interpreters = self._baseline()
        opened = [p.path for p in (*baseline, *reads, *writes) if p.kind == "directory"]
        siblings = dict(self._siblings(writes))
        protection = self._protection(writes, led)
        sockets = tuple(self._sockets())
        ground = Ground(
            self.root,
            self.directory,
            temp,
            baseline=baseline,
            reads=reads,
            writes=writes,
            walls=dict(self._walls({*opened, *siblings})),
            protected=tuple(protection.fixed),
            siblings=siblings,
            hidden={path: kind for path, kind in hidden.items() if kind != "missing"},
            kept=tuple(place.path for place in kept if place.kind != "missing"),
            sockets=sockets,
            strangers=self._strangers(sockets),
        )
        return Survey(
            ground,
            (*self._missing(written, siblings), *_to_make(protection, written)),
            interpreters,
            self.sizes,
            watched=(*protection.watched, *(p.path for p in kept if p.kind == "missing")),
            nurseries=tuple(self._nurseries({place.path for place in writes})),
            withheld=self.withheld,
            names_git=any("/.git/" in f"{place.path}/" for place in (*reads, *writes)),
        )

    def _absolute(self, project: Project) -> str:
        return os.path.join(self.root, project.dir) if project.dir else self.root

    def _granted(self, access: Access, texts: tuple[str, ...]) -> Iterator[tuple[Grant, Place]]:
        for text in texts:
            grant = parse(text, access, directory=self.directory, home=self.home)
            found = list(islice(places(grant, self.foreign.__contains__), MOST_MOUNTS + 1))
            if len(found) > MOST_MOUNTS:
                raise too_many(grant)
            self.sizes[grant] = len(found)
            for place in found:
                check_kind(grant, place)
                yield grant, place

    def _baseline(self) -> tuple[tuple[Place, ...], tuple[str, ...]]:
        """What a task may read without asking, and the interpreters its environment links to."""
        holders = (self.directory, self.root)
        environments = (os.path.join(holder, _ENVIRONMENT) for holder in holders)
        environment = next((path for path in environments if os.path.isdir(path)), None)
        found = [follow(os.path.join(holder, "node_modules")) for holder in holders]
        found += [follow(environment)] if environment else []
        shown = tuple(p for p in (*found, *self._packages()) if p.kind != "missing")
        return shown, (os.path.join(environment, "bin/python"),) if environment else ()

    def _packages(self) -> Iterator[Place]:
        """The workspace packages that the project depends on and `node_modules` links to."""
        known, reached = self.workspace.projects, {self.project.name: None}
        ahead = [*self.project.dependencies]
        while ahead:
            name = ahead.pop()
            if name in known and name not in reached:
                reached[name] = None
                ahead += known[name].dependencies
        wanted = {self._absolute(known[name]): name for name in reached}
        wanted = {path: n for path, n in wanted.items() if not inside(self.directory, path)}
        if self.folded is not None:
            self.withheld = {n: p for p, n in wanted.items() if n not in self.folded}
            wanted = {path: n for path, n in wanted.items() if n in self.folded}
        for holder in dict.fromkeys((self.directory, self.root, *wanted)):
            if not wanted:
                return
            if lies(f"{holder}/node_modules") is None:
                continue
            for link in _links(f"{holder}/node_modules", wanted.values()):
                place = follow(link)
                if wanted.pop(place.path, None) is not None:
                    yield place

    def _walls(self, opened: AbstractSet[str]) -> Iterator[tuple[str, Entry]]:
        """Other projects, and what git and vx keep, in the directories that grants open."""
        for path in self.foreign:
            if inside_any(path, opened):
                yield path, "directory"
        for directory in {self.root, self.directory} | opened:
            for name in _PRIVATE:
                place = follow(os.path.join(directory, name))
                if place.kind != "missing":
                    yield place.path, place.kind

    def _protection(self, writes: tuple[Place, ...], led: tuple[Place, ...]) -> Protection:
        named = {p.path for p in writes if os.path.basename(p.path) == ".git"}
        return protect(
            Territory(
                writes=frozenset(place.path for place in writes),
                root=self.root,
                projects=self.projects,
                home=follow(self.home).path,
                configs=[f"{self.root}/{name}" for name in self.workspace.config_files],
                repositories=named.union(place.path for place in led),
                git_config=self.sandbox.git_config,
            )
        )

    def _nurseries(self, writes: AbstractSet[str]) -> Iterator[str]:
        """The directories in which a new member would count and that the task may write."""
        for parent in self.workspace.member_parents:
            path = f"{self.root}/{parent}" if parent else self.root
            if inside_any(path, writes):
                yield path

    def _denied(self, access: Access, texts: tuple[str, ...]) -> Iterator[Place]:
        """What is taken back: also in other projects, and what a match leads to."""
        for text in texts:
            grant = parse(text, access, directory=self.directory, home=self.home)
            found = list(islice(places(grant, lambda _: False, leaving=True), MOST_MOUNTS + 1))
            if len(found) > MOST_MOUNTS:
                raise too_many(grant)
            self.sizes[grant] = len(found)
            yield from found

    def _never(self, place: Place, denied: AbstractSet[str]) -> bool:
        """Whether it is denied and not there: nothing can be mounted over it, so it is not made."""
        if place.kind != "missing":
            return False
        taken = [grant for grant in self.sizes if "deny" in grant.access]
        return inside_any(place.path, denied) or any(would_match(g, place.path) for g in taken)

    def _sockets(self) -> Iterator[Place]:
        """The granted sockets that are there; one that is not is perhaps the task's own to make."""
        for text in self.sandbox.unix_sockets or ():
            grant = parse(text, "unix_sockets", directory=self.directory, home=self.home)
            place = follow(literal(grant))
            if place.kind != "missing":
                if not is_socket(place.path):
                    raise no_socket(grant, place)
                yield place

    def _strangers(self, sockets: tuple[Place, ...]) -> tuple[str, ...]:
        if self.sandbox.unix_sockets is None:
            return ()
        granted = {place.path for place in sockets}
        return tuple(path for path in bound_sockets() if path not in granted)

    def _siblings(
        self, writes: tuple[Place, ...]
    ) -> Iterator[tuple[str, Mapping[str, str | None]]]:
        """The directories of granted files that could be saved by a rename, and what lies there."""
        for place in writes:
            parent = os.path.dirname(place.path)
            if place.kind != "file" or parent == "/" or is_special(place.path):
                continue
            if lies(parent) in {"directory", None}:
                yield parent, texts(parent)

    def _missing(
        self, written: list[tuple[Grant, Place]], siblings: Mapping[str, object]
    ) -> Iterator[Missing]:
        for grant, place in written:
            if place.kind == "missing":
                kind, parent = _meant(grant, place), os.path.dirname(place.path)
                if kind == "file" and parent in siblings:
                    yield Missing(grant, parent, "directory")
                else:
                    yield Missing(grant, place.path, kind)


def _is_pointer(place: Place) -> bool:
    """Whether it is the `.git` of a worktree or a submodule, which says where the repository is."""
    return place.kind == "file" and os.path.basename(place.path) == ".git"


def _repositories(granted: Iterable[Place]) -> Iterator[Place]:
    """The directories that the pointers among these stand for."""
    for place in filter(_is_pointer, granted):
        for path in repositories(place.path):
            yield Place(path, path, "directory")


def _to_make(protection: Protection, written: list[tuple[Grant, Place]]) -> Iterator[Missing]:
    """What must be there to be kept from a task, on behalf of the grant that opens it."""
    for path in protection.made:
        opening = (grant for grant, place in written if inside(path, place.path))
        # The directory of a worktree's repository is opened by the grant of its `.git`.
        worktrees = (grant for grant, place in written if place.kind == "file")
        yield Missing(next(chain(opening, worktrees)), path, "directory")


def _links(directory: str, names: Iterable[str]) -> Iterator[str]:
    """The links to packages that are installed in a directory: these names, then any (aliases)."""
    yield from (
        f"{directory}/{name}" for name in tuple(names) if lies(f"{directory}/{name}") == "link"
    )
    for name, entry in listing(directory).items():
        if entry == "link":
            yield f"{directory}/{name}"
        elif entry == "directory" and name.startswith("@"):
            scope = f"{directory}/{name}"
            yield from (
                f"{scope}/{inner}" for inner, kind in listing(scope).items() if kind == "link"
            )


def _meant(grant: Grant, place: Place) -> Literal["file", "directory"]:
    if place.kind != "missing":
        return place.kind
    return "directory" if grant.directory else "file"
