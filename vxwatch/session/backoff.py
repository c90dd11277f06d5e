"""How long a server that ended by itself waits for its next life. Pure."""

FIRST, LONGEST = 0.1, 5.0
STEADY = 10.0
"""Seconds after which a server that stayed up has come to rest: twice the longest pause."""
LOOP = 5
"""Ends in a row that are a crash loop."""


class Backoff:
    """The pauses of one server: 0.1, 0.2, 0.4 ... 5 s."""

    def __init__(self) -> None:
        self._ends = 0

    def ended(self, up: float) -> float:
        """It ended after it was up for so many seconds, 0 if it never was; gives the pause."""
        if up >= STEADY:
            self._ends = 0
        pause = min(FIRST * 2.0 ** min(self._ends, 30), LONGEST)
        self._ends += 1
        return pause

    @property
    def begins_to_loop(self) -> bool:
        """Whether the last end made a crash loop of it."""
        return self._ends == LOOP

    def reset(self) -> None:
        """Something changed that may have mended it."""
        self._ends = 0
