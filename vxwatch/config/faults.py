"""What is wrong with one document, and how a value looks in a message about it. Pure."""

At = tuple[str | int, ...]
"""Where a value stands in its document: keys and list positions."""

_SHOWN = 60


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
