"""The name that somebody meant."""

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """The known name that is most like the word; "" if none is alike."""
    from difflib import get_close_matches  # noqa: PLC0415 - only a wrong name needs it

    return next(iter(get_close_matches(word, [*known], 1)), "")
