"""Says which tasks a string of `depends_on` means.

`name` and `name.*` are tasks of the same project, `pkg#name` of another, `//#name` of the root
project. `^name` is the task in the nearest workspace dependencies that declare it: a dependency
that does not is passed through to its own. A whole workspace is resolved in time linear in its
strings, because what `^name` means below each project is worked out once per name.
"""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from vxwatch.graph.order import ordered
from vxwatch.model import Project, Task, TaskId, Workspace
from vxwatch.nearest import nearest


def malformed(text: str) -> str | None:
    """Why this string can never name a task; None when it can."""
    name = text.removeprefix("^")
    if name.startswith("^") or (text.startswith("^") and "#" in name):
        return "^ stands before the plain name of a task"
    name = name.rpartition("#")[2]
    if not name:
        return "names no task"
    if "*" in name and ("*" in name[:-1] or not name.endswith(".*") or name == ".*"):
        return "the only pattern is name.*"
    return None


def counts(task: Task, other: TaskId) -> bool:
    """Whether the key of a task that this one depends on is part of its own."""
    if task.input_tasks is None:
        return True
    owner, _, name = other.rpartition("#")
    near = owner == task.project
    return any(
        fnmatchcase(other, pattern)
        if "#" in pattern
        else pattern.startswith("^") != near and fnmatchcase(name, pattern.removeprefix("^"))
        for pattern in task.input_tasks
    )


def uncounted(task: Task, names: "Names") -> Iterator[tuple[int, str, str]]:
    """The names spelled out in `input_tasks` that mean no dependency: where, what, and a hint."""
    dependencies = names.dependencies(task)
    for i, name in enumerate(task.input_tasks or ()):
        if "*" in name or name.startswith("^"):
            continue
        if not any(counts(task._replace(input_tasks=(name,)), other) for other in dependencies):
            near = nearest(name, [other.removeprefix(f"{task.project}#") for other in dependencies])
            hint = f"did you mean {near}?" if near else "add it to depends_on, or take it out"
            yield i, f'"{name}" is no task that this one depends on', hint


class Names:
    """The meaning of dependency strings in one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._projects = workspace.projects
        self._root = workspace.root_project
        self._nearest: dict[str, dict[str, tuple[TaskId, ...]]] = {}
        self._bottom_up: list[str] | None = None

    def project(self, text: str, task: Task) -> str:
        """The project that a string without `^` points into; it may not exist."""
        owner, mark, _ = text.rpartition("#")
        if not mark:
            return task.project
        return (self._root or "//") if owner == "//" else owner

    def resolve(self, text: str, task: Task) -> tuple[TaskId, ...]:
        """The tasks that `text` means in `depends_on` of `task`, never the task itself."""
        if text.startswith("^"):
            return self._below(text[1:])[task.project]
        found = self._declared(self.project(text, task), text.rpartition("#")[2])
        if found and text.endswith(".*"):
            return tuple(other for other in found if other != task.id)
        return found

    def dependencies(self, task: Task) -> tuple[TaskId, ...]:
        """Everything that `task` depends on directly, in the order of its strings."""
        if not task.depends_on:
            return ()
        found = [other for text in task.depends_on for other in self.resolve(text, task)]
        return tuple(dict.fromkeys(found))

    def _declared(self, project_name: str, name: str) -> tuple[TaskId, ...]:
        project = self._projects.get(project_name)
        if project is None:
            return ()
        if name.endswith(".*"):
            return tuple(
                f"{project_name}#{own}" for own in project.tasks if own.startswith(name[:-1])
            )
        return (f"{project_name}#{name}",) if name in project.tasks else ()

    def _below(self, name: str) -> dict[str, tuple[TaskId, ...]]:
        """What `^name` means in each project."""
        known = self._nearest.get(name)
        if known is None:
            known = self._nearest[name] = {}
            for project in self._from_the_bottom():
                known[project] = self._collect(self._projects[project], name, known)
        return known

    def _collect(
        self, project: Project, name: str, known: dict[str, tuple[TaskId, ...]]
    ) -> tuple[TaskId, ...]:
        """The nearest declarations below one project.

        Those of its dependencies are `known` unless manifests depend on one another in a
        circle; such a knot is searched from each of its projects.
        """
        found: dict[TaskId, None] = {}
        seen = {project.name}
        ahead = list(reversed(project.dependencies))
        while ahead:
            below = ahead.pop()
            if below in seen or below not in self._projects:
                continue
            seen.add(below)
            here = self._declared(below, name)
            if here or below in known:
                found.update(dict.fromkeys(here or known[below]))
            else:
                ahead.extend(reversed(self._projects[below].dependencies))
        for own in self._declared(project.name, name):
            found.pop(own, None)
        return tuple(found)

    def _from_the_bottom(self) -> list[str]:
        if self._bottom_up is None:
            projects = self._projects
            self._bottom_up, _ = ordered(
                projects, lambda name: [d for d in projects[name].dependencies if d in projects]
            )
        return self._bottom_up
