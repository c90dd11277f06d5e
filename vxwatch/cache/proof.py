"""Writes down that a command has nothing to do, where that can be proven; `standing` checks it."""

import os
from collections.abc import Iterable

from vxwatch.cache.content import older
from vxwatch.cache.standing import BLOCK, FORMAT, PLACE, Command, digest, look
from vxwatch.workspace.home import replace

_CHANGED = 2  # of a stamp

MOST = 64
"""Proofs that are kept of one workspace; the oldest goes first."""


def prove(
    command: Command,
    root: str,
    text: str,
    *,
    names: Iterable[str],
    paths: Iterable[str],
    since: int,
) -> bool:
    """Write down that the command has nothing to do; False if its stamps cannot prove that.

    `text` is what the check shall answer; `names` are variables whose values count; `paths`, all
    that was looked at, are absolute or relative to `root`; `since` is the time before the first
    of them was looked at, in nanoseconds of the wall clock. What moved later, or just then, proves
    nothing. Raises OSError if it cannot be written.
    """
    known = sorted(set(names))
    parts = sorted({os.path.relpath(path, root) if path[:1] == "/" else path for path in paths})
    stamps = [(path, look(f"{root}/{path}")) for path in parts]
    if not all(stamp is None or older(stamp, since) for _, stamp in stamps):
        return False
    # What changed last is what will change next, more often than not.
    stamps.sort(key=lambda one: one[1][_CHANGED] if one[1] is not None else 0, reverse=True)
    rest: list[str] = []
    for first in range(0, len(stamps), BLOCK):
        block = stamps[first : first + BLOCK]
        rest += (digest(block), *(path for path, _ in block))
    joined = "\n".join(known)
    head = command.head(text, joined.split("\n"), len(rest))
    content = "\0".join((FORMAT, head, text, joined, *rest))
    replace(f"{root}/{PLACE}/{command.name}", os.fsencode(content))
    _forget_the_oldest(f"{root}/{PLACE}", command.name)
    return True


def _forget_the_oldest(place: str, latest: str) -> None:
    ages: list[tuple[int, str]] = []
    for entry in os.scandir(place):
        stamp = look(entry.path)
        if stamp is not None and entry.name != latest:
            ages.append((stamp[1], entry.path))
    for _, path in sorted(ages)[: max(0, len(ages) - MOST + 1)]:
        os.unlink(path)
