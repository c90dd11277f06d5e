"""Workspaces as values, in few words, for tests of what is decided without files."""

from collections.abc import Mapping, Sequence
from typing import Any

from vxwatch.model import Globs, Project, Rules, Task, Workspace

Patterns = Sequence[str] | Globs | None


def project(
    name: str,
    tasks: Mapping[str, Mapping[str, Any]],
    *,
    needs: tuple[str, ...] = (),
    at: str | None = None,
) -> Project:
    """A project in the directory `at` (its name if None) whose tasks have these fields."""
    where = name if at is None else at
    inside = f"{where}/" if where else ""
    return Project(
        name=name,
        dir=where,
        manifests=(f"{inside}package.json",),
        config=f"{inside}vx.toml",
        dependencies=needs,
        tasks={
            task: Task(name, task, **{"command": f"run {task}", **fields})
            for task, fields in tasks.items()
        },
    )


def workspace(*projects: Project, root: str = "/work/space") -> Workspace:
    """A workspace of these projects; the one in the directory "" is its root project."""
    at_root = [each.name for each in projects if not each.dir]
    return Workspace(
        root=root,
        projects={each.name: each for each in projects},
        root_project=at_root[0] if at_root else None,
        config_files=tuple(each.config for each in projects if each.config),
    )


def files_task(
    name: str,
    inputs: Patterns = None,
    outputs: Patterns = None,
    after: Sequence[str] = (),
    project: str = "app",
) -> Task:
    """A task that takes and makes these files of its project."""

    def globs(patterns: Patterns) -> Globs | None:
        if patterns is None or isinstance(patterns, Globs):
            return patterns
        return Globs(tuple(patterns))

    return Task(
        project, name, "x", depends_on=tuple(after), inputs=globs(inputs), outputs=globs(outputs)
    )


def nested(tasks: Sequence[Task], rules: Rules | None = None) -> Workspace:
    """A workspace of the root, `app` and, inside that, `lib`, with these tasks."""
    directories = {"root": "", "app": "apps/app", "lib": "apps/app/lib"}
    projects = {
        name: Project(name, at, (), "x", (), {t.name: t for t in tasks if t.project == name})
        for name, at in directories.items()
    }
    return Workspace("/w", projects, "root", (), rules=rules or Rules())
