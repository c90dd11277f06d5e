"""Loads a workspace, from what an earlier run has kept of it where that is proven to be the same.

To read the configs takes longer than most that follows. What they said is kept with the stamps of
every file that had a say, and the names that lie in every directory in which one more would have:
while all of that stands, to load it anew would give the same. Where more counts than stamps can
tell (programs, rules that ask git what it ignores), or links lead away, nothing is kept.
"""

import json
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import xxhash

from vxwatch import __version__
from vxwatch.cache.content import older
from vxwatch.cache.stamps import Stamp
from vxwatch.cache.standing import digest, look
from vxwatch.graph.places import upward
from vxwatch.model import (
    Globs,
    Persistent,
    Port,
    Project,
    Resources,
    Retention,
    Rules,
    Sandbox,
    Task,
    Workspace,
)
from vxwatch.workspace.discover import load_workspace
from vxwatch.workspace.gitplace import git_directory
from vxwatch.workspace.home import HOME, replace
from vxwatch.workspace.manifests import LOCK, NAMES, PROGRAM, PROGRAM_SETTINGS

PLACE = ".vx/cache/workspace"
"""Where it lies, below the root of the workspace."""

_FORMAT = "workspace 3"
"""Moves whenever the same configs shall make another workspace."""

_KINDS = (Workspace, Project, Task, Globs, Persistent, Port, Resources, Retention, Rules, Sandbox)

_COUNT = NAMES - {LOCK}
_PROGRAMS = frozenset({PROGRAM, PROGRAM_SETTINGS})
_MODE = 4  # of a stamp
_OWN = 2  # fields of a task that say whose it is: many tasks are alike but for them
_OF_A_TASK: tuple[tuple[int, Callable[..., Any]], ...] = tuple(
    (Task._fields.index(name) - _OWN, kind)
    for name, kind in (
        ("inputs", Globs),
        ("outputs", Globs),
        ("persistent", Persistent),
        ("resources", Resources),
    )
)
_SANDBOX = Task._fields.index("sandbox") - _OWN


def load(root: str, *, frozen: bool = False) -> Workspace:
    """As `load_workspace` has it, from the record where that is the same. Writes nothing."""
    known = None if frozen else recall(root)
    return known or load_workspace(root, frozen=frozen)


def recall(root: str) -> Workspace | None:
    """The workspace that was kept; None where nothing proves that it is the same still."""
    try:
        with open(f"{root}/{PLACE}", "rb") as file:
            content = file.read()
    except OSError:
        return None
    head, _, body = content.partition(b"\n")
    if head != _head(root, body):
        return None
    evidence, _, said = body.partition(b"\n")
    workspace = _made(root, *json.loads(said))._replace(fingerprint=_digest(said))
    return workspace if _stands(workspace, *json.loads(evidence)) else None


def keep(workspace: Workspace, since: int) -> Workspace:
    """Keep it for later runs; the same, with its fingerprint if it was kept.

    It is not where nothing could prove then that it is the same. `since` is the time before the
    first of its files was read, in nanoseconds of the wall clock. Raises OSError.
    """
    evidence = _evidence(workspace, since)
    if evidence is None:
        return workspace
    said = json.dumps(_said(workspace)).encode()
    body = json.dumps(evidence).encode() + b"\n" + said
    replace(f"{workspace.root}/{PLACE}", _head(workspace.root, body) + b"\n" + body)
    return workspace._replace(fingerprint=_digest(said))


def _head(root: str, body: bytes) -> bytes:
    """What the record begins with, if it is whole and this vx made it here, on so many cores."""
    made_for = root, len(os.sched_getaffinity(0)), __version__, [kind._fields for kind in _KINDS]
    text = repr(made_for).encode("utf-8", "surrogateescape")
    return f"{_FORMAT} {_digest(text)} {_digest(body)}".encode()


def _digest(content: bytes) -> str:
    return xxhash.xxh3_128_hexdigest(content)


def _evidence(workspace: Workspace, since: int) -> Sequence[object] | None:
    """What `_stands` proves it by; None where that would be no proof."""
    root, files = workspace.root, workspace.config_files
    if workspace.rules.upfront_keys or not _PROGRAMS.isdisjoint(map(os.path.basename, files)):
        return None
    stamps = [(path, look(f"{root}/{path}")) for path in files]
    if not all(stamp and stat.S_ISREG(stamp[_MODE]) and older(stamp, since) for _, stamp in stamps):
        return None
    index = _index(root) if workspace.config_tracked else None
    if index is not None and index[0] and not os.path.lexists(f"{root}/.git"):
        return None
    if index is not None and index[1] is not None and not older(index[1], since):
        return None
    places = _places(workspace, since)
    return None if places is None else (digest(stamps), index, places)


