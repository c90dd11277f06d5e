"""Finds outputs that would destroy something: another task's, or sources that git tracks.

Decides from patterns alone; only for tasks that may read what they write does it ask which
files git tracks. Reports what is found and what to write instead, removes nothing.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, islice
from typing import NamedTuple

from vxwatch.globs import Matcher, overlap, rooted
from vxwatch.graph.places import Owners
from vxwatch.graph.tasks import plan
from vxwatch.model import Globs, Project, Task, TaskId, Workspace

Tracked = Callable[[Sequence[str]], Iterable[str]]
"""The files git tracks in some directories, relative to the root."""

Fault = tuple[TaskId, str, str, str]
"""The task, the list of its outputs, what is wrong, what to do."""

EVERYTHING = Globs(("**",))
_APART = "give each a place of its own"
_IN_ORDER = f"let one depend on the other, or {_APART}"


class _Claim(NamedTuple):
    """One list of outputs of one task, with its patterns as the config has them."""

    task: Task
    project: Project
    wide: bool
    patterns: tuple[str, ...]

    @property
    def rooted(self) -> tuple[str, ...]:
        """The patterns, relative to the root."""
        return self.patterns if self.wide else rooted(self.project.dir, self.patterns)

    def fault(self, message: str, hint: str) -> Fault:
        """What is wrong with these outputs."""
        return self.task.id, "workspace_files" if self.wide else "files", message, hint


def check_outputs(workspace: Workspace, tracked: Tracked) -> Iterator[Fault]:
    """Outputs that overlap, in an order only if the rules allow that, and that cover sources.

    Expects a workspace whose dependencies are sound.
    """
    claims = [claim for project in workspace.projects.values() for claim in _claims(project)]
    yield from _overlaps(workspace, claims)
    yield from _sources(workspace, claims, tracked)


def _claims(project: Project) -> Iterator[_Claim]:
    for task in project.tasks.values():
        if task.outputs and task.outputs.files:
            yield _Claim(task, project, False, task.outputs.files)
        if task.outputs and task.outputs.workspace_files:
            yield _Claim(task, project, True, task.outputs.workspace_files)


def _overlaps(workspace: Workspace, claims: Sequence[_Claim]) -> Iterator[Fault]:
    for one, other in _rivals(claims):
        pair = _meeting(one, other)
        if not pair:
            continue
        exclusive = workspace.rules.exclusive_outputs
        said = f'"{pair[1]}" overlaps "{pair[0]}" of {one.task.id}'
        if not _ordered(workspace, one.task.id, other.task.id):
            yield other.fault(
                f"{said}, and neither runs after the other", _APART if exclusive else _IN_ORDER
            )
        elif exclusive:
            yield other.fault(f"{said}: each begins by removing what the other made", _APART)


def _meeting(one: _Claim, other: _Claim) -> tuple[str, str] | None:
    """The first two patterns, as the configs have them, that can match the same path."""
    if one.wide is other.wide:
        return overlap(one.patterns, other.patterns)
    pair = overlap(one.rooted, other.rooted)
    if pair is None:
        return None
    return one.patterns[one.rooted.index(pair[0])], other.patterns[other.rooted.index(pair[1])]


def _rivals(claims: Sequence[_Claim]) -> Iterator[tuple[_Claim, _Claim]]:
    """Pairs of different tasks that can meet.

    `files` stop at nested projects, so those of two projects cannot.
    """
    groups: dict[str, list[_Claim]] = {}
    for claim in claims:
        groups.setdefault(claim.project.name, []).append(claim)
    pairs: list[Iterable[tuple[_Claim, _Claim]]] = [
        combinations(group, 2) for group in groups.values() if len(group) > 1
    ]
    for i, one in enumerate(claims):
        if one.wide:
            others = [c for j, c in enumerate(claims) if j > i or not c.wide]
            pairs.append([(one, c) for c in others if c.project is not one.project])
    return (pair for group in pairs for pair in group if pair[0].task is not pair[1].task)


def _ordered(workspace: Workspace, one: TaskId, other: TaskId) -> bool:
    return other in plan(workspace, (one,)).order or one in plan(workspace, (other,)).order


def _sources(workspace: Workspace, claims: Iterable[_Claim], tracked: Tracked) -> Iterator[Fault]:
    """Outputs that match files which git tracks and the task reads."""
    known: dict[tuple[object, ...], bool] = {}
    suspects = [claim for claim in claims if _may_read(claim, known)]
    roots = {root for claim in suspects for root in Matcher(claim.rooted).roots()}
    paths = sorted(tracked(sorted(roots))) if roots else []
    owners = Owners(workspace.projects.values())
    for claim in suspects if paths else ():
        path = next((p for p in _covered(claim, paths) if _reaches(claim, p, owners)), None)
        if path is not None:
            yield claim.fault(
                f"covers {path}, which git tracks and the task itself reads",
                "name only what the task makes; one that rewrites sources has outputs = []",
            )


def _may_read(claim: _Claim, known: dict[tuple[object, ...], bool]) -> bool:
    """Whether the task may read what it writes. Tasks of many projects share their patterns."""
    inputs = claim.task.inputs or EVERYTHING
    if claim.wide or inputs.workspace_files:
        return any(overlap(claim.rooted, patterns) for patterns in _inputs(claim))
    question = (claim.patterns, inputs.files)
    if question not in known:
        known[question] = overlap(*question) is not None
    return known[question]


def _inputs(claim: _Claim) -> tuple[tuple[str, ...], ...]:
    """The lists of patterns that the task reads by, relative to the root."""
    inputs = claim.task.inputs or EVERYTHING
    return rooted(claim.project.dir, inputs.files), inputs.workspace_files


def _covered(claim: _Claim, paths: Sequence[str]) -> Iterator[str]:
    """The files, of a sorted list, that the outputs match and the inputs too."""
    outputs = Matcher(claim.rooted)
    inputs = [Matcher(patterns) for patterns in _inputs(claim)]
    for root in outputs.roots():
        for path in islice(paths, bisect_left(paths, root), None):
            if not path.startswith(root):
                break
            if outputs.matches(path) and any(matcher.matches(path) for matcher in inputs):
                yield path


def _reaches(claim: _Claim, path: str, owners: Owners) -> bool:
    """Whether the claim extends to the path: `files` stop at nested projects."""
    return claim.wide or owners.of(path) is claim.project
