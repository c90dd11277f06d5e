"""How many tasks may run at once, as a count or as a share of the machine. Pure."""

import re

EXPECTED = 'a count of tasks such as 4, or a share of the cores such as "50%"'
SHARE = r"[1-9][0-9]{0,3}%"


def tasks_at_once(value: object, cores: int) -> int:
    """The count that a config or the command line means, at least 1.

    Raises `ValueError` that says what is expected.
    """
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if re.fullmatch(SHARE, text):
        return max(1, cores * int(text[:-1]) // 100)
    if not re.fullmatch(r"[1-9][0-9]{0,5}", text):
        raise ValueError(f"expected {EXPECTED}")
    return int(text)
