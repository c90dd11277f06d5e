"""Makes the graph of tasks out of what projects say, and finds what is wrong with it.

Pure, and linear in tasks and dependencies. `check` looks at the whole workspace and reports all
faults at once; `plan` takes a workspace that passed it.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from vxwatch.errors import Problem
from vxwatch.graph.names import Names, malformed
from vxwatch.graph.order import ordered
from vxwatch.model import Task, TaskId, Workspace
from vxwatch.nearest import nearest


class Graph(NamedTuple):
    """Some tasks and everything they depend on.

    `dependencies` and `dependents` hold direct neighbours and have an entry for every task;
    `order` has each task after all that it depends on.
    """

    dependencies: Mapping[TaskId, tuple[TaskId, ...]]
    dependents: Mapping[TaskId, tuple[TaskId, ...]]
    order: tuple[TaskId, ...]

    def downstream(self, tasks: Iterable[TaskId]) -> frozenset[TaskId]:
        """These tasks and all that depend on them, however far."""
        found = set(tasks)
        ahead = list(found)
        while ahead:
            fresh = [task for task in self.dependents[ahead.pop()] if task not in found]
            found.update(fresh)
            ahead.extend(fresh)
        return frozenset(found)


def plan(workspace: Workspace, requested: Iterable[TaskId]) -> Graph:
    """Everything requested and what it depends on.

    Raises:
        KeyError: A requested task does not exist.
        ValueError: Tasks depend on one another in a circle.
    """
    names = Names(workspace)
    dependencies: dict[TaskId, tuple[TaskId, ...]] = {}

    def edges(task: TaskId) -> tuple[TaskId, ...]:
        dependencies[task] = names.dependencies(workspace.task(task))
        return dependencies[task]

    order, circles = ordered(requested, edges)
    if circles:
        raise ValueError(f"tasks depend on one another: {' -> '.join(circles[0])}")
    dependents: dict[TaskId, list[TaskId]] = {task: [] for task in order}
    for task in order:
        for dependency in dependencies[task]:
            dependents[dependency].append(task)
    return Graph(
        dependencies, {task: tuple(above) for task, above in dependents.items()}, tuple(order)
    )


def check(workspace: Workspace) -> tuple[Problem, ...]:
    """Every fault in the `depends_on` of every task: names that mean nothing, and circles.

    `^name` that no dependency declares is no fault. The problems carry no line.
    """
    names = Names(workspace)
    problems: list[Problem] = []
    dependencies: dict[TaskId, tuple[TaskId, ...]] = {}
    for project in workspace.projects.values():
        for task in project.tasks.values():
            problems += _unknown(workspace, names, task)
            dependencies[task.id] = names.dependencies(task)
    _, circles = ordered(dependencies, dependencies.__getitem__)
    problems += (_circle(workspace, circle) for circle in circles)
    return tuple(problems)


def _unknown(workspace: Workspace, names: Names, task: Task) -> list[Problem]:
    problems = []
    for text in task.depends_on:
        reason = malformed(text)
        if reason:
            problems.append(_problem(workspace, task, f'"{text}": {reason}'))
        elif not text.startswith("^") and not names.resolve(text, task):
            message, hint = _explain(workspace, names, task, text)
            problems.append(_problem(workspace, task, message, hint))
    return problems


def _explain(workspace: Workspace, names: Names, task: Task, text: str) -> tuple[str, str]:
    owner = names.project(text, task)
    name = text.rpartition("#")[2]
    if owner == "//":
        return f'"{text}": the workspace has no root project', ""
    project = workspace.projects.get(owner)
    if project is None:
        near = nearest(owner, workspace.projects)
        return f'no project "{owner}" in the workspace', _meant(f"{near}#{name}" if near else "")
    if name.endswith(".*"):
        return f'no other task "{name}" in {owner}', ""
    near = nearest(name, project.tasks)
    prefix = text.removesuffix(name)
    return f'no task "{name}" in {owner}', _meant(prefix + near if near else "")


def _meant(name: str) -> str:
    return f"did you mean {name}?" if name else ""


def _circle(workspace: Workspace, circle: tuple[TaskId, ...]) -> Problem:
    tasks = [workspace.task(task) for task in circle]
    hint = "take one of these out of depends_on"
    if len({task.project for task in tasks}) > 1 and any(
        text.startswith("^") for task in tasks for text in task.depends_on
    ):
        hint += ", or one project out of the other's manifest"
    return _problem(workspace, tasks[0], f"depends on itself: {' -> '.join(circle)}", hint)


def _problem(workspace: Workspace, task: Task, message: str, hint: str = "") -> Problem:
    project = workspace.projects[task.project]
    file = project.config or next(iter(project.manifests), project.dir)
    return Problem(file, 0, f"tasks.{task.name}.depends_on", message, hint)
