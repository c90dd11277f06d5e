"""Waiting for facts: poll with a deadline that allows for a loaded machine."""

import os
import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def patience(seconds: float) -> float:
    """The deadline in seconds to use for one that is right on an idle machine."""
    busy = os.getloadavg()[0] > (os.cpu_count() or 1) or "PYTEST_XDIST_WORKER" in os.environ
    return seconds * 3 if busy else seconds


def wait_for(
    fact: Callable[[], _T],
    what: str,
    seconds: float = 10.0,
    context: Callable[[], str] | None = None,
) -> _T:
    """The fact's value once it is truthy; fails naming `what`, with the context's text."""
    limit = patience(seconds)
    end = time.monotonic() + limit
    while not (value := fact()):
        if time.monotonic() > end:
            told = f"\n{context()}" if context else ""
            raise AssertionError(f"not within {limit:g} s: {what}{told}")
        time.sleep(0.01)
    return value
