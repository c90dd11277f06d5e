"""Durations as people write them ("500ms", "30s", "2m", "1h"), to and from seconds.

Promises that a duration it accepts is one every timer can hold. Never guesses a unit: only
0 goes without one. Touches nothing outside its arguments.
"""

import re

LONGEST = 596 * 3600.0
"""The longest duration in seconds: poll(2) and epoll_wait(2) take milliseconds in a C int."""

EXPECTED = '"500ms", "30s", "2m" or "1h"'
"""Durations as examples, for messages and docs."""

PATTERN = r"0|([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)"
"""The text of a duration as a regular expression, also for the JSON Schema."""

EXPECTED_AGE = '"12h", "30d" or "2w"'
"""Ages as examples, for messages and docs."""

AGE_PATTERN = r"0|([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|w)"
"""The text of an age as a regular expression, also for the JSON Schema."""

_SECOND = 1000  # milliseconds
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_AGES = {**_SECONDS, "d": 86_400.0, "w": 604_800.0}
_NUMBER = r"[0-9]+(\.[0-9]+)?"


def parse_duration(value: object) -> float:
    """The seconds of a duration as it is written in a config or on the command line.

    Raises `ValueError` that says what is expected.
    """
    text = str(value) if isinstance(value, str | int | float) else ""
    match = re.fullmatch(PATTERN, text)
    if match is None:
        raise ValueError(_expected(text))
    seconds = float(match[1]) * _SECONDS[match[2]] if match[1] else 0.0
    if seconds > LONGEST:
        raise ValueError(f"expected at most {format_duration(LONGEST)}: no timer holds more")
    return seconds


def parse_age(value: object) -> float:
    """The seconds of an age: a duration, or days ("30d") or weeks ("2w"), of any length.

    Raises `ValueError` that says what is expected.
    """
    text = str(value) if isinstance(value, str | int | float) else ""
    match = re.fullmatch(AGE_PATTERN, text)
    if match is None:
        raise ValueError(f"expected an age: {EXPECTED_AGE}")
    return float(match[1]) * _AGES[match[2]] if match[1] else 0.0


def format_duration(seconds: float) -> str:
    """The duration as a config writes it, in the largest unit that leaves whole numbers."""
    milliseconds = round(seconds * 1000)
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds >= size and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds / 1000}s" if milliseconds >= _SECOND else f"{milliseconds}ms"


def format_age(seconds: float) -> str:
    """How long ago something was, in the largest unit of which it is at least one: `3 min`, `2 d`."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def _expected(text: str) -> str:
    if re.fullmatch(_NUMBER, text):
        return f'expected a unit, as in "{text}s" or "{text}ms"'
    if re.fullmatch(PATTERN, text.removeprefix("-")) or re.fullmatch(
        _NUMBER, text.removeprefix("-")
    ):
        return f"expected a duration that is not negative: {EXPECTED}"
    return f"expected a duration: {EXPECTED}"
