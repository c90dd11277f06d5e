"""Goes on with a check for as many seconds as `$SOAK` says; once where it says nothing."""

import os
import time
from collections.abc import Callable

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
