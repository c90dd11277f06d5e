"""What moved between two keys of a task, name by name.

Pure. Says names and ways (`added`, `changed`, `removed`), never values: those of the environment
are hashes anyway, and a command may spell out what nobody else shall read.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from vxwatch.cache.key import UNSET

Way = Literal["added", "changed", "removed"]
Components = Mapping[str, str]
"""What a key was made of, by name (`Key.components`)."""

LEVELS = 3
"""How far it is followed why a task moved that another depends on."""

_RANKS = ("schema", "config", "arguments", "env", "runtime", "file", "upstream")


@dataclass(frozen=True, slots=True)
class Moved:
    """One thing that is not what it was.

    `kind` is `file`, `env`, `config`, `arguments`, `runtime`, `upstream` or `schema` (of vx's own
    keys). For a variable, `added` and `removed` say that it was set or unset. `because` says for a
    task why it moved, as far as that is known.
    """

    kind: str
    name: str
    way: Way
    because: tuple["Moved", ...] = ()


def difference(
    before: Components,
    now: Components,
    components: Callable[[str], Components | None],
    levels: int = LEVELS,
) -> tuple[Moved, ...]:
    """What differs, in the order in which it is worth knowing. `components` knows older keys."""
    found = list(_differing(before, now, components, levels))
    return tuple(sorted(found, key=lambda one: (_RANKS.index(one.kind), one.name)))


def _differing(
    before: Components,
    now: Components,
    components: Callable[[str], Components | None],
    levels: int,
) -> Iterator[Moved]:
    for fact in before.keys() | now.keys():
        old, new = before.get(fact), now.get(fact)
        kind, _, name = fact.partition(":")
        if old == new or kind not in _RANKS:
            continue
        if kind == "env":
            old, new = _set(old), _set(new)
        because: tuple[Moved, ...] = ()
        if kind == "upstream" and old and new and levels:
            because = _upstream(old, new, components, levels - 1)
        yield Moved(kind, name, _way(old, new), because)


def _upstream(
    old: str, new: str, components: Callable[[str], Components | None], levels: int
) -> tuple[Moved, ...]:
    """Why a task moved. What follows a dot counts its runs, where nobody knows what it wrote."""
    first, second = components(old.partition(".")[0]), components(new.partition(".")[0])
    if first is None or second is None:
        return ()
    return difference(first, second, components, levels)


def _set(digest: str | None) -> str | None:
    return None if digest == UNSET else digest


def _way(old: str | None, new: str | None) -> Way:
    if old is None and new is not None:
        return "added"
    return "removed" if new is None and old is not None else "changed"
