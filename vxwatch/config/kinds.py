"""The kinds of single values that config fields hold, each with its check and its JSON Schema.

A kind turns a value of parsed TOML into the value of the model, or adds to `Faults` what was
found and what is expected; what it returns beside a fault must not be used. Pure.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from vxwatch import durations, sizes
from vxwatch.config.faults import At, Faults, shown
from vxwatch.nearest import nearest

Schema = dict[str, Any]
Refuse = Callable[[str], str | None]
"""Says why a text cannot stand here, or None."""

_LAST_PORT = 65535


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
            near = ""
            if isinstance(value, str):
                near = nearest(value, self._names) or nearest(value.upper(), self._names)
            one_of = f"one of {', '.join(self._names)}"
            faults.expected(at, self._what, value, f"did you mean {near}?" if near else one_of)
        return value

    def schema(self) -> Schema:
        """An enumeration."""
        return {"enum": [*self._names]}
