"""Finds what a path concerns without asking every project or task.

`Owners` climbs from a path to the project that holds it; `Spread` finds the workspace-wide
patterns of many tasks by the places they begin at. Both cost the depth of the path.
"""

from collections.abc import Collection, Iterable, Iterator

from vxwatch.globs import Matcher
from vxwatch.model import Project, TaskId


class Matchers(dict[tuple[str, ...], Matcher]):
    """One matcher for each list of patterns, however many tasks share it."""

    def __missing__(self, patterns: tuple[str, ...]) -> Matcher:
        matcher = self[patterns] = Matcher(patterns)
        return matcher


def upward(path: str) -> Iterator[str]:
    """The path itself, then each directory that holds it, to the root ("")."""
    while path:
        yield path
        path = path.rpartition("/")[0]
    yield ""


def outermost(places: Collection[str]) -> list[str]:
    """Those of the places that lie in no other of them, sorted."""
    known = {*places}
    return sorted(place for place in known if known.isdisjoint([*upward(place)][1:]))


def meeting(these: Collection[str], those: Collection[str]) -> list[str]:
    """The places that lie in places of both kinds."""
    first, second = {*these}, {*those}
    return outermost(
        [place for place in first if not second.isdisjoint(upward(place))]
        + [place for place in second if not first.isdisjoint(upward(place))]
    )


class Owners:
    """The project that a path belongs to: the deepest one whose directory holds it."""

    def __init__(self, projects: Iterable[Project]) -> None:
        self._at = {project.dir: project for project in projects}
        self._known: dict[str, Project | None] = {}

    @property
    def directories(self) -> Collection[str]:
        """Where the projects lie."""
        return self._at.keys()

    def of(self, path: str) -> Project | None:
        """The owner of a file or directory; None when no project holds it."""
        if path in self._at:
            return self._at[path]
        directory = path.rpartition("/")[0]
        if directory not in self._known:
            self._known[directory] = next(
                (self._at[above] for above in upward(directory) if above in self._at), None
            )
        return self._known[directory]


class Spread:
    """The patterns of many tasks that are relative to the root of the workspace."""

    def __init__(
        self, patterns: Iterable[tuple[TaskId, tuple[str, ...]]], matchers: Matchers
    ) -> None:
        tasks: dict[tuple[str, ...], list[TaskId]] = {}
        for task, own in patterns:
            if own:
                tasks.setdefault(own, []).append(task)
        self._at: dict[str, list[tuple[Matcher, list[TaskId]]]] = {}
        for own, sharing in tasks.items():
            for root in matchers[own].roots():
                self._at.setdefault(root, []).append((matchers[own], sharing))

    @property
    def roots(self) -> Collection[str]:
        """The places outside of which nothing matches."""
        return self._at.keys()

    def near(self, directory: str) -> Iterable[TaskId]:
        """The tasks whose patterns may match below a directory, each once."""
        found: dict[TaskId, None] = {}
        for place, declared in self._at.items():
            if place in upward(directory) or directory in upward(place):
                for _, tasks in declared:
                    found.update(dict.fromkeys(tasks))
        return found

    def tasks(self, path: str) -> Iterable[TaskId]:
        """The tasks whose patterns match the path, each once."""
        if not self._at:
            return ()
        found: dict[TaskId, None] = {}
        for place in upward(path):
            for matcher, tasks in self._at.get(place, ()):
                if matcher.matches(path):
                    found.update(dict.fromkeys(tasks))
        return found


class Outputs:
    """What the tasks of one project declare as output in it."""

    def __init__(self, project: Project, matchers: Matchers) -> None:
        self._project = project
        self._declared = [
            (task.id, matchers[task.outputs.files])
            for task in project.tasks.values()
            if task.outputs and task.outputs.files
        ]
        # One test in C spares the matching of nearly every path.
        self._roots = tuple(
            inside(project, root) for _, matcher in self._declared for root in matcher.roots()
        )

    def writers(self, path: str) -> list[TaskId]:
        """The tasks that declare a path, which the project owns, as output."""
        if not path.startswith(self._roots):
            return []
        own = relative(self._project, path)
        return [task for task, matcher in self._declared if matcher.matches(own)]


def relative(project: Project, path: str) -> str:
    """The path, which lies in the project, as its patterns see it."""
    return path[len(project.dir) + 1 :] if project.dir else path


def inside(project: Project, path: str) -> str:
    """The path that the project calls so, as the workspace sees it."""
    return "/".join(part for part in (project.dir, path) if part)
