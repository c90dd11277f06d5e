"""Turns the task names of a command line into tasks. Pure.

Every name has to mean something: a wrong one is an error with the nearest right one, never a
task less. Names stand in the order given, each task once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vxwatch.errors import UserError
from vxwatch.globs import Matcher, escape
from vxwatch.model import Project, TaskId, Workspace
from vxwatch.nearest import nearest
from vxwatch.workspace.dependencies import joined

_NAMED = 4
"""How many names an error lists."""


@dataclass(frozen=True, slots=True)
class Selection:
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
) -> Selection:
    """What the names mean in a directory of the workspace ("" for its root).

    `project#task` and `//#task` stand for themselves. A plain name is taken in the project of
    the directory; with `everywhere` in each project that has it, with `filters` in each of
    those that one of the filters selects.
    Raises `UserError`.
    """
    broad = everywhere or bool(filters)
    chosen: Sequence[Project] | None = None
    if broad:
        chosen = _filtered(workspace, filters, directory)
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
        hint = (
            f"did you mean {near}#{name}?" if near else _there_are("projects", workspace.projects)
        )
        raise UserError("unknown-project", f'{text}: there is no project "{owner}"', hint)
    if name not in project.tasks:
        near = nearest(name, project.tasks)
        hint = f"did you mean {owner}#{near}?" if near else _there_are("tasks", project.tasks)
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
        hint or _there_are("tasks", project.tasks),
    )


def _across(workspace: Workspace, name: str, chosen: Sequence[Project]) -> list[TaskId]:
    found = [f"{project.name}#{name}" for project in chosen if name in project.tasks]
    if found:
        return found
    known = {task: None for project in chosen for task in project.tasks}
    near = nearest(name, known)
    where = "any project" if len(chosen) == len(workspace.projects) else "the selected projects"
    hint = f"did you mean {near}?" if near else _there_are("tasks", known)
    raise UserError("unknown-task", f'there is no task "{name}" in {where}', hint)


def _filtered(workspace: Workspace, filters: Sequence[str], directory: str) -> list[Project]:
    """The projects that any of the filters selects, in the order of the workspace."""
    projects = workspace.projects.values()
    if not filters:
        return list(projects)
    chosen: set[str] = set()
    for text in filters:
        found = {p.name for p in projects if _fits(text, p, directory)}
        if not found:
            raise _selects_nothing(workspace, text)
        chosen |= found
    return [p for p in projects if p.name in chosen]


def _fits(text: str, project: Project, directory: str) -> bool:
    """Whether a filter selects a project, by its name or by where it is."""
    path = text[1:-1] if text.startswith("{") and text.endswith("}") else None
    if path is None and (text in (".", "..") or text.startswith(("./", "../"))):
        path = text
    if path is None:
        return _is_named(project, text)
    place = joined(escape(directory), path)
    return place is not None and (not place or Matcher([place]).matches(project.dir))


def _is_named(project: Project, pattern: str) -> bool:
    """Whether a pattern is a project's name; `*` stands for the scope of a name too."""
    matcher = Matcher([pattern.replace("/", "\0")] if pattern else ())
    return matcher.matches(project.name.replace("/", "\0"))


def _selects_nothing(workspace: Workspace, text: str) -> UserError:
    near = nearest(text, workspace.projects)
    hint = f"did you mean {near}?" if near else _there_are("projects", workspace.projects)
    return UserError("unknown-project", f'--filter "{text}" selects no project', hint)


def _elsewhere(workspace: Workspace, name: str) -> str:
    having = [p.name for p in workspace.projects.values() if name in p.tasks]
    if not having:
        return ""
    who = f"{having[0]} has it"
    if len(having) > 1:
        who = f"{having[0]} and {len(having) - 1} more have it"
    return f"{who}: name it {having[0]}#{name}, or select projects with --all or --filter"


def _there_are(what: str, names: Iterable[str]) -> str:
    known = sorted(names)
    if not known:
        return f"there are no {what}"
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    return f"the {what} are {', '.join(known[:_NAMED])}{more}"
