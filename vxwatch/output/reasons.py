"""The words for why a task runs: the values of `vx why` and `vx run --dry` as lines. Pure.

The values are those of the JSON forms, so that both say the same.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from vxwatch.output.text import code, duration

MOST = 10
"""Things of one kind that are named; the JSON form has all of them."""

MOST_PATHS = 3
"""Changed files that a line names, as at the end of a cycle."""

_NAMES = {
    "arguments": "what was given after --",
    "directory": "where its project lies",
    "schema": "what vx makes keys of",
}
_GRANTS = {"read", "write", "network", "host_ports"}
_WAYS = {"added": "is new", "removed": "is gone", "changed": "changed"}
_ENV_WAYS = {"added": "is set now", "removed": "is not set any more", "changed": "changed"}
_WOULD = {
    "run": "would run",
    "restore": "would be restored",
    "fresh": "is fresh",
    "start": "would be started",
    "nothing": "has nothing to run",
}


def why(value: Mapping[str, Any]) -> list[str]:
    """The answer to `vx why`, on one screen where few kinds of things moved."""
    task, moved, since = value["task"], value["moved"], value["since"]
    head = f"{task} {_WOULD[value['would']]}"
    if value["reason"]:
        head += f": {value['reason']}"
    found = [head]
    if moved:
        found += [f"since run {since}:", *_things(moved, 1)]
    elif since is not None:
        found.append(f"nothing moved since run {since}")
    if value["last"] is not None:
        found += _last(value["last"])
    if value["cycle"] is not None:
        found += _cycle(task, value["cycle"])
    if value["flaky"]:
        found.append(f"{task} is flaky: it failed and passed with the same inputs")
    return found


def dry(value: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """A task, what would become of it and why, for each task of `vx run --dry`."""
    return [(one["task"], one["would"], in_short(one)) for one in value["tasks"]]


def in_short(value: Mapping[str, Any]) -> str:
    """Why, in one line."""
    if value["reason"]:
        return str(value["reason"])
    moved = value["moved"]
    words = [f"{thing_name(one)} {_way(one)}" for one in moved[:2]]
    if len(moved) > len(words):
        words.append(f"{len(moved) - len(words)} more")
    return ", ".join(words)


def thing_name(moved: Mapping[str, Any]) -> str:
    """What moved, as its owner calls it."""
    kind, name = moved["kind"], str(moved["name"])
    if kind == "config":
        return setting(name)
    if kind == "runtime":
        return f'what "{name}" prints'
    if moved.get("part_of"):
        return f"{name}, in the part that concerns {moved['part_of']},"
    return _NAMES.get(kind, name)


def setting(name: str) -> str:
    """The config field behind a name of a key's facts."""
    head, _, rest = name.partition(".")
    if head == "sandbox":
        for group in ("deny", "ignore"):
            if rest.startswith(f"{group}_"):
                return f"sandbox.{group}.{rest.removeprefix(f'{group}_')}"
        return f"sandbox.allow.{rest}" if rest in _GRANTS else name
    if head.startswith("env_"):
        return f"env.{head.removeprefix('env_')}"
    return f"cache.{name}" if head in ("inputs", "outputs") else name


def _last(last: Mapping[str, Any]) -> Iterator[str]:
    yield f"run {last['run']}, {last['ago']} ago: {_ended(last)}"
    yield from _things(last["moved"], 1)


def _cycle(task: str, cycle: Mapping[str, Any]) -> Iterator[str]:
    """What the last cycle of a watch did about the task."""
    after = f", after {_some(cycle['paths'])}" if cycle["paths"] else ""
    yield f"cycle {cycle['number']} of run {cycle['run']}, {cycle['ago']} ago{after}:"
    status = cycle["status"]
    if status is None:
        why = f"it does not take {'that' if len(cycle['paths']) == 1 else 'any of these'}"
        yield f"  did not look at {task}, because {why}, nor builds on what does"
    elif status == "skipped":
        yield f"  skipped, because {cycle['detail']}"
    elif status in ("fresh", "kept"):
        yield f"  {status}: nothing that it is made of is another than before"
    elif not cycle["paths"]:
        yield f"  {status}: the first cycle looks at everything"
    elif cycle["takes"]:
        yield f"  {status}, because it takes {_some(cycle['takes'])}"
    else:
        yield f"  {status}, because of what it depends on"


def _some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - MOST_PATHS} more" if len(paths) > MOST_PATHS else ""
    return ", ".join(paths[:MOST_PATHS]) + more


def _ended(last: Mapping[str, Any]) -> str:
    words = [last["status"]]
    if last["code"]:
        words.append(f"with {code(last['code'])}")
    if last["seconds"]:
        words.append(f"in {duration(last['seconds'])}")
    if last["detail"]:
        words.append(f"- {last['detail']}")
    said = " ".join(words)
    if last["reason"]:
        return f"{said}, because {last['reason']}"
    return f"{said}, because" if last["moved"] else said


def _things(moved: Sequence[Mapping[str, Any]], depth: int) -> Iterator[str]:
    """What moved, line by line; of each kind the first few.

    Tasks that moved for the same reason are told of together.
    """
    for kind in dict.fromkeys(one["kind"] for one in moved):
        same = [one for one in moved if one["kind"] == kind]
        start = f"{'  ' * depth}{kind:<9}"
        for one in same[:MOST]:
            if not one["because"]:
                of = f" ({one['of']})" if one["of"] else ""
                yield f"{start} {thing_name(one)} {_way(one)}{of}"
        if len(same) > MOST:
            yield f"{start} and {len(same) - MOST} more"
        for names, because in _groups(same[:MOST]):
            yield f"{start} {', '.join(names)} changed, because"
            yield from _things(because, depth + 1)


def _groups(
    moved: Iterable[Mapping[str, Any]],
) -> Iterator[tuple[list[str], Sequence[Mapping[str, Any]]]]:
    """The names of those that moved for the same reason, and that."""
    left = [one for one in moved if one["because"]]
    while left:
        because = left[0]["because"]
        yield [one["name"] for one in left if one["because"] == because], because
        left = [one for one in left if one["because"] != because]


def _way(one: Mapping[str, Any]) -> str:
    return (_ENV_WAYS if one["kind"] == "env" else _WAYS)[one["way"]]
