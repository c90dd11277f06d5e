"""What moved between two keys of a task, name by name.

Pure. Says names and ways (`added`, `changed`, `removed`), never values: those of the environment
are hashes anyway, and a command may spell out what nobody else shall read.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from vxwatch.cache.key import UNSET
from vxwatch.model import TaskId

Way = Literal["added", "changed", "removed"]
Components = Mapping[str, str]
"""What a key was made of, by name (`Key.components`)."""

Known = Callable[[str], Components | None]
"""Gives what a key was made of, None where nobody knows."""

_OF_FILES = ("file:", "config:inputs", "config:outputs")
_RANKS = ("schema", "config", "directory", "arguments", "env", "runtime", "file", "upstream")


@dataclass(frozen=True, slots=True)
class Moved:
    """One thing that is not what it was.

    `kind` is `file`, `env`, `config`, `directory` (of the project), `arguments`, `runtime`,
    `upstream` or `schema` (of vx's own keys). For a variable, `added` and `removed` say that it was
    set or unset. `because` says for an `upstream` task what moved first, however far away, each `of`
    the task that it belongs to.
    """

    kind: str
    name: str
    way: Way
    because: tuple["Moved", ...] = ()
    of: TaskId | None = None


def difference(before: Components, now: Components, known: Known) -> tuple[Moved, ...]:
    """What differs, in the order in which it is worth knowing."""
    return _sorted(
        replace(one, because=_roots(one.name, before[fact], now[fact], known))
        if one.kind == "upstream" and one.way == "changed"
        else one
        for fact, one in _differing(before, now)
    )


def direct_difference(before: Components, now: Components) -> tuple[Moved, ...]:
    """The same, without looking for what moved first."""
    return _sorted(one for _, one in _differing(before, now))


def _sorted(found: Iterable[Moved]) -> tuple[Moved, ...]:
    return tuple(sorted(found, key=lambda one: (_RANKS.index(one.kind), one.name, one.of or "")))


def _differing(before: Components, now: Components) -> Iterator[tuple[str, Moved]]:
    unseen = _unseen(before) or _unseen(now)
    for fact in sorted(before.keys() | now.keys()):
        old, new = before.get(fact), now.get(fact)
        kind, _, name = fact.partition(":")
        if old == new or kind not in _RANKS or (unseen and kind == "file"):
            continue
        if kind == "env":
            old, new = _set(old), _set(new)
        yield fact, Moved(kind, name, _way(old, new))


def _unseen(components: Components) -> bool:
    """Whether no file may have been looked at: the task declares none, and it was no watch."""
    return not any(fact.startswith(_OF_FILES) for fact in components)


def _roots(task: TaskId, old: str, new: str, known: Known) -> tuple[Moved, ...]:
    """What moved first behind a task that moved; nothing where that is not known."""
    found: set[Moved] = set()
    seen: set[tuple[str, str]] = set()
    ahead: list[tuple[TaskId | None, TaskId, str, str]] = [(None, task, old, new)]
    while ahead:
        above, task, old, new = ahead.pop()
        if (old, new) in seen:
            continue
        seen.add((old, new))
        first, second = _components(old, known), _components(new, known)
        if first is None or second is None or first == second:
            if above is not None:
                found.add(Moved("upstream", task, "changed", of=above))
            continue
        for fact, one in _differing(first, second):
            if one.kind == "upstream" and one.way == "changed":
                ahead.append((task, one.name, first[fact], second[fact]))
            else:
                found.add(replace(one, of=task))
    return _sorted(found)


def _components(digest: str, known: Known) -> Components | None:
    """What follows a dot counts the runs of a task of which nobody knows what it wrote."""
    return known(digest.partition(".")[0])


def _set(digest: str | None) -> str | None:
    return None if digest == UNSET else digest


def _way(old: str | None, new: str | None) -> Way:
    if old is None and new is not None:
        return "added"
    return "removed" if new is None and old is not None else "changed"
