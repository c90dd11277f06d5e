"""Writes down that a command has nothing to do, where that can be proven; `standing` checks it."""

import os
from collections.abc import Collection, Iterable
from typing import NamedTuple

from vxwatch.cache.content import older
from vxwatch.cache.standing import BLOCK, FORMAT, PLACE, Command, digest, look
from vxwatch.workspace.home import replace

_CHANGED = 2  # of a stamp

MOST = 64
"""Proofs that are kept of one workspace; the oldest goes first."""


class Evidence(NamedTuple):
    """What an answer goes by.

    `names` are variables whose values count; `paths`, all that was looked at, are absolute or
    relative to the root; `since` is the time before the first of them was looked at, in
    nanoseconds of the wall clock. What moved later, or just then, proves nothing. `moving` are
    those of the paths that are outputs, or hold some.
    """

    names: Collection[str]
    paths: Collection[str]
    since: int
    moving: Collection[str] = ()


def prove(command: Command, root: str, evidence: Evidence, text: str, again: str = "") -> bool:
    """Write down that the command has nothing to do; False if the stamps cannot prove that.

    `text` is what the check shall answer, "" where there was something to do. Where `again` is
    given, it answers that as long as nothing moved but what is `moving`. Raises OSError if it
    cannot be written.
    """
    names, paths, since, moving = evidence
    known = sorted(set(names))
    apart = _relative(moving, root)
    fixed = _blocks(root, _relative(paths, root) - apart, since)
    rest = _blocks(root, apart, since)
    text = text if rest is not None else ""
    if fixed is None or not (text or again):
        return False
    parts = [*fixed, *(rest or ())]
    said = (text, again, str(len(fixed)))
    joined = "\n".join(known)
    head = command.head(said, joined.split("\n"), len(parts))
    content = "\0".join((FORMAT, head, text, joined, again, str(len(fixed)), *parts))
    replace(f"{root}/{PLACE}/{command.name}", os.fsencode(content))
    _forget_the_oldest(f"{root}/{PLACE}", command.name)
    return True


def _relative(paths: Iterable[str], root: str) -> set[str]:
    return {os.path.relpath(path, root) if path[:1] == "/" else path for path in paths}


def _blocks(root: str, paths: Iterable[str], since: int) -> list[str] | None:
    """The paths in blocks, each after its digest; None where one of them moved later or just then."""
    stamps = [(path, look(f"{root}/{path}")) for path in sorted(paths)]
    if not all(stamp is None or older(stamp, since) for _, stamp in stamps):
        return None
    # What changed last is what will change next, more often than not.
    stamps.sort(key=lambda one: one[1][_CHANGED] if one[1] is not None else 0, reverse=True)
    blocks: list[str] = []
    for first in range(0, len(stamps), BLOCK):
        block = stamps[first : first + BLOCK]
        blocks += (digest(block), *(path for path, _ in block))
    return blocks


def _forget_the_oldest(place: str, latest: str) -> None:
    ages: list[tuple[int, str]] = []
    for entry in os.scandir(place):
        stamp = look(entry.path)
        if stamp is not None and entry.name != latest:
            ages.append((stamp[1], entry.path))
    for _, path in sorted(ages)[: max(0, len(ages) - MOST + 1)]:
        os.unlink(path)
