"""The kinds of values that config fields hold, each with its check and its JSON Schema.

A kind turns a value of parsed TOML into the value of the model, or adds to `Faults` what was
found and what is expected; what it returns beside a fault must not be used. Pure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from vxwatch import durations, sizes
from vxwatch.nearest import nearest

At = tuple[str | int, ...]
"""Where a value stands in its document: keys and list positions."""

Schema = dict[str, Any]
Refuse = Callable[[str], str | None]
"""Says why a text cannot stand here, or None."""

_SHOWN = 60
_LAST_PORT = 65535


class Faults:
    """What is wrong with one document, in the order it was found."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: list[tuple[At, str, str]] = []

    def add(self, at: At, message: str, hint: str = "") -> None:
        """Note a fault and, where it helps, what to write instead."""
        self.found.append((at, message, hint))

    def expected(self, at: At, what: str, value: object, hint: str = "") -> None:
        """Note that a value is of the wrong kind."""
        self.add(at, f"expected {what}, found {shown(value)}", hint)


class Kind(Protocol):
    """One kind of value."""

    def check(self, value: Any, at: At, faults: Faults) -> Any:
        """The value of the model, or a fault."""

    def schema(self) -> Schema:
        """What editors check, as JSON Schema."""


class Text:
    """A text that is not empty. `what` names it in messages, `refuse` knows its finer rules."""

    __slots__ = ("_extra", "_refuse", "_what")

    def __init__(
        self, what: str, refuse: Refuse | None = None, extra: Schema | None = None
    ) -> None:
        self._what = what
        self._refuse = refuse
        self._extra = extra or {}

    def check(self, value: Any, at: At, faults: Faults) -> Any:
        """The text itself."""
        if not isinstance(value, str) or not value.strip():
            faults.expected(at, self._what, value)
        elif "\0" in value:
            faults.add(at, f"{shown(value)}: a NUL character cannot stand here")
        elif self._refuse and (reason := self._refuse(value)):
            faults.add(at, f"{shown(value)}: {reason}")
        return value

    def schema(self) -> Schema:
        """A string with at least one character that is no space."""
        return {"type": "string", "pattern": r"\S", **self._extra}


class Boolean:
    """`true` or `false`."""

    __slots__ = ()

    def check(self, value: Any, at: At, faults: Faults) -> Any:
        """The value itself."""
        if not isinstance(value, bool):
            faults.expected(at, "true or false", value)
        return value

    def schema(self) -> Schema:
        """A boolean."""
        return {"type": "boolean"}


class Duration:
    """A duration with its unit, as seconds. `zero` tells whether 0 means something."""

    __slots__ = ("_zero",)

    def __init__(self, *, zero: bool) -> None:
        self._zero = zero

    def check(self, value: Any, at: At, faults: Faults) -> Any:
        """The seconds."""
        try:
            seconds = durations.parse_duration(value)
        except ValueError as error:
            faults.add(at, f"{error}, found {shown(value)}")
            return 0.0
        if seconds == 0 and not self._zero:
            faults.add(at, "expected more than 0", "leave the field out for its default")
        return seconds

    def schema(self) -> Schema:
        """A string with a unit, or 0."""
        if self._zero:
            text = {"type": "string", "pattern": f"^(?:{durations.PATTERN})$"}
            return {"anyOf": [text, {"const": 0}]}
        return {"type": "string", "pattern": f"^(?=.*[1-9])(?:{durations.PATTERN})$"}


class Age:
    """How old something may grow, as seconds: a duration that may be days or weeks."""

    __slots__ = ()

    def check(self, value: Any, at: At, faults: Faults) -> Any:
        """The seconds."""
        try:
            return durations.parse_age(value)
        except ValueError as error:
            faults.add(at, f"{error}, found {shown(value)}")
            return 0.0

    def schema(self) -> Schema:
        """A string with a unit, or 0."""
        text = {"type": "string", "pattern": f"^(?:{durations.AGE_PATTERN})$"}
        return {"anyOf": [text, {"const": 0}]}


class Size:
    """An amount of bytes with its unit, as bytes."""

    __slots__ = ()

    def check(self, value: Any, at: At, faults: Faults) -> Any:
        """The bytes."""
        try:
            return sizes.parse_size(value)
        except ValueError as error:
            faults.add(at, f"{error}, found {shown(value)}")
            return 0

    def schema(self) -> Schema:
        """A string with a unit, or 0."""
        text = {"type": "string", "pattern": f"^(?:{sizes.PATTERN})$"}
        return {"anyOf": [text, {"const": 0}]}


class Port:
    """A TCP port."""

    __slots__ = ()

    def check(self, value: Any, at: At, faults: Faults) -> Any:
        """The number."""
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _LAST_PORT:
            faults.expected(at, f"a port from 1 to {_LAST_PORT}", value)
        return value

    def schema(self) -> Schema:
        """An integer in range."""
        return {"type": "integer", "minimum": 1, "maximum": _LAST_PORT}


class Count:
    """A whole number from 0 to `most`."""

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        self._most = most

    def check(self, value: Any, at: At, faults: Faults) -> Any:
        """The number."""
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= self._most:
            faults.expected(at, f"a number from 0 to {self._most}", value)
        return value

    def schema(self) -> Schema:
        """An integer in range."""
        return {"type": "integer", "minimum": 0, "maximum": self._most}


class OneOf:
    """One of a few names. `what` says in messages what they are names of."""

    __slots__ = ("_names", "_what")

    def __init__(self, what: str, names: Iterable[str]) -> None:
        self._what = what
        self._names = (*names,)

    def check(self, value: Any, at: At, faults: Faults) -> Any:
        """The name itself."""
        if value not in self._names:
            near = nearest(value.upper(), self._names) if isinstance(value, str) else ""
            one_of = f"one of {', '.join(self._names)}"
            faults.expected(at, self._what, value, f"did you mean {near}?" if near else one_of)
        return value

    def schema(self) -> Schema:
        """An enumeration."""
        return {"enum": [*self._names]}


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

    __slots__ = ("_field", "_list", "_table")

    def __init__(self, field: str, table: Table) -> None:
        self._field = field
        self._list = table.fields[field][0]
        self._table = table

    def check(self, value: Any, at: At, faults: Faults) -> Any:
        """The table, also where the list was written."""
        if isinstance(value, dict):
            return self._table.check(value, at, faults)
        return {self._field: self._list.check(value, at, faults)}

    def schema(self) -> Schema:
        """Either of the two."""
        return {"anyOf": [self._list.schema(), self._table.schema()]}

    def paths(self) -> Iterator[str]:
        """The dotted names below the table form."""
        return self._table.paths()


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


def shown(value: object) -> str:
    """A value as TOML writes it, cut short, for messages."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            text = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}..."
            return f'"{text}"'
        case int() | float():
            return str(value)[:_SHOWN]
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return f"a {type(value).__name__}"


def _listed(names: Mapping[str, object]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last
