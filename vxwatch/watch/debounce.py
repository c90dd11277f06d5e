"""When a burst of events has settled: pure arithmetic on the times it is told.

A burst is over `quiet` seconds after its last event, and at the latest `bound` seconds after
its first, so that a writer that never pauses holds nothing back.
"""

QUIET = 0.015
BOUND = 1.0


class Debounce:
    """One burst at a time; times are readings of any one clock, in seconds."""

    def __init__(self, quiet: float = QUIET, bound: float = BOUND) -> None:
        self._quiet = quiet
        self._bound = max(bound, quiet)
        self._first: float | None = None
        self._last = 0.0

    def event(self, now: float) -> None:
        """Something happened."""
        if self._first is None:
            self._first = now
        self._last = now

    def due(self) -> float | None:
        """When the burst is over unless more happens; None while there is none."""
        if self._first is None:
            return None
        return min(self._last + self._quiet, self._first + self._bound)

    def clear(self) -> None:
        """The burst was taken; what happens from now on is a new one."""
        self._first = None
