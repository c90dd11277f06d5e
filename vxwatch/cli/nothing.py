"""Answers `vx run` where it is proven that there is nothing to do, or only to restore.

That is before anything else loads.
"""

import os
import time

from vxwatch.cache.standing import Command, Standing
from vxwatch.output.style import Style, wants_colour

UNTOLD: list[tuple[str, str]] = []
"""What the cache told, with hints, where the answer is left to who tells it."""


def answered(words: list[str]) -> bool:
    """Whether the command line has nothing to do, or only to restore; then that was done and said."""
    begun = time.monotonic()
    try:
        proven = Command(words, os.getcwd(), os.environ).standing()
    except OSError:  # the long way finds it, too, and says it
        return False
    if proven is None:
        return False
    text = proven.text or _restored(proven)
    return text is not None and say(text, time.monotonic() - begun)


def _restored(proven: Standing) -> str | None:
    """What to say of a run that had only to restore; None where that is not all.

    A signal ends it at once, as long as vx loads: what is half restored then is restored anew.
    """
    from vxwatch.output.text import counts
    from vxwatch.session.outputs_only import restored

    outcomes = restored(proven.root, proven.again, lambda *told: UNTOLD.append(told))
    return None if outcomes is None or UNTOLD else counts(outcomes)


def say(text: str, seconds: float) -> bool:
    """Print how a run ended that had nothing to do; False where it cannot be printed."""
    style = Style(colour=wants_colour(os.environ, terminal=os.isatty(1)), unicode=False)
    line = style.paint(f"{text} in {seconds * 1000:.0f} ms", "dim")
    try:
        os.write(1, f"{line}\n".encode())
    except OSError:  # the long way says it
        return False
    return True
