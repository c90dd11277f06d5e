"""The kinds of config fields that hold others: lists, and tables with known or with free names.

They are kinds as those of `kinds` are, and report each fault at its own place. Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from vxwatch.config.faults import At, Faults, shown
from vxwatch.config.kinds import Kind, Schema, Text
from vxwatch.nearest import nearest


class ListOf:
    """A list of values of one kind, as a tuple. `unique`: none of them twice."""

    __slots__ = ("_item", "_unique")

    def __init__(self, item: Kind, *, unique: bool = False) -> None:
        self._item = item
        self._unique = unique

    def check(self, value: Any, at: At, faults: Faults) -> Any:
        """The items, checked."""
        if not isinstance(value, list):
            hint = f"write [{shown(value)}]" if isinstance(value, str | int) else ""
            faults.expected(at, "a list", value, hint)
            return ()
        items = [self._item.check(one, (*at, i), faults) for i, one in enumerate(value)]
        if self._unique:
            for i, one in enumerate(items):
                if one in items[:i]:
                    faults.add((*at, i), f"{shown(value[i])} is listed twice")
        return tuple(items)

    def schema(self) -> Schema:
        """An array."""
        unique = {"uniqueItems": True} if self._unique else {}
        return {"type": "array", "items": self._item.schema(), **unique}


class Globs:
    """A list of globs, of which at least one is not a `!` pattern, unless it is empty."""

    __slots__ = ("_list",)

    def __init__(self, glob: Text) -> None:
        self._list = ListOf(glob)

    def check(self, value: Any, at: At, faults: Faults) -> Any:
        """The patterns."""
        before = len(faults.found)
        patterns = self._list.check(value, at, faults)
        if patterns and len(faults.found) == before and all(p[0] == "!" for p in patterns):
            faults.add(at, 'only "!" patterns: there is nothing to take them back from')
        return patterns

    def schema(self) -> Schema:
        """An array that is empty or has a positive pattern."""
        positive = {"contains": {"pattern": "^[^!]"}}
        return {**self._list.schema(), "anyOf": [{"maxItems": 0}, positive]}


class Texts:
    """A table from names to texts, as pairs in the order written."""

    __slots__ = ("_name",)

    def __init__(self, name: Text) -> None:
        self._name = name

    def check(self, value: Any, at: At, faults: Faults) -> Any:
        """The pairs."""
        if not isinstance(value, dict):
            faults.expected(at, "a table", value)
            return ()
        for name, text in value.items():
            self._name.check(name, (*at, name), faults)
            if not isinstance(text, str):
                hint = f'write "{text}"' if isinstance(text, int | float) else ""
                faults.expected((*at, name), "a text", text, hint.replace("True", "true"))
            elif "\0" in text:
                faults.add((*at, name), "a NUL character cannot stand here")
        return tuple(value.items())

    def schema(self) -> Schema:
        """An object with string values."""
        return {
            "type": "object",
            "propertyNames": self._name.schema(),
            "additionalProperties": {"type": "string"},
        }


class Table:
    """A table with known fields: a name, its kind, and its description. Result: a dict.

    `rules` is what JSON Schema can say about fields that belong together.
    """

    __slots__ = ("_rules", "fields")

    def __init__(self, fields: Mapping[str, tuple[Kind, str]], rules: Schema | None = None) -> None:
        self.fields = fields
        self._rules = rules or {}

    def check(self, value: Any, at: At, faults: Faults) -> Any:
        """The known fields that are there, checked."""
        if not isinstance(value, dict):
            faults.expected(at, f"a table with {_listed(self.fields)}", value)
            return {}
        result: dict[str, Any] = {}
        for name, one in value.items():
            field = self.fields.get(name)
            if field is None:
                faults.add((*at, name), "unknown field", self._advice(name))
            else:
                result[name] = field[0].check(one, (*at, name), faults)
        return result

    def schema(self) -> Schema:
        """An object without other properties."""
        properties = {
            name: {"description": description, **kind.schema()}
            for name, (kind, description) in self.fields.items()
        }
        return {
            "type": "object",
            "properties": properties,
            "additionalProperties": False,
            **self._rules,
        }

    def paths(self) -> Iterator[str]:
        """The dotted names of all fields below this table, nearest first."""
        below = []
        for name, (kind, _) in self.fields.items():
            yield name
            if isinstance(kind, Table | ListOrTable):
                below += [f"{name}.{path}" for path in kind.paths()]
        yield from below

    def _advice(self, name: str) -> str:
        elsewhere = (path for path in self.paths() if path.endswith(f".{name}"))
        near = nearest(name, self.fields) or next(elsewhere, "")
        return f"did you mean {near}?" if near else f"expected {_listed(self.fields)}"


class ListOrTable:
    """A list as the short form of one field of a table. Result: the table's dict."""

    __slots__ = ("_field", "_list", "table")

    def __init__(self, field: str, table: Table) -> None:
        self._field = field
        self._list = table.fields[field][0]
        self.table = table

    def check(self, value: Any, at: At, faults: Faults) -> Any:
        """The table, also where the list was written."""
        if isinstance(value, dict):
            return self.table.check(value, at, faults)
        return {self._field: self._list.check(value, at, faults)}

    def written_out(self, value: Any) -> Any:
        """The table that a list is short for; anything else as it is."""
        return {self._field: value} if isinstance(value, list) else value

    def schema(self) -> Schema:
        """Either of the two."""
        return {"anyOf": [self._list.schema(), self.table.schema()]}

    def paths(self) -> Iterator[str]:
        """The dotted names below the table form."""
        return self.table.paths()


class Named:
    """A table from names that the user chooses to values of one kind. Result: a dict."""

    __slots__ = ("_name", "_value")

    def __init__(self, name: Text, value: Kind) -> None:
        self._name = name
        self._value = value

    def check(self, value: Any, at: At, faults: Faults) -> Any:
        """The values, checked, by name."""
        if not isinstance(value, dict):
            faults.expected(at, "a table", value)
            return {}
        for name in value:
            self._name.check(name, (*at, name), faults)
        return {name: self._value.check(one, (*at, name), faults) for name, one in value.items()}

    def schema(self) -> Schema:
        """An object whose values are alike."""
        return {
            "type": "object",
            "propertyNames": self._name.schema(),
            "additionalProperties": self._value.schema(),
        }


def _listed(names: Mapping[str, object]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last
