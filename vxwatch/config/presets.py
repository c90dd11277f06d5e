"""Presets: task tables with a name, which tasks take with `extends` and go on from.

A table is merged with the one it extends before anything of it is checked, so that a task which
extends a preset is the same task as one that has it all written out. Every place in the merged
table stands in one of its layers, where its faults are told. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vxwatch.config.faults import At, Faults
from vxwatch.config.kinds import Kind
from vxwatch.config.schema import TASK
from vxwatch.config.tables import ListOrTable, Table
from vxwatch.nearest import nearest

FIELD = "extends"
NAME = "presets"


Misfit = tuple[At, str, str, str]
"""A fault that stands in a preset, but for a task alone: where, which task, what, and the hint."""


class Presets:
    """The presets of one workspace.

    `misfits` collects what `tell` finds to stand in a preset.
    """

    def __init__(self, tables: Mapping[str, Any] | None, faults: Faults) -> None:
        """`tables` are as TOML has them, None where a fault that is told hides them.

        `faults` is what is known of their document, and grows.
        """
        self.misfits: list[Misfit] = []
        self._hidden = tables is None
        self._tables = tables = tables or {}
        self._broken = {at[1] for at, _, _ in faults.found if at[:1] == (NAME,) and len(at) > 1}
        for name in tables:
            self._check_chain(name, faults)

    def merged(self, table: Any, at: At, faults: Faults) -> Any:
        """The table with what it extends; None where that cannot be told, which is told once."""
        if not isinstance(table, dict) or FIELD not in table:
            return table
        if self._hidden or not self._is_known(table[FIELD], (*at, FIELD), faults):
            return None
        names = [*self._chain(table)]
        if not self._broken.isdisjoint(names):
            return None
        whole: Any = {}
        for layer in (*(self._tables[name] for name in reversed(names)), table):
            own = {name: value for name, value in layer.items() if name != FIELD}
            whole = _merge(TASK, whole, own)
        return whole

    def tell(self, own: Any, task: str, rest: At, faults: Faults, message: str, hint: str) -> None:
        """Note a fault at `rest` in a task: where it stands in its `own` table, or in a preset."""
        layers = [(("tasks", task), own)]
        if isinstance(own, dict) and isinstance(own.get(FIELD), str):
            layers += [((NAME, name), self._tables[name]) for name in self._chain(own)]
        at, table = max(layers, key=lambda layer: _depth(layer[1], rest))
        place = (*at, *_as_written(table, rest))
        if at[0] == "tasks":
            faults.add(place, message, hint)
        else:
            self.misfits.append((place, task, message, hint))

    def _check_chain(self, name: str, faults: Faults) -> None:
        seen = [name]
        while isinstance(table := self._tables[seen[-1]], dict) and FIELD in table:
            above = table[FIELD]
            at = (NAME, name, FIELD)
            if above in seen:
                if above == name:
                    circle = " -> ".join((*seen, name))
                    faults.add(at, f"extends itself: {circle}", "take one of these out")
            elif self._is_known(above, at, faults if len(seen) == 1 else Faults()):
                seen.append(above)
                continue
            self._broken.add(name)
            return

    def _is_known(self, name: object, at: At, faults: Faults) -> bool:
        if not isinstance(name, str):
            return False  # the check of the field says it
        if name in self._tables:
            return True
        near = nearest(name, self._tables)
        none = f'add a [{NAME}."{name}"] table to vx.workspace.toml'
        known = f"the presets are {', '.join(self._tables)}" if self._tables else none
        faults.add(at, f'no preset "{name}"', f"did you mean {near}?" if near else known)
        return False

    def _chain(self, table: Mapping[str, Any]) -> Iterator[str]:
        """The presets that a table extends, nearest first; of a circle, each once."""
        seen: set[str] = set()
        while (name := table.get(FIELD)) in self._tables and name not in seen:
            assert isinstance(name, str)
            seen.add(name)
            yield name
            table = self._tables[name] if isinstance(self._tables[name], dict) else {}


def _merge(kind: Kind | None, base: Any, own: Any) -> Any:
    """Tables are merged name by name; of all else, lists too, the own value counts."""
    if isinstance(kind, ListOrTable) and dict in (type(base), type(own)):
        base, own, kind = kind.written_out(base), kind.written_out(own), kind.table
    if not isinstance(base, dict) or not isinstance(own, dict):
        return own
    fields = kind.fields if isinstance(kind, Table) else {}
    return {
        **base,
        **{
            name: _merge(fields[name][0] if name in fields else None, base[name], value)
            if name in base
            else value
            for name, value in own.items()
        },
    }


def _as_written(table: Any, rest: At) -> At:
    """The way to a place, but no further than to a list that is short for a table."""
    depth = _depth(table, rest)
    for step in rest[:depth]:
        table = table[step]
    return rest[:depth] if _is_short(table, rest[depth:]) else rest


def _is_short(value: Any, rest: At) -> bool:
    return isinstance(value, list) and bool(rest) and isinstance(rest[0], str)


def _depth(value: Any, rest: Sequence[str | int]) -> int:
    """How far the way leads in a table."""
    for depth, step in enumerate(rest):
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return depth
    return len(rest)
