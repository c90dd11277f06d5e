"""Turns the task names of a command line into tasks. Pure.

Every name has to mean something: a wrong one is an error with the nearest right one, never a
task less. Names stand in the order given, each task once.
"""

from collections.abc import Sequence
from typing import NamedTuple

from vxwatch.errors import UserError
from vxwatch.model import Project, TaskId, Workspace
from vxwatch.nearest import nearest
from vxwatch.workspace.filters import Changed, filtered, there_are


class Selection(NamedTuple):
    """The requested tasks. `broad`: projects were selected with `--all` or `--filter`."""

    tasks: tuple[TaskId, ...]
    broad: bool


def select(
    workspace: Workspace,
    names: Sequence[str],
    *,
    directory: str,
    everywhere: bool,
    filters: Sequence[str],
    changed: Changed = lambda _: (),
) -> Selection:
    """What the names mean in a directory of the workspace ("" for its root).

    `project#task` and `//#task` stand for themselves. A plain name is taken in the project of
    the directory; with `everywhere` in each project that has it, with `filters` in each of
    those that the filters select. `changed` is asked where a filter names a commit.
    Raises `UserError`.
    """
    broad = everywhere or bool(filters)
    chosen: Sequence[Project] | None = None
    if broad:
        chosen = filtered(workspace, filters, directory, changed)
    found: dict[TaskId, None] = {}
    for name in names:
        if "#" in name:
            found[_exact(workspace, name)] = None
        elif chosen is None:
            found[_here(workspace, name, directory)] = None
        else:
            found.update(dict.fromkeys(_across(workspace, name, chosen)))
    return Selection(tuple(found), broad)


def project_at(workspace: Workspace, directory: str) -> Project | None:
    """The innermost project that contains a directory."""
    around = [p for p in workspace.projects.values() if _contains(p.dir, directory)]
    return max(around, key=lambda project: len(project.dir), default=None)


def _contains(outer: str, inner: str) -> bool:
    return outer in ("", inner) or inner.startswith(f"{outer}/")


def _exact(workspace: Workspace, text: str) -> TaskId:
    owner, _, name = text.rpartition("#")
    if owner == "//" and workspace.root_project is None:
        raise UserError(
            "unknown-project",
            f"{text}: the root of the workspace is no project",
            "put a vx.toml beside the workspace's manifest",
        )
    owner = workspace.root_project or owner if owner == "//" else owner
    project = workspace.projects.get(owner)
    if project is None:
        near = nearest(owner, workspace.projects)
        hint = f"did you mean {near}#{name}?" if near else there_are("projects", workspace.projects)
        raise UserError("unknown-project", f'{text}: there is no project "{owner}"', hint)
    if name not in project.tasks:
        near = nearest(name, project.tasks)
        hint = f"did you mean {owner}#{near}?" if near else there_are("tasks", project.tasks)
        raise UserError("unknown-task", f'{text}: {owner} has no task "{name}"', hint)
    return f"{owner}#{name}"


def _here(workspace: Workspace, name: str, directory: str) -> TaskId:
    project = project_at(workspace, directory)
    if project is None:
        raise UserError(
            "no-project",
            f"{directory or 'the root of the workspace'} belongs to no project",
            _elsewhere(workspace, name)
            or "go into a project, or select projects with --all or --filter",
        )
    if name in project.tasks:
        return f"{project.name}#{name}"
    near = nearest(name, project.tasks)
    hint = f"did you mean {near}?" if near else _elsewhere(workspace, name)
    raise UserError(
        "unknown-task",
        f'there is no task "{name}" in {project.name}',
        hint or there_are("tasks", project.tasks),
    )


def _across(workspace: Workspace, name: str, chosen: Sequence[Project]) -> list[TaskId]:
    found = [f"{project.name}#{name}" for project in chosen if name in project.tasks]
    if found:
        return found
    known = {task: None for project in chosen for task in project.tasks}
    near = nearest(name, known)
    where = "any project" if len(chosen) == len(workspace.projects) else "the selected projects"
    hint = f"did you mean {near}?" if near else there_are("tasks", known)
    raise UserError("unknown-task", f'there is no task "{name}" in {where}', hint)


def _elsewhere(workspace: Workspace, name: str) -> str:
    having = [p.name for p in workspace.projects.values() if name in p.tasks]
    if not having:
        return ""
    who = f"{having[0]} has it"
    if len(having) > 1:
        who = f"{having[0]} and {len(having) - 1} more have it"
    return f"{who}: name it {having[0]}#{name}, or select projects with --all or --filter"
