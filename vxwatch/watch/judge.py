"""Who caused a change: the guard against a watch that wakes itself. Pure.

A task that rewrites its own input with different bytes would run for ever. Nothing tells us
which process wrote a file, so the guard goes by time: a change is somebody else's when it
was made while no task ran. After three deliveries in a row that hold nothing but what was
written while tasks ran, the next one is held back, for twice as long each time, until
somebody else changes something. Held, not dropped: an edit that a person made while a task
ran looks the same, and must end in a cycle that saw it.
"""

from dataclasses import dataclass

FREE = 3
"""Deliveries in a row that may be caused by tasks alone."""
PAUSE = 1.0
"""Seconds of the first pause. It is silent: whoever saves often while a long task runs looks
like a loop until the pause, in which the next save is clearly theirs."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to react to now, and which paths to name to the user, with the pause they got."""

    react: frozenset[str]
    named: frozenset[str] = frozenset()
    pause: float = 0.0


class LoopGuard:
    """Decides when a set of changed paths is reacted to; times are of any one clock."""

    def __init__(self, free: int = FREE, pause: float = PAUSE) -> None:
        self._free = free
        self._pause = pause
        self._row = 0
        self._held: frozenset[str] = frozenset()
        self._until: float | None = None
        self._known: frozenset[str] = frozenset()

    def sift(self, changed: frozenset[str], foreign: bool, now: float) -> Verdict:
        """Judge one settled set; `foreign` says that part of it was made while no task ran."""
        if not changed:
            return Verdict(frozenset())
        if foreign:
            self._row, self._known = 0, frozenset()
            return Verdict(changed | self._take())
        self._row += 1
        if self._row <= self._free:
            return Verdict(changed | self._take())
        return self._hold(changed, now)

    def due(self) -> float | None:
        """When what is held may be reacted to; None while nothing is held."""
        return self._until

    def release(self, now: float) -> frozenset[str]:
        """What was held and is due."""
        if self._until is None or now < self._until:
            return frozenset()
        return self._take()

    def _hold(self, changed: frozenset[str], now: float) -> Verdict:
        turn = self._row - self._free - 1
        pause = self._pause * 2.0 ** min(turn, 30)
        self._until = now + pause
        self._held |= changed
        fresh = self._held - self._known if turn else frozenset()
        self._known |= fresh
        return Verdict(frozenset(), fresh, pause)

    def _take(self) -> frozenset[str]:
        held, self._held, self._until = self._held, frozenset(), None
        return held
