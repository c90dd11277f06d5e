"""Answers `vx run` where it is proven that there is nothing to do, before anything else loads."""

import os
import time

from vxwatch.cache.standing import Command
from vxwatch.output.style import Style, wants_colour


def answered(words: list[str]) -> bool:
    """Whether the command line has nothing to do; then that was said."""
    begun = time.monotonic()
    try:
        text = Command(words, os.getcwd(), os.environ).standing()
    except OSError:  # the long way finds it, too, and says it
        return False
    return text is not None and say(text, time.monotonic() - begun)


def say(text: str, seconds: float) -> bool:
    """Print how a run ended that had nothing to do; False where it cannot be printed."""
    style = Style(colour=wants_colour(os.environ, terminal=os.isatty(1)), unicode=False)
    line = style.paint(f"{text} in {seconds * 1000:.0f} ms", "dim")
    try:
        os.write(1, f"{line}\n".encode())
    except OSError:  # the long way says it
        return False
    return True
