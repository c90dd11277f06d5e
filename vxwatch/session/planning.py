"""What the user asked for, turned into the tasks of a session: options in, a plan out."""

import os
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple

from vxwatch.cache.loaded import load
from vxwatch.cache.tracked import Sources, TrackedFiles
from vxwatch.errors import UserError
from vxwatch.graph.tasks import Graph, plan
from vxwatch.workspace.discover import find_root
from vxwatch.workspace.manifests import NAMES, PROGRAM_SETTINGS, SETTINGS
from vxwatch.workspace.ports import refuse_shared_ports
from vxwatch.workspace.select import Selection, project_at, select

if TYPE_CHECKING:
    from vxwatch.model import TaskId, Workspace


FEWEST_AT_ONCE = 8
"""Tasks at once where nobody says otherwise and cores are few: many tasks wait more than they compute,
also for vx (seen: 3,270 small ones on two cores take a tenth to a fifth less time than with 4)."""


class Options(NamedTuple):
    """The command line of `vx run` or `vx watch`, checked.

    `affected` is the commit with which to compare, "" for the usual one, None not to; `alone`
    leaves out what the requested tasks depend on. `directory` is absolute and real; `grace`, `quiet` in seconds; `concurrency` None for what
    the workspace or the machine says. `cache`: "renew" runs every task and saves what it makes,
    "read" saves nothing, "off" neither uses nor saves anything. `on_busy`: what becomes of a running task whose inputs move. `learn`: find out what the requested task needs.
    `frozen`: programs among the configs have the values that `vx.lock` has.
    """

    verb: Literal["run", "watch"]
    names: tuple[str, ...]
    directory: str
    everywhere: bool = False
    filters: tuple[str, ...] = ()
    affected: str | None = None
    alone: bool = False
    arguments: tuple[str, ...] = ()
    concurrency: int | None = None
    keep_going: Literal["never", "deps-ok", "always"] = "never"
    grace: float = 2.0
    quiet: float = 0.015
    on_busy: Literal["restart-stale", "queue"] = "restart-stale"
    poll: bool = False
    cache: Literal["use", "renew", "read", "off"] = "use"
    cache_dir: str | None = None
    learn: bool = False
    frozen: bool = False

    @property
    def command(self) -> str:
        """The command line, as far as it chooses tasks."""
        chosen = [f"--filter {one}" for one in self.filters]
        if self.affected is not None:
            chosen.append(f"--affected={self.affected}" if self.affected else "--affected")
        elif self.everywhere:
            chosen.append("--all")
        return " ".join(("vx", self.verb, *self.names, *chosen))


class Plan(NamedTuple):
    """The tasks of a session, in one graph.

    `requested` keeps the order of the command line and holds, for a group, the tasks that it
    stands for; `commands` counts the tasks that have a command, groups left out; `broad` says that projects were selected, not named; `since` is
    the time (nanoseconds of the wall clock) before the first file of the workspace was read.
    `left_out` holds the tasks that the requested ones depend on and that shall not run,
    `servers` the persistent tasks.
    """

    workspace: "Workspace"
    requested: "tuple[TaskId, ...]"
    graph: Graph
    broad: bool
    commands: int
    since: int
    left_out: "frozenset[TaskId]"
    servers: "frozenset[TaskId]"

    def concurrency(self, options: Options) -> int:
        """How many tasks may run at once."""
        cores = len(os.sched_getaffinity(0))
        return options.concurrency or self.workspace.concurrency or max(FEWEST_AT_ONCE, cores)


def make_plan(
    options: Options,
    tolerate: Callable[[UserError], None] | None = None,
    root: str | None = None,
) -> Plan:
    """Load the workspace around the working directory and plan what was asked for.

    Raises `ConfigError` with every fault of every config, and `UserError` for a wrong name;
    with `tolerate`, that is told of wrong names, and only when no name is right it is raised.
    With `root`, another workspace than that one is refused.
    """
    since = time.time_ns()
    workspace = load(_root(options.directory, root), frozen=options.frozen)
    try:
        selection = _select(workspace, options, options.names)
    except UserError:
        if tolerate is None:
            raise
        selection = _select(workspace, options, _known(workspace, options, tolerate))
    graph = plan(workspace, selection.tasks)
    named = selection.tasks
    if options.affected is not None:
        named = _affected(workspace, graph, named, options.affected)
        graph = plan(workspace, named)
    requested = _meant(workspace, graph, named)
    kept = {*requested, *named}
    left_out = frozenset(t for t in graph.order if t not in kept) if options.alone else frozenset()
    running = [task for task in graph.order if task not in left_out]
    refuse_shared_ports(workspace, running)
    if options.verb == "watch":
        _refuse_interactive(workspace, running)
    commands = sum(1 for task in running if workspace.task(task).command is not None)
    servers = frozenset(task for task in graph.order if workspace.task(task).persistent)
    return Plan(workspace, requested, graph, selection.broad, commands, since, left_out, servers)


