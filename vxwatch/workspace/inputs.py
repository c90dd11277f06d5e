"""Finds tasks that take in what another task makes, without depending on it.

What a task depends on comes in by its key, so its key is known before anything runs. What any
other task makes is there or not, by chance: the key moves with it. Decides from patterns, and from
which outputs git ignores: these are no inputs unless they are spelled out. Pure.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from vxwatch.globs import Matcher, literal, overlap, rooted
from vxwatch.graph.tasks import plan
from vxwatch.model import Project, Task, TaskId, Workspace

Ignored = Callable[[Sequence[str]], Collection[str]]
"""Those of some paths that git ignores, relative to the root."""

Fault = tuple[TaskId, str, str]
"""The task, what is wrong with its inputs, what to do."""


def check_inputs(workspace: Workspace, ignored: Ignored) -> Iterator[Fault]:
    """Inputs that meet outputs of a task which theirs does not depend on.

    Expects a workspace whose dependencies are sound.
    """
    makers = [(project, task) for project, task in _tasks(workspace) if _outputs(project, task)]
    seen = _Seen(ignored)
    for project, task in _tasks(workspace):
        reads = _inputs(project, task)
        others = [(home, maker) for home, maker in makers if maker is not task]
        met = [
            (maker, pair)
            for home, maker in others
            if (
                _may_reach(project, task, home, maker)
                and (pair := _meeting(reads, seen, home, maker))
            )
        ]
        above = plan(workspace, (task.id,)).order if met else ()
        for maker, (read, made) in met:
            if maker.id not in above:
                yield (
                    task.id,
                    f'"{read}" takes in "{made}" of {maker.id}, on which it does not depend',
                    f'add "{_name(project, maker)}" to depends_on, or "!{_own(project, made)}" to the inputs',
                )


class _Seen:
    """Which of some patterns name what git does not ignore."""

    def __init__(self, ignored: Ignored) -> None:
        self._ignored = ignored
        self._known: dict[str, bool] = {}

    def among(self, patterns: Iterable[str]) -> tuple[str, ...]:
        """Those that may name an input."""
        return tuple(pattern for pattern in patterns if pattern[0] == "!" or self._is_seen(pattern))

    def _is_seen(self, pattern: str) -> bool:
        if pattern not in self._known:
            roots = Matcher([pattern]).roots()
            # A rule may be for directories only, and whether it is one is not known.
            hidden = {*self._ignored([place for root in roots for place in (root, f"{root}/x")])}
            self._known[pattern] = any(hidden.isdisjoint((root, f"{root}/x")) for root in roots)
        return self._known[pattern]


def _meeting(
    reads: Sequence[str], seen: _Seen, home: Project, maker: Task
) -> tuple[str, str] | None:
    """The first input, and the output that it can match, relative to the root."""
    makes = _outputs(home, maker)
    if overlap(reads, makes) is None:
        return None
    spelled_out = [p for p in reads if p[0] == "!" or literal(p.rpartition("/")[2]) is not None]
    return overlap(reads, seen.among(makes)) or overlap(spelled_out, makes)


def _may_reach(project: Project, task: Task, home: Project, maker: Task) -> bool:
    """Patterns of a project's own `files` stop at others, so those of two projects cannot meet."""
    wide = [bool(globs and globs.workspace_files) for globs in (task.inputs, maker.outputs)]
    return project is home or any(wide)


def _tasks(workspace: Workspace) -> Iterator[tuple[Project, Task]]:
    for project in workspace.projects.values():
        yield from ((project, task) for task in project.tasks.values())


def _inputs(project: Project, task: Task) -> tuple[str, ...]:
    if task.inputs is None:
        return ()
    return (*rooted(project.dir, task.inputs.files), *task.inputs.workspace_files)


def _outputs(project: Project, task: Task) -> tuple[str, ...]:
    if task.outputs is None:
        return ()
    return (*rooted(project.dir, task.outputs.files), *task.outputs.workspace_files)


def _own(project: Project, pattern: str) -> str:
    return pattern.removeprefix(f"{project.dir}/") if project.dir else pattern


def _name(project: Project, other: Task) -> str:
    return other.name if other.project == project.name else other.id
