"""What a `--filter` means: one line of text, read into a value, and the projects it selects. Pure.

web, @acme/*            by name; `*` stands for a scope too
./apps, {apps/web}      by directory, with everything below it
tag:ui                  by a tag of its config
[main]                  by a change since that commit of git
{apps}[main]            both
web..., ...web          with what it depends on; with what depends on it
web^..., ...^web        those alone, without it
!web                    taken out of what the others select, or of everything
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from vxwatch.errors import UserError
from vxwatch.globs import Matcher, escape
from vxwatch.model import Project, Workspace
from vxwatch.nearest import nearest
from vxwatch.workspace.dependencies import joined

Changed = Callable[[str], Collection[str]]
"""The names of the projects that differ from a commit of git."""

TAG = "tag:"
_NAMED = 4
_PARTS = r"(?s)(?P<name>[^{}\[\]]*)(?P<directory>\{[^{}]*\})?(?P<commit>\[[^\[\]]+\])?"


class Filter(NamedTuple):
    """One filter. `text` is as it was written; None where it does not ask for that."""

    text: str
    name: str | None
    directory: str | None
    commit: str | None
    dependencies: bool = False
    dependents: bool = False
    itself: bool = True
    out: bool = False


def parse(text: str) -> Filter:
    """The filter that the text means. Raises `UserError`."""
    rest, out = text.removeprefix("!"), text.startswith("!")
    core = rest.removeprefix("...").removesuffix("...")
    dependents, dependencies = rest.startswith("..."), rest.removeprefix("...").endswith("...")
    alone = (dependents and core.startswith("^")) or (dependencies and core.endswith("^"))
    if dependents:
        core = core.removeprefix("^")
    if dependencies:
        core = core.removesuffix("^")
    parts = re.fullmatch(_PARTS, core)
    if parts is None or not core:
        raise _malformed(text)
    name, directory, commit = parts["name"] or None, parts["directory"], parts["commit"]
    if name and (name in (".", "..") or name.startswith(("./", "../"))):
        if directory:
            raise _malformed(text)
        name, directory = None, f"{{{name}}}"
    return Filter(
        text,
        name,
        directory and directory[1:-1],
        commit and commit[1:-1],
        dependencies,
        dependents,
        itself=not alone,
        out=out,
    )


def filtered(
    workspace: Workspace, texts: Sequence[str], directory: str, changed: Changed
) -> list[Project]:
    """The projects that the filters select together, in the order of the workspace.

    Raises `UserError`, also for a filter that selects nothing by name or directory.
    """
    filters = [parse(text) for text in texts]
    chosen = set(workspace.projects) if all(one.out for one in filters) else set[str]()
    for one in filters:
        if not one.out:
            chosen |= _selected(workspace, one, directory, changed)
    for one in filters:
        if one.out:
            chosen -= _selected(workspace, one, directory, changed)
    return [project for project in workspace.projects.values() if project.name in chosen]


def _selected(workspace: Workspace, one: Filter, directory: str, changed: Changed) -> set[str]:
    projects = workspace.projects.values()
    found = {project.name for project in projects if _fits(one, project, directory)}
    if not found:
        raise _selects_nothing(workspace, one)
    if one.commit is not None:
        found.intersection_update(changed(one.commit))
    around: set[str] = set()
    if one.dependencies:
        around |= _reached(found, {p.name: p.dependencies for p in projects})
    if one.dependents:
        around |= _reached(found, _dependents(projects))
    return found | around if one.itself else around - found


def _reached(start: Iterable[str], leads: Mapping[str, Iterable[str]]) -> set[str]:
    """Where one comes from the start, however far; the start itself only by a circle."""
    found: set[str] = set()
    ahead = [*start]
    while ahead:
        fresh = [name for name in leads.get(ahead.pop(), ()) if name not in found]
        found.update(fresh)
        ahead += fresh
    return found


def _dependents(projects: Iterable[Project]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for project in projects:
        for dependency in project.dependencies:
            found.setdefault(dependency, []).append(project.name)
    return found


def _fits(one: Filter, project: Project, directory: str) -> bool:
    """Whether a filter selects a project by its name, its tags and where it is."""
    if one.name is not None and not _is_named(one.name, project):
        return False
    if one.directory is None:
        return True
    place = joined(escape(directory), one.directory)
    return place is not None and (not place or Matcher([place]).matches(project.dir))


def _is_named(pattern: str, project: Project) -> bool:
    """Whether a pattern is a project's name or one of its tags."""
    wanted = pattern.removeprefix(TAG)
    names = (project.name,) if wanted == pattern else project.tags
    # One pattern may stand for a name with a scope: a slash separates nothing here.
    matcher = Matcher([wanted.replace("/", "\0")] if wanted else ())
    return any(matcher.matches(name.replace("/", "\0")) for name in names)


def _malformed(text: str) -> UserError:
    return UserError(
        "bad-filter",
        f'--filter "{text}" is no filter',
        'write a name ("web", "@acme/*"), a directory ("./apps", "{apps/web}"), "tag:NAME" or '
        '"[COMMIT]"; "..." before or after it adds dependents or dependencies, "!" takes out',
    )


def _selects_nothing(workspace: Workspace, one: Filter) -> UserError:
    known: Iterable[str] = workspace.projects
    what, prefix = "projects", ""
    if one.name and one.name.startswith(TAG):
        known = {tag for project in workspace.projects.values() for tag in project.tags}
        what, prefix = "tags", TAG
    near = nearest((one.name or one.text).removeprefix(prefix), known)
    hint = f"did you mean {prefix}{near}?" if near else there_are(what, known)
    return UserError("unknown-project", f'--filter "{one.text}" selects no project', hint)


def there_are(what: str, names: Iterable[str]) -> str:
    """A hint that lists some of the names that would have been right."""
    known = sorted(names)
    if not known:
        return f"there are no {what}"
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    return f"the {what} are {', '.join(known[:_NAMED])}{more}"