def _refuse_interactive(workspace: "Workspace", running: "Iterable[TaskId]") -> None:
    """A watch runs tasks whenever something is saved, and whoever edits has the terminal then."""
    for task in running:
        if workspace.task(task).interactive:
            raise UserError(
                "interactive-in-watch",
                f"{task} is interactive, and a watch gives its terminal to no task",
                f"run it beside the watch, in a terminal of its own: vx run {task}",
            )


def _affected(
    workspace: "Workspace", graph: Graph, named: "tuple[TaskId, ...]", base: str
) -> "tuple[TaskId, ...]":
    """Those of the named tasks that a change since the base reaches."""
    from vxwatch.graph.changed import changed_tasks  # noqa: PLC0415 - few runs ask for it
    from vxwatch.workspace.changes import Changes  # noqa: PLC0415

    paths = Changes(workspace.root).since_base(base or workspace.affected_base, os.environ)
    reached = changed_tasks(
        workspace,
        graph,
        paths,
        shared=_shared(workspace, paths),
        tracked=Sources(TrackedFiles(workspace.root)),
    )
    return tuple(task for task in named if task in reached)


def _root(directory: str, expected: str | None) -> str:
    found = find_root(directory)
    if expected not in (None, found):
        raise UserError(
            "no-workspace",
            f"{expected} is not the workspace of {directory} any more, {found} is",
            "put its config back, or end vx and start it again",
        )
    return found


def _meant(
    workspace: "Workspace", graph: Graph, named: "tuple[TaskId, ...]"
) -> "tuple[TaskId, ...]":
    """The named tasks; in place of a group, however deep, what it stands for."""
    seen: dict[TaskId, bool] = {}
    ahead = [*reversed(named)]
    while ahead:
        task = ahead.pop()
        if task not in seen:
            seen[task] = workspace.task(task).command is not None
            if not seen[task]:
                ahead += reversed(graph.dependencies[task])
    return tuple(task for task, has_command in seen.items() if has_command)


def _known(
    workspace: "Workspace", options: Options, tolerate: Callable[[UserError], None]
) -> tuple[str, ...]:
    """The names that mean something; all of them when none does."""
    known: list[str] = []
    errors: list[UserError] = []
    for name in options.names:
        try:
            _select(workspace, options, (name,))
            known.append(name)
        except UserError as error:
            errors.append(error)
    if not known:
        return options.names
    for wrong in errors:
        tolerate(wrong)
    return tuple(known)


def _select(workspace: "Workspace", options: Options, names: tuple[str, ...]) -> Selection:
    here = os.path.relpath(options.directory, workspace.root)
    return select(
        workspace,
        names,
        directory="" if here == "." else here,
        everywhere=options.everywhere or options.affected is not None,
        filters=options.filters,
        changed=lambda commit: _changed_projects(workspace, commit),
    )


def _shared(workspace: "Workspace", paths: "Iterable[str]") -> set[str]:
    """The files that concern all projects: settings, and what programs among the configs look at."""
    read = {path for path in workspace.config_files if os.path.basename(path) not in NAMES}
    listed = {path for path in paths if os.path.dirname(path) in workspace.config_directories}
    return {SETTINGS, PROGRAM_SETTINGS, *read, *listed}


def _changed_projects(workspace: "Workspace", commit: str) -> set[str]:
    """The projects in whose directories a file differs from a commit."""
    from vxwatch.workspace.changes import Changes  # noqa: PLC0415 - few runs ask for it

    paths = Changes(workspace.root).since(commit)
    if not _shared(workspace, paths).isdisjoint(paths):
        return set(workspace.projects)
    found = (project_at(workspace, path.rpartition("/")[0]) for path in paths)
    return {project.name for project in found if project is not None}
