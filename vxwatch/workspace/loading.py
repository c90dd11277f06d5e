"""Loads a workspace: settings, members, manifests and configs, then what concerns them together.

All faults are collected on the way and raised at the end. A step that would blame one file for
the fault of another is left out: dependencies are looked at only when all projects are known,
outputs only when all tasks are sound.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress

from vxwatch import globs
from vxwatch.config.concurrency import tasks_at_once
from vxwatch.config.configs import Configs
from vxwatch.config.faults import At, Faults
from vxwatch.config.load import Document, Reader
from vxwatch.config.presets import Presets
from vxwatch.config.settings import Settings, read_settings
from vxwatch.config.tasks import make_tasks, read_tags
from vxwatch.errors import ConfigError, Problem
from vxwatch.graph.names import Names, uncounted
from vxwatch.graph.tasks import check
from vxwatch.model import Project, Retention, Rules, Task, Workspace
from vxwatch.workspace.dependencies import npm_needs, python_needs, resolve
from vxwatch.workspace.evaluation import Evaluation
from vxwatch.workspace.git import Git, Ignores
from vxwatch.workspace.manifests import (
    PROGRAM,
    PROGRAM_SETTINGS,
    SETTINGS,
    Place,
    place_in,
    read_place,
    read_pnpm,
)
from vxwatch.workspace.members import Members, find_members
from vxwatch.workspace.outputs import check_outputs

Named = Mapping[str, Place]
TaskFault = tuple[Task, At, str, str]
"""The task, the place in its table, what is wrong, what to do."""

_SETTINGS = (SETTINGS, PROGRAM_SETTINGS)


def load(root: str, *, frozen: bool = False) -> Workspace:
    """The whole workspace below an absolute real path; `ConfigError` with every fault.

    `frozen`: programs have the values that `vx.lock` has.
    """
    with closing(Evaluation(Reader(root), frozen=frozen)) as evaluation:
        return assemble(evaluation)


def assemble(evaluation: Evaluation) -> Workspace:
    """The same, with programs evaluated as that does it."""
    reader = evaluation.reader
    root = reader.root
    shared, settings = _settings(evaluation)
    members, places = _places(evaluation, settings)
    evaluation.end()
    named = _named(reader, places)
    known = not reader.problems
    needed = _dependencies(named)
    configs = Configs(reader, shared, settings.presets)
    projects = {n: _project(configs, n, place, needed[n]) for n, place in named.items()}
    workspace = Workspace(
        root=root,
        projects=projects,
        root_project=next((p.name for p in projects.values() if not p.dir), None),
        config_files=tuple(dict.fromkeys((*reader.files, *reader.dangling))),
        config_directories=tuple(evaluation.directories),
        config_names=tuple(evaluation.names),
        member_parents=members.parents,
        bare_members=_bare(members, places),
        concurrency=_concurrency(settings),
        timeout=settings.timeout,
        affected_base=settings.affected_base,
        cache_dir=settings.cache_dir,
        cache_retention=Retention(**(settings.cache_retention or {})),
        rules=Rules(**(settings.rules or {})),
    )
    if known:
        _check_dependencies(configs, workspace, named)
    if not reader.problems:
        _check_counted(configs, workspace, named)
    if not reader.problems:
        tracked = _check_outputs(configs, workspace, named)
        workspace = workspace._replace(config_tracked=tracked)
    if not reader.problems and workspace.rules.upfront_keys:
        _check_inputs(configs, workspace, named)
    if reader.problems:
        problems = sorted(reader.problems, key=lambda p: (p.file, p.line))
        raise ConfigError(tuple(problems), workspace.config_files)
    return workspace


def located(workspace: Workspace, faults: Iterable[TaskFault]) -> tuple[Problem, ...]:
    """Faults of tasks with their files and lines.

    The configs were loaded just now, so they are read once more. What moved since has no line.
    """
    from vxwatch.config.lines import dotted  # noqa: PLC0415 - only faults have places

    with closing(Evaluation(Reader(workspace.root))) as evaluation:
        reader = evaluation.reader
        shared, settings = _settings(evaluation)
        configs = Configs(reader, shared, settings.presets)
        problems: list[Problem] = []
        for task, rest, message, hint in faults:
            file = workspace.projects[task.project].config or ""
            before = len(reader.problems)
            with suppress(LookupError, TypeError):
                document = _document(evaluation, file)
                if document is not None:
                    configs.note(document, task.name, rest, message, hint)
            at = dotted(("tasks", task.name, *rest))
            problems += reader.problems[before:] or [Problem(file, 0, at, message, hint)]
        return tuple(problems)


def _document(evaluation: Evaluation, file: str) -> Document | None:
    if file.endswith(PROGRAM):
        return evaluation.document(file)
    return evaluation.reader.toml(file, place_in(file))


def _settings(evaluation: Evaluation) -> tuple[Document | None, Settings]:
    reader = evaluation.reader
    found = (reader.toml(SETTINGS), evaluation.document(PROGRAM_SETTINGS))
    documents = [document for document in found if document]
    if not documents:
        is_broken = any(os.path.lexists(f"{reader.root}/{name}") for name in _SETTINGS)
        return None, Settings(Presets(None if is_broken else {}, Faults()))
    document, *others = documents
    if others:
        _refuse_second(reader, others[0], f"{SETTINGS} configures this workspace too")
    settings = reader.checked(document, read_settings)
    reader.checked(document, lambda _, faults: _check_members(reader.root, settings, faults))
    return document, settings


def _check_members(root: str, settings: Settings, faults: Faults) -> None:
    """A member that is spelled out has to be there; a glob may find nothing yet."""
    for i, pattern in enumerate(settings.members or ()):
        if pattern.startswith("!") or "{" in pattern:
            continue
        names = [globs.literal(part) for part in pattern.split("/")]
        path = None if None in names else "/".join(filter(None, names))
        if path is not None and not os.path.isdir(f"{root}/{path}"):
            faults.add(("members", i), f'"{pattern}": no such directory')


def _places(evaluation: Evaluation, settings: Settings) -> tuple[Members, list[Place]]:
    """The root, if it is a project, and the members in the order of their directories."""
    reader = evaluation.reader
    top = read_place(reader, "")
    patterns = settings.members
    if patterns is None:
        patterns = (*((top and top.members) or ()), *(read_pnpm(reader) or ()))
    members = find_members(reader.root, patterns)
    below = [read_place(reader, directory) for directory in members.directories if directory]
    places = [place for place in (top, *below) if place]
    evaluation.prepare(place.program for place in places if place.program)
    return members, [_evaluated(evaluation, place) for place in places]


def _bare(members: Members, places: Iterable[Place]) -> tuple[str, ...]:
    """The members that nothing makes a project yet."""
    return tuple(sorted({*members.directories}.difference(place.directory for place in places)))


def _evaluated(evaluation: Evaluation, place: Place) -> Place:
    """The place with the value of its program as a config, if it has one."""
    document = evaluation.document(place.program) if place.program else None
    return place._replace(configs=(*place.configs, document)) if document else place


def _named(reader: Reader, places: Iterable[Place]) -> dict[str, Place]:
    """The places by name. A root without config gives way to a member of the same name."""
    named: dict[str, Place] = {}
    for place in places:
        name = place.name or os.path.basename(f"{reader.root}/{place.directory}".rstrip("/"))
        other = named.get(name)
        if other and (other.directory or other.config):
            both = f"{other.directory or '.'} and {place.directory}"
            config = place.config.file if place.config else place.directory
            file = next(iter(place.manifests), config)
            hint = "give one of them another name in its manifest"
            reader.problem(file, 0, f'two projects are named "{name}": {both}', hint)
        else:
            named[name] = place
    return named


def _dependencies(named: Named) -> dict[str, tuple[str, ...]]:
    by_name = {name: name for name in named}
    for name, place in named.items():
        for alias in place.aliases:
            by_name.setdefault(alias, name)
    by_directory = {place.directory: name for name, place in named.items()}
    return {
        name: resolve(
            npm_needs(place.package, by_name) + python_needs(place.pyproject),
            place.directory,
            by_name,
            by_directory,
        )
        for name, place in named.items()
    }


def _project(configs: Configs, name: str, place: Place, dependencies: tuple[str, ...]) -> Project:
    tasks: dict[str, Task] = {}
    tags: tuple[str, ...] = ()
    config = place.config
    if config:
        tasks = make_tasks(name, configs.tasks(config))
        tags = configs.reader.checked(config, read_tags)
    for other in place.configs[1:]:
        first = config.file if config else ""
        _refuse_second(configs.reader, other, f"{first} configures this project too")
    return Project(
        name=name,
        dir=place.directory,
        manifests=place.manifests,
        config=config.file if config else None,
        dependencies=dependencies,
        tasks=tasks,
        tags=tags,
    )


def _refuse_second(reader: Reader, document: Document, message: str) -> None:
    faults = Faults()
    faults.add((), message, "keep one of the two")
    reader.note(document, faults)


def _concurrency(settings: Settings) -> int | None:
    if settings.concurrency is None:
        return None
    return tasks_at_once(settings.concurrency, len(os.sched_getaffinity(0)))


def _check_dependencies(configs: Configs, workspace: Workspace, named: Named) -> None:
    documents = {place.config.file: place.config for place in named.values() if place.config}
    for problem in check(workspace):
        task = problem.field.removeprefix("tasks.").removesuffix(".depends_on")
        document = documents[problem.file]
        configs.note(document, task, ("depends_on",), problem.message, problem.hint)


def _check_counted(configs: Configs, workspace: Workspace, named: Named) -> None:
    """What is spelled out in `cache.inputs.tasks` is a task that this one depends on."""
    names = Names(workspace)
    for project in workspace.projects.values():
        for task in project.tasks.values():
            for i, message, hint in uncounted(task, names) if task.input_tasks else ():
                document = named[project.name].config
                assert document is not None, "only a config declares inputs"
                configs.note(document, task.name, ("cache", "inputs", "tasks", i), message, hint)


def _check_outputs(configs: Configs, workspace: Workspace, named: Named) -> bool:
    """Whether it took git to say which files it tracks."""
    asked: list[Sequence[str]] = []

    def tracked(places: Sequence[str]) -> list[str]:
        asked.append(places)
        return Git(workspace.root).tracked(places)

    for task, field, message, hint in check_outputs(workspace, tracked):
        owner = workspace.task(task)
        document = named[owner.project].config
        assert document is not None, "only a config declares outputs"
        configs.note(document, owner.name, ("cache", "outputs", field), message, hint)
    return bool(asked)


def _check_inputs(configs: Configs, workspace: Workspace, named: Named) -> None:
    from vxwatch.workspace.inputs import check_inputs  # noqa: PLC0415 - only the rule needs it

    with closing(Ignores(workspace.root)) as ignores:
        for task, message, hint in check_inputs(workspace, ignores.ignored):
            owner = workspace.task(task)
            document = named[owner.project].config
            assert document is not None, "only a config declares inputs"
            configs.note(document, owner.name, ("cache", "inputs", "files"), message, hint)
