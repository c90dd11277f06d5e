"""Decides which tasks a changed path touches, and which files are part of a task's key.

One rule answers both, so that a change is seen by exactly the tasks whose keys it moves:

- a task with declared inputs takes what its patterns match (those of its project stop at nested
  projects), its project's manifests and the workspace's lockfiles; not what it writes itself, and
  not what any task it depends on writes: that comes in by key; what git tracks nobody writes,
  whatever outputs match it;
- a task without takes every file of its project that no task declares as output, but vx's own
  config; where it is saved the workspace's lockfiles too, and where nothing of it is, not what only
  a server's `restart_on` matches;
- a server takes what its `restart_on` matches;
- a file that git ignores is taken only where a pattern spells its name out.

A question costs the depth of the path and the tasks of its project, never the workspace.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple, Protocol

from vxwatch.globs import Matcher, excluded
from vxwatch.graph.places import (
    Matchers,
    Outputs,
    Owners,
    Spread,
    inside,
    outermost,
    relative,
    upward,
)
from vxwatch.graph.tasks import Graph
from vxwatch.model import Globs, Project, Task, TaskId, Workspace

LOCKFILES = frozenset(
    {
        "bun.lock",
        "bun.lockb",
        "npm-shrinkwrap.json",
        "package-lock.json",
        "pnpm-lock.yaml",
        "uv.lock",
        "yarn.lock",
    }
)
"""Files at the root of the workspace that are an input of every task that says what it goes by."""

_ANY = "\x1f"


class Tracked(Protocol):
    """What git tracks; asked only where outputs lie."""

    def holds(self, place: str) -> bool:
        """Whether git tracks what is at the place, or anything below it."""

    def renew(self) -> bool:
        """Look again; whether it may be something else by now."""


class Untracked:
    """Where git tracks nothing."""

    def holds(self, _place: str) -> bool:
        """Never."""
        return False

    def renew(self) -> bool:
        """Never."""
        return False


class Touched(NamedTuple):
    """The tasks that some changes reach: by input, by lying in their project, by `restart_on`."""

    inputs: frozenset[TaskId]
    uncached: frozenset[TaskId]
    restarts: frozenset[TaskId]


def takes_whole(project: Project, task: Task, lockfile: str) -> bool:
    """Whether a lockfile is one of the files that the task asks for, and not just an input of all.

    To a task of a project inside the workspace it is one only by `workspace_files`.
    """
    if task.inputs is None:
        return not project.dir
    own = () if project.dir else task.inputs.files
    return any(
        _matcher(patterns).matches(lockfile)
        for patterns in (own, task.inputs.workspace_files)
        if patterns
    )


@lru_cache(maxsize=1024)
def _matcher(patterns: tuple[str, ...]) -> Matcher:
    return Matcher(patterns)


class Affected:
    """What files mean to the tasks of one graph."""

    def __init__(self, workspace: Workspace, graph: Graph, tracked: Tracked | None = None) -> None:
        """Where nothing is `tracked`, all that tasks declare as outputs is what they write."""
        self._tracked = tracked or Untracked()
        tasks = [workspace.task(task) for task in graph.order]
        self._projects = workspace.projects
        self._graph = graph
        self._tasks = {task.id: task for task in tasks}
        self._matchers = Matchers()
        self._owners = Owners(workspace.projects.values())
        self._local: dict[str, list[Task]] = {}
        for task in tasks:
            if task.command is not None:
                self._local.setdefault(task.project, []).append(task)
        self._cached = [task for task in tasks if task.inputs is not None]
        self._saved = [task for task in tasks if task.inputs is None and task.outputs is not None]
        self._servers = frozenset(task.id for task in tasks if task.persistent)
        self._wide = Spread(
            ((task.id, task.inputs.workspace_files) for task in self._cached if task.inputs),
            self._matchers,
        )
        self._places = tuple(
            outermost([*(self._projects[name].dir for name in self._local), *self._wide.roots])
        )
        self._around = {above for place in self._places for above in upward(place)}
        self._wide_outputs = Spread(_wide_outputs(workspace), self._matchers)
        self._outputs: dict[str, Outputs] = {}
        self._downstream: dict[TaskId, frozenset[TaskId]] = {}

    def renew(self) -> bool:
        """Look again at what git tracks; whether tasks may take other files for that."""
        return self._tracked.renew()

    def touched(self, paths: Iterable[str], ignored: Collection[str] = ()) -> Touched:
        """The tasks that changes of these paths reach; `ignored` holds those git ignores."""
        inputs: set[TaskId] = set()
        uncached: set[TaskId] = set()
        restarts: set[TaskId] = set()
        for path in paths:
            for task in self.takers(path, ignored=path in ignored):
                if task.persistent:
                    restarts.add(task.id)
                elif task.inputs is not None:
                    inputs.add(task.id)
                else:
                    uncached.add(task.id)
        return Touched(frozenset(inputs), frozenset(uncached), frozenset(restarts))

    def takes(self, task_id: TaskId, path: str, *, ignored: bool = False) -> bool:
        """Whether the file is part of what the task depends on. `ignored`: git ignores it."""
        if not self.matches(task_id, path, ignored=ignored):
            return False
        task = self._tasks[task_id]
        if task.inputs is None and not _is_installed(task, path):
            return True
        return not self._comes_by_key(task_id, path)

    def matches(self, task_id: TaskId, path: str, *, ignored: bool = False) -> bool:
        """Whether the task would take the file if no task declared it as output."""
        task = self._tasks[task_id]
        if task.persistent:
            return self._own(task, task.persistent.restart_on, path, ignored=ignored)
        if task.inputs is not None:
            return self._reads(task, task.inputs, path, ignored=ignored)
        if task.command is None:
            return False
        return _is_installed(task, path) or (not ignored and self._surrounds(task, path))

    def alike(self, task_id: TaskId) -> Hashable:
        """Equal for tasks that match the same files."""
        task = self._tasks[task_id]
        return task_id if task.inputs is None else (task.project, task.inputs)

    def takers(self, path: str, *, ignored: bool = False) -> Iterator[Task]:
        """The tasks that take the file, servers among them. `ignored`: git ignores it."""
        if excluded(path):
            return
        owner = self._owners.of(path)
        candidates = {task.id: task for task in self._local.get(owner.name, ())} if owner else {}
        candidates |= {task: self._tasks[task] for task in self._wide.tasks(path)}
        if path in LOCKFILES:
            candidates |= {task.id: task for task in (*self._cached, *self._saved)}
        for task in candidates.values():
            if self.takes(task.id, path, ignored=ignored):
                yield task

    def named(self, path: str) -> bool:
        """Whether the file counts although git ignores it: some task spells its name out."""
        return any(True for _ in self.takers(path, ignored=True))

    def writers(self, path: str) -> list[TaskId]:
        """The tasks of the workspace that write the path: an output of theirs, not tracked by git."""
        found = self._declarers(path)
        return [] if found and self._tracked.holds(path) else found

    def _declarers(self, path: str) -> list[TaskId]:
        """The tasks of the workspace that declare the path as output."""
        found = [*self._wide_outputs.tasks(path)]
        owner = self._owners.of(path)
        if owner is not None:
            outputs = self._outputs.get(owner.name)
            if outputs is None:
                outputs = self._outputs[owner.name] = Outputs(owner, self._matchers)
            found += outputs.writers(path)
        return found

    def generated(self, path: str) -> bool:
        """Whether a change of the path is the work of a task and no edit.

        It is a declared output, and no task that does not depend on its writer takes it, nor any
        where git tracks it.
        """
        return bool(self._declarers(path)) and not any(
            task.inputs is not None or not self._comes_by_key(task.id, path)
            for task in self.takers(path)
        )

    def closed(self, directory: str) -> bool:
        """Whether no file in the directory can be an edit: whatever is there, tasks wrote it.

        Says so only where one task declares all of it, and where no task that does not depend
        on that one takes files in that part of the workspace, nor any where git tracks files in it.
        """
        # A pattern that matches a name which none spells out matches every name.
        inner = f"{directory}/{_ANY}"
        writers = {*self._declarers(inner)}.intersection(self._declarers(f"{inner}/{_ANY}"))
        if not any(not any(self._strangers(directory, writer)) for writer in writers):
            return False
        return not (any(self._near(directory)) and self._tracked.holds(directory))

    def concerns(self, path: str) -> bool:
        """Whether a task of the graph may take the path: it need not be listed otherwise."""
        owner = self._owners.of(path)
        if owner is not None and owner.name in self._local:
            return True
        return path in LOCKFILES or any(True for _ in self._wide.tasks(path))

    def reaches(self, directory: str) -> bool:
        """Whether a task of the graph may take a file somewhere below the directory."""
        owner = self._owners.of(f"{directory}/{_ANY}")
        return (
            (owner is not None and owner.name in self._local)
            or directory in self._around
            or any(above in self._wide.roots for above in upward(directory))
        )

    def roots(self, task_id: TaskId) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Where the files of a task lie: in its project, and, but for lockfiles, elsewhere."""
        task = self._tasks[task_id]
        project = self._projects[task.project]
        if task.persistent:
            return self._rooted(project, task.persistent.restart_on), ()
        if task.inputs is None:
            return ((project.dir,), ()) if task.command is not None else ((), ())
        own = self._rooted(project, task.inputs.files)
        return own + project.manifests, self._matchers[task.inputs.workspace_files].roots()

    def directories(self) -> tuple[str, ...]:
        """The places to list, none inside another ("" is the root); some may be files."""
        return self._places

    @property
    def servers(self) -> Collection[TaskId]:
        """The tasks of the graph that do not finish."""
        return self._servers

    @property
    def project_dirs(self) -> Collection[str]:
        """Where projects lie: the patterns of one stop at the others."""
        return self._owners.directories

    def literals(self) -> frozenset[str]:
        """The paths that count even if git ignores them, as far as patterns alone tell."""
        found = {*LOCKFILES}
        for base, patterns in self._patterns:
            for name in self._matchers[patterns].literals():
                found.add(f"{base}/{name}" if base else name)
        for task in self._cached:
            found.update(self._projects[task.project].manifests)
        return frozenset(path for path in found if not excluded(path))

    def scattered(self) -> frozenset[str]:
        """The directories in which names like `**/.env` count wherever they are found."""
        return frozenset(
            base for base, patterns in self._patterns if self._matchers[patterns].scattered
        )

    @property
    def _patterns(self) -> Collection[tuple[str, tuple[str, ...]]]:
        """The lists by which tasks take files, with the directory each is relative to."""
        found: dict[tuple[str, tuple[str, ...]], None] = {}
        for task in self._tasks.values():
            base = self._projects[task.project].dir
            if task.persistent:
                found[base, task.persistent.restart_on] = None
            elif task.inputs is not None:
                found[base, task.inputs.files] = None
                found["", task.inputs.workspace_files] = None
        return found

    def _strangers(self, directory: str, writer: TaskId) -> Iterator[Task]:
        """The tasks that may take files in the directory and do not depend on the writer."""
        # Asked last: what depends on a task may be most of the workspace.
        return (
            task
            for task in self._near(directory)
            if (task.inputs is not None or task.persistent) and task.id not in self._above(writer)
        )

    def _near(self, directory: str) -> Iterator[Task]:
        """The tasks that may take files in the directory."""
        owner = self._owners.of(f"{directory}/{_ANY}")
        near = [] if owner is None else self._local.get(owner.name, [])
        wide = [self._tasks[task] for task in self._wide.near(directory)]
        for task in (*near, *wide):
            own, elsewhere = self.roots(task.id)
            if any(_meet(root, directory) for root in (*own, *elsewhere)):
                yield task

    def _reads(self, task: Task, inputs: Globs, path: str, *, ignored: bool) -> bool:
        wide = inputs.workspace_files
        return (
            self._own(task, inputs.files, path, ignored=ignored)
            or (bool(wide) and self._fits(wide, path, ignored=ignored))
            or path in LOCKFILES
            or path in self._projects[task.project].manifests
        )

    def _own(self, task: Task, patterns: tuple[str, ...], path: str, *, ignored: bool) -> bool:
        owner = self._owners.of(path)
        if owner is None or owner.name != task.project:
            return False
        return self._fits(patterns, relative(owner, path), ignored=ignored)

    def _fits(self, patterns: tuple[str, ...], path: str, *, ignored: bool) -> bool:
        matcher = self._matchers[patterns]
        return matcher.names(path) if ignored else matcher.matches(path)

    def _surrounds(self, task: Task, path: str) -> bool:
        owner = self._owners.of(path)
        return (
            owner is not None
            and owner.name == task.project
            and (path != owner.config or path in owner.manifests)
            and not self.writers(path)
            and (task.outputs is not None or not self._only_restarts(owner, path))
        )

    def _only_restarts(self, owner: Project, path: str) -> bool:
        servers = [task for task in self._local[owner.name] if task.persistent]
        if not any(self.takes(server.id, path) for server in servers):
            return False
        readers = [*self._wide.tasks(path)]
        readers += [task.id for task in self._local[owner.name] if task.inputs is not None]
        return not any(self.takes(reader, path) for reader in readers)

    def _comes_by_key(self, task: TaskId, path: str) -> bool:
        writers = self.writers(path)
        return bool(writers) and any(task in self._above(writer) for writer in writers)

    def _above(self, writer: TaskId) -> frozenset[TaskId]:
        if writer not in self._tasks:
            return frozenset()
        if writer not in self._downstream:
            self._downstream[writer] = self._graph.downstream([writer])
        return self._downstream[writer]

    def _rooted(self, project: Project, patterns: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(inside(project, root) for root in self._matchers[patterns].roots())


def _is_installed(task: Task, path: str) -> bool:
    """Whether the path says what is installed for a task that is saved and declares no inputs."""
    return path in LOCKFILES and task.outputs is not None and task.persistent is None


def _meet(this: str, that: str) -> bool:
    return this in upward(that) or that in upward(this)


def _wide_outputs(workspace: Workspace) -> Iterator[tuple[TaskId, tuple[str, ...]]]:
    for project in workspace.projects.values():
        for task in project.tasks.values():
            if task.outputs:
                yield task.id, task.outputs.workspace_files
