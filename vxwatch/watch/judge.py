"""Who caused a change: the guard against a watch that wakes itself. Pure.

A task that rewrites its own input with different bytes would run for ever. Nothing tells us
which process wrote a file, so the guard goes by time: a change is somebody else's when it
was made while no task ran. A path that was written while tasks ran, and not once otherwise, in
three deliveries is held back with the next one, for twice as long each time, until somebody
else changes something; so is anything where such deliveries go on and on under ever new names.
Held, not dropped: an edit that a person made while a task ran looks the same, and must end in a
cycle that saw it.

A server that follows what tasks make, or whoever writes vx's own output to a file (`| tee log`), does
so when the cycle has ended. So what comes soon after a cycle, cycle upon cycle, is held back as well, but
after many times only, and alone: who saves a file all the time saves it in the pause, too, which ends it.
"""

from dataclasses import dataclass
from enum import IntEnum

FREE = 3
"""Deliveries in a row, caused by tasks alone, that may hold a path."""
MOST = 10
"""Times that many deliveries in a row may be caused by tasks alone, whatever they hold."""
PAUSE = 1.0
"""Seconds of the first pause. It is silent: whoever saves often while a long task runs looks
like a loop until the pause, in which the next save is clearly theirs."""

ECHOES = 100
"""Deliveries in a row, each soon after a cycle or in it, that may hold a path."""
ECHO_DOUBLINGS = 2
"""Few: a program that waits for each cycle and saves once more looks the same, and means it."""
SOON = 1.0
"""Seconds after the end of a cycle in which a change may be an echo of it."""

DOUBLINGS = 5
"""How often a pause gets longer: a person's last save while tasks ran must not wait for ever."""


class Origin(IntEnum):
    """When a change was made: while tasks ran, `SOON` after that, or later, which is nobody's echo."""

    OWN = 0
    ECHO = 1
    FOREIGN = 2


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to react to now, and which paths to name to the user, with the pause they got."""

    react: frozenset[str]
    named: frozenset[str] = frozenset()
    pause: float = 0.0


class LoopGuard:
    """Decides when a set of changed paths is reacted to; times are of any one clock."""

    def __init__(self) -> None:
        self._own = Row(FREE, DOUBLINGS, whole=True)
        self._echoes = Row(ECHOES, ECHO_DOUBLINGS, whole=False)

    def sift(self, changed: frozenset[str], origin: Origin, now: float) -> Verdict:
        """Judge one settled set, which is of the latest origin of its paths."""
        if origin is Origin.ECHO and self._own.named(changed):
            return Verdict(frozenset())
        own = self._own.sift(changed, origin > Origin.OWN, now)
        self._echoes.leave(changed - own.react)
        echo = self._echoes.sift(own.react, origin is Origin.FOREIGN, now)
        return Verdict(echo.react, own.named | echo.named, max(own.pause, echo.pause))

    def due(self) -> float | None:
        """When what is held may be reacted to; None while nothing is held."""
        return min(filter(None, (self._own.due(), self._echoes.due())), default=None)

    def release(self, now: float) -> frozenset[str]:
        """What was held and is due."""
        return self._own.release(now) | self._echoes.release(now)


class Row:
    """Deliveries in a row of one kind; what comes back in more than `free` of them is held.

    `whole`: and all that came along with it. Pauses get longer `doublings` times.
    """

    def __init__(self, free: int, doublings: int, *, whole: bool) -> None:
        self._free = free
        self._doublings = doublings
        self._whole = whole
        self._forget()
        self._held: frozenset[str] = frozenset()
        self._until: float | None = None

    def sift(self, changed: frozenset[str], other: bool, now: float) -> Verdict:
        """Judge one settled set; `other` says that part of it is not of the kind: the row ends."""
        if not changed:
            return Verdict(frozenset())
        if other:
            self._end(changed)
            return Verdict(changed | self._take())
        self._row += 1
        for path in changed:
            self._times[path] = self._times.get(path, 0) + 1
        again = frozenset(path for path in changed if self._times[path] > self._free)
        if not again and self._row <= self._free * MOST:
            return Verdict(changed | self._take())
        if self._whole or not again:
            return self._hold(changed, again or changed, now)
        if again <= self._held:  # nothing ran since that it could be an echo of
            return Verdict(changed - again)
        held = self._hold(again, again, now)
        return Verdict(changed - again, held.named, held.pause)

    def named(self, paths: frozenset[str]) -> bool:
        """Whether all of these are held, and were named: that may be what one of them is written for."""
        return self._turn > 1 and paths <= self._held

    def leave(self, paths: frozenset[str]) -> None:
        """Another row holds these."""
        self._held -= paths
        if not self._held:
            self._until = None

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

    def _end(self, changed: frozenset[str]) -> None:
        """The row has ended; what is held alone is no less of an echo for a change of something else."""
        times = {} if self._whole else self._times
        self._forget()
        self._times = {path: number for path, number in times.items() if path not in changed}

    def _hold(self, changed: frozenset[str], blamed: frozenset[str], now: float) -> Verdict:
        pause = PAUSE * 2.0 ** min(self._turn, self._doublings)
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
