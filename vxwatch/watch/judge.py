"""Who caused a change: the guard against a watch that wakes itself. Pure.

A task that rewrites its own input with different bytes would run for ever. Nothing tells us
which process wrote a file, so the guard goes by time: a change is somebody else's when it
was made while no task ran. A path that was written while tasks ran, and not once otherwise, in
three deliveries is held back with the next one, for twice as long each time, until somebody
else changes something; so is anything where such deliveries go on and on under ever new names.
Held, not dropped: an edit that a person made while a task ran looks the same, and must end in a
cycle that saw it.
"""

from dataclasses import dataclass

FREE = 3
"""Deliveries in a row, caused by tasks alone, that may hold a path."""
MOST = 10
"""Times that many deliveries in a row may be caused by tasks alone, whatever they hold."""
PAUSE = 1.0
"""Seconds of the first pause. It is silent: whoever saves often while a long task runs looks
like a loop until the pause, in which the next save is clearly theirs."""

DOUBLINGS = 5
"""How often a pause gets longer: a person's last save while tasks ran must not wait for ever."""


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
        self._forget()
        self._held: frozenset[str] = frozenset()
        self._until: float | None = None

    def sift(self, changed: frozenset[str], foreign: bool, now: float) -> Verdict:
        """Judge one settled set; `foreign` says that part of it was made while no task ran."""
        if not changed:
            return Verdict(frozenset())
        if foreign:
            self._forget()
            return Verdict(changed | self._take())
        self._row += 1
        for path in changed:
            self._times[path] = self._times.get(path, 0) + 1
        again = frozenset(path for path in changed if self._times[path] > self._free)
        if not again and self._row <= self._free * MOST:
            return Verdict(changed | self._take())
        return self._hold(changed, again or changed, now)

    def due(self) -> float | None:
        """When what is held may be reacted to; None while nothing is held."""
        return self._until

    def release(self, now: float) -> frozenset[str]:
        """What was held and is due."""
        if self._until is None or now < self._until:
            return frozenset()
        return self._take()

    def _forget(self) -> None:
        self._row = self._turn = 0
        self._times: dict[str, int] = {}
        self._blamed: frozenset[str] = frozenset()
        self._named: frozenset[str] = frozenset()

    def _hold(self, changed: frozenset[str], blamed: frozenset[str], now: float) -> Verdict:
        pause = self._pause * 2.0 ** min(self._turn, DOUBLINGS)
        self._until = now + pause
        self._held |= changed
        self._blamed |= blamed
        fresh = self._blamed - self._named if self._turn else frozenset()
        self._named |= fresh
        self._turn += 1
        return Verdict(frozenset(), fresh, pause)

    def _take(self) -> frozenset[str]:
        held, self._held, self._until = self._held, frozenset(), None
        return held
