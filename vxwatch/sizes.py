"""Sizes as people write them ("512K", "10G"), to and from bytes.

Units are powers of 1024. Never guesses a unit: only 0 goes without one. Touches nothing outside
its arguments.
"""

import re

EXPECTED = '"500M" or "10G"'
"""Sizes as examples, for messages and docs."""

PATTERN = r"0|([0-9]+(?:\.[0-9]+)?)([KMGT])(?:i?B)?"
"""The text of a size as a regular expression, also for the JSON Schema."""

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_NUMBER = r"[0-9]+(\.[0-9]+)?"


def parse_size(value: object) -> int:
    """The bytes of a size as it is written in a config or on the command line.

    Raises `ValueError` that says what is expected.
    """
    text = str(value) if isinstance(value, str | int | float) else ""
    match = re.fullmatch(PATTERN, text)
    if match is None:
        if re.fullmatch(_NUMBER, text):
            raise ValueError(f'expected a unit, as in "{text}M" or "{text}G"')
        raise ValueError(f"expected a size: {EXPECTED}")
    return int(float(match[1]) * _UNITS[match[2]]) if match[1] else 0


def format_size(size: int) -> str:
    """The size as a person reads it: `0`, `812 B`, `1.4M`, `10G`."""
    for unit, factor in reversed(_UNITS.items()):
        if size >= factor:
            return f"{size / factor:.1f}".removesuffix(".0") + unit
    return f"{size} B" if size else "0"
