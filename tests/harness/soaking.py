"""Goes on with a check for as many seconds as `$SOAK` says; once where it says nothing."""

import os
import random
import time
from collections.abc import Callable
from typing import Protocol

import pytest

SECONDS = float(os.environ.get("SOAK", "0"))


def soak(check: Callable[[], object]) -> None:
    """Check, and again until the time is over."""
    until = time.monotonic() + SECONDS
    check()
    while time.monotonic() < until:
        check()


def soaks(seconds: float = 240.0) -> pytest.MarkDecorator:
    """Marks a test that soaks, and whose last round may take so long."""
    return pytest.mark.timeout(SECONDS + seconds)


class Walk(Protocol):
    """A walk through random edits of a workspace."""

    rounds: int

    def prepare(self) -> None: ...
    def begin(self) -> None: ...
    def until(self, deadline: float) -> None: ...
    def end(self) -> None: ...


WALKING = float(os.environ.get("SOAK", "12"))
"""Seconds that a walk goes on."""


def walk(make: Callable[[int], Walk]) -> None:
    """Walk from the seed that `$WALK` says, or from any; a failure shows which."""
    seed = int(os.environ.get("WALK", random.randrange(1 << 30)))
    print(f"WALK={seed}")
    about = make(seed)
    about.prepare()
    about.begin()
    about.until(time.monotonic() + WALKING)
    about.end()
    print(f"{about.rounds} rounds")