def _index(root: str) -> tuple[str, Stamp | None]:
    """Where git has its index of the repository around the root, and the stamps of that."""
    directory = git_directory(root)
    if directory is None:
        return "", None
    return directory, look(os.path.realpath(f"{directory}/index"))


def _places(workspace: Workspace, since: int) -> Sequence[object] | None:
    """The directories in which one more config or member would count, with what lies in them.

    Of one that has moved since, that is what was read there.
    """
    root, parents = workspace.root, {*workspace.member_parents}
    read: dict[str, list[str]] = {project.dir: [] for project in workspace.projects.values()}
    read |= {directory: [] for directory in workspace.bare_members}
    for path in workspace.config_files:
        directory, _, name = path.rpartition("/")
        read.setdefault(directory, []).append(name)
    found: list[object] = []
    for place in sorted({above for one in (*read, *parents) for above in upward(one)}):
        stamp = look(f"{root}/{place}")
        if stamp is None or not stat.S_ISDIR(stamp[_MODE]):
            return None
        if older(stamp, since):
            found.append((place, place in parents, stamp, _lying(root, place, place in parents)))
        elif place in parents:
            return None
        else:
            found.append((place, False, None, sorted(read.get(place, ()))))
    return found


def _lying(root: str, place: str, is_parent: bool) -> list[str]:
    """The names in a directory that count: those of configs, and of directories in a parent.

    No member lies in what vx itself makes.
    """
    with os.scandir(f"{root}/{place}") as entries:
        return sorted(
            entry.name
            for entry in entries
            if entry.name in _COUNT
            or (is_parent and entry.name != HOME and entry.is_dir(follow_symlinks=False))
        )


def _stands(
    workspace: Workspace, stamps: str, index: list[Any] | None, places: Sequence[list[Any]]
) -> bool:
    """Whether all that had a say is as it was."""
    root = workspace.root
    if stamps != digest((path, look(f"{root}/{path}")) for path in workspace.config_files):
        return False
    if index is not None and _tuples(index) != _index(root):
        return False
    try:
        return all(_is_as_it_was(root, *place) for place in places)
    except OSError:
        return False


def _is_as_it_was(
    root: str, place: str, is_parent: bool, stamp: list[int] | None, names: list[str]
) -> bool:
    now = look(f"{root}/{place}")
    if now is None or not stat.S_ISDIR(now[_MODE]):
        return False
    return [*now] == stamp or _lying(root, place, is_parent) == names


def _said(workspace: Workspace) -> Sequence[object]:
    """The workspace, but for its root; what tasks have in common stands there once."""
    shapes: dict[tuple[object, ...], int] = {}
    projects = [
        (
            *(project.name, project.dir, project.manifests, project.config),
            *(project.dependencies, project.tags, _numbered(project.tasks.values(), shapes)),
        )
        for project in workspace.projects.values()
    ]
    return workspace._replace(root="", projects={}, fingerprint=""), projects, [*shapes]


def _numbered(
    tasks: Iterable[Task], shapes: dict[tuple[object, ...], int]
) -> list[tuple[str, int]]:
    return [(task.name, shapes.setdefault(task[_OWN:], len(shapes))) for task in tasks]


def _made(root: str, fields: Any, projects: Sequence[Any], shapes: Sequence[Any]) -> Workspace:
    """The workspace that `_said` was made of."""
    known = [_shape(_tuples(shape)) for shape in shapes]
    made: dict[str, Project] = {}
    for name, directory, manifests, config, dependencies, tags, tasks in projects:
        made[name] = Project(
            *(name, directory, tuple(manifests), config, tuple(dependencies)),
            {task: Task(name, task, *known[at]) for task, at in tasks},
            tuple(tags),
        )
    rest = Workspace._make(_tuples(fields))
    return rest._replace(
        root=root,
        projects=made,
        cache_retention=Retention(*rest.cache_retention),
        rules=Rules(*rest.rules),
    )


def _shape(plain: tuple[Any, ...]) -> tuple[Any, ...]:
    """The fields of tasks that are alike, out of plain tuples."""
    values = [*plain]
    for at, kind in _OF_A_TASK:
        values[at] = values[at] and kind(*values[at])
    if values[_SANDBOX]:
        sandbox = Sandbox(*values[_SANDBOX])
        ports = tuple(Port(*port) for port in sandbox.local_binding)
        values[_SANDBOX] = sandbox._replace(local_binding=ports)
    return tuple(values)


def _tuples(value: Any) -> Any:
    """JSON's lists as tuples, however deep."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
