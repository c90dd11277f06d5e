"""Restores outputs where a proof says that nothing else moved since a run that ran nothing.

Then the keys of its tasks are those of now: no config is read for it, no file listed, no key made.
What such a run writes down for that says around which directories outputs come and go: those are
compared by what lies in them beside outputs, since their stamps move with these. Whatever a stray
file in an output's place means to a task, restoring takes it away.
"""

import json
import os
import stat
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from vxwatch import __version__
from vxwatch.cache import SCHEMA
from vxwatch.cache.content import older
from vxwatch.cache.reuse import Cache
from vxwatch.cache.standing import look
from vxwatch.cache.store import Store
from vxwatch.graph.places import upward
from vxwatch.model import Globs, Project, Task
from vxwatch.outcome import Outcome
from vxwatch.session.restoring import restore_all, whatever_it_takes
from vxwatch.workspace.home import has_session

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from vxwatch.cache.trouble import Notice
    from vxwatch.model import TaskId, Workspace

_MADE_BY = f"{__version__} {SCHEMA}"
_INODE, _MODE = 3, 4  # of a stamp


class Around(NamedTuple):
    """A directory that holds outermost outputs.

    `outputs` are their names, `beside` those of all else in it; names of directories end with "/".
    """

    directory: str
    inode: int
    mode: int
    outputs: list[str]
    beside: list[str]

    def stands(self, root: str) -> bool:
        """Whether nothing but outputs came or went in it."""
        stamp = look(f"{root}/{self.directory}")
        if stamp is None or (stamp[_INODE], stamp[_MODE]) != (self.inode, self.mode):
            return False
        try:
            return _beside(f"{root}/{self.directory}", self.outputs) == self.beside
        except OSError:
            return False


def surroundings(
    root: str, tasks: "Iterable[Task]", cache: Cache, since: int
) -> "Sequence[Around] | None":
    """What lies around the outputs of these tasks since that time (nanoseconds of the wall clock).

    None where something came or went there since, or just then, or where one place holds outputs and
    other files.
    """
    names: dict[str, set[str]] = {}
    for task in tasks:
        declared = cache.outputs.declared(task)
        if any(pattern.startswith("!") for patterns in task.outputs or () for pattern in patterns):
            return None
        for place in declared.roots:
            directory, _, name = place.rpartition("/")
            kinds = [f"{name}/"] * declared.holds(place) + [name] * declared.matches(place)
            if not place or not kinds:
                return None
            names.setdefault(directory, set()).update(kinds)
    found: list[Around] = []
    for directory, outputs in names.items():
        stamp = look(f"{root}/{directory}")
        if stamp is None or not stat.S_ISDIR(stamp[_MODE]) or not older(stamp, since):
            return None
        beside = _beside(f"{root}/{directory}", outputs)
        found.append(Around(directory, stamp[_INODE], stamp[_MODE], sorted(outputs), beside))
    return found


def describe(
    workspace: "Workspace",
    places: "Sequence[Around]",
    paths: "Collection[str]",
    tasks: "Mapping[Task, str]",
    cache: Cache,
    command: str,
) -> str:
    """What `restored` needs, for tasks with these keys; "" where it cannot restore them.

    That is where outputs are among the `paths` that all keys go by, lie where none of these is, are
    tracked by git, whose index is one of those, or may be of more than one task.
    """
    if not workspace.rules.exclusive_outputs:
        return ""
    outputs = {f"{one.directory}/{name}".strip("/") for one in places for name in one.outputs}
    if any(not outputs.isdisjoint(upward(path)) for path in paths):
        return ""
    if cache.store is None or not all(one.directory in paths for one in places):
        return ""
    if cache.outputs.below(outputs):
        return ""
    return json.dumps(
        (
            *(_MADE_BY, cache.store.directory, cache.store.to_read, command),
            [(project.name, project.dir) for project in workspace.projects.values()],
            [(task.project, task.name, task.outputs, key) for task, key in tasks.items()],
            places,
        )
    )


def restored(root: str, described: str, notice: "Notice") -> tuple[Outcome, ...] | None:
    """How the tasks ended; None where there is more to do, or something to tell, than to restore.

    Where nothing moved but outputs. A session that is at work here may be making what no key says yet.
    """
    made_by, directory, to_read, command, projects, known, places = json.loads(described)
    if made_by != _MADE_BY or has_session(root):
        return None
    if not all(Around(*place).stands(root) for place in places):
        return None
    tasks: list[Task] = []
    keys: dict[TaskId, str] = {}
    for project, name, outputs, key in known:
        tasks.append(Task(project, name, outputs=Globs(*map(tuple, outputs))))
        keys[tasks[-1].id] = key
    owners = {name: Project(name, place, (), None, (), {}) for name, place in projects}
    with closing(Cache(root, owners, lambda: Store(directory, to_read=to_read), notice)) as cache:
        cache.outputs.track_by(None)
        rest = [task for task in tasks if cache.standing(task, keys[task.id]) is None]
        if not rest or not cache.expect(keys[task.id] for task in rest):
            return None
        ended = restore_all(rest, keys, cache, root, command, whatever_it_takes)
    if ended is None:
        return None
    return tuple(ended.get(task) or Outcome(task, "fresh") for task in keys)


def _beside(directory: str, outputs: "Collection[str]") -> list[str]:
    """The names in a directory but those of outputs, sorted. Raises OSError."""
    with os.scandir(directory) as entries:
        names = [e.name + "/" * e.is_dir(follow_symlinks=False) for e in entries]
    return sorted(name for name in names if name not in outputs)
