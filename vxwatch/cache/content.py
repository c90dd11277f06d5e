"""Reads what one path is: its content as a digest, under the stat stamps that vouch for it.

A digest says everything that counts as a change: the bytes and the executable bit of a file, or
the target of a link. Sizes and times are only evidence: they spare reading a file again, and
only when they are older than the reading (a write within the same tick of the file system's
clock moves no stamp). Fifos, sockets and devices are never opened and count as missing; a file
of any size is read in bounded memory.
"""

import errno
import os
import stat
from collections.abc import Callable
from typing import NamedTuple

import xxhash

from vxwatch.cache.stamps import Stamp, stamp_of

UNREAD = ""
"""The digest of a file whose content nobody asked for yet."""

UNREADABLE = "?"
"""How the digest of a file begins that could not be read: it moves with the stamps."""

_PLAIN, _EXECUTABLE = "-", "x"  # how the digest of a file begins
_MODES = (_PLAIN, _EXECUTABLE)
_SECOND = 1_000_000_000
_TICK = 20_000_000  # kernel clocks tick every 1 to 10 ms
_COARSE_TICK = 2 * _SECOND  # FAT writes every second second, some network file systems each one
_CHUNK = 1 << 20
_TRIES = 3
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY

Clock = Callable[[], int]
"""Nanoseconds of the wall clock: what file systems stamp with."""


class Seen(NamedTuple):
    """What a path was when it was last looked at."""

    stamp: Stamp
    digest: str
    settled: bool
    """Whether an equal stamp proves equal content."""


def is_gone(error: OSError) -> bool:
    """Whether nothing is at the path: a link to itself on the way leads to nothing, either."""
    return error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def glance(path: str) -> Seen | None:
    """The stamps of a file or link, its content unread; None if there is none at the path."""
    try:
        stamp = stamped(path)
    except OSError as error:
        return None if is_gone(error) else _unreadable((0, 0, 0, 0, 0), error)
    return None if stamp is None else Seen(stamp, UNREAD, settled=False)


def stamped(path: str) -> Stamp | None:
    """The stamps of a file or link; None where there is anything else. Raises OSError."""
    status = os.lstat(path)
    if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
        return stamp_of(status)
    return None


def look(path: str, before: Seen | None, clock: Clock) -> Seen | None:
    """What is at the absolute path now; None if no file or link is.

    `before` is returned as it is when its stamps prove that nothing moved. A file that is
    written all the time is taken as the last try found it, and is not settled.
    """
    seen = None
    for _ in range(_TRIES):
        glanced = glance(path)
        if glanced is None or glanced.digest:
            return glanced
        if before is not None and before.settled and before.stamp == glanced.stamp:
            return before
        now = clock()
        try:
            seen = _read(path, glanced.stamp)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            seen = _unreadable(glanced.stamp, error)
            continue
        if seen.stamp == glanced.stamp:
            return Seen(seen.stamp, seen.digest, older(seen.stamp, now))
    return seen


def is_of(digest: str, content: bytes) -> bool:
    """Whether it is the digest of a file with this content."""
    return digest[:1] in _MODES and digest[1:] == xxhash.xxh3_128_hexdigest(content)


def _read(path: str, stamp: Stamp) -> Seen:
    if stat.S_ISLNK(stamp[4]):
        return Seen(
            stamp, "l" + xxhash.xxh3_128_hexdigest(os.fsencode(os.readlink(path))), settled=False
        )
    handle = os.open(path, _FLAGS)
    try:
        digest = _digest(handle, stamp[0])
        stamp = stamp_of(os.fstat(handle))
    finally:
        os.close(handle)
    return Seen(stamp, (_EXECUTABLE if stamp[4] & stat.S_IXUSR else _PLAIN) + digest, settled=False)


def _digest(handle: int, size: int) -> str:
    hasher = xxhash.xxh3_128()
    if size < _CHUNK:
        data = os.read(handle, size + 1)
        hasher.update(data)
        if len(data) == size:
            return hasher.hexdigest()
    while data := os.read(handle, _CHUNK):
        hasher.update(data)
    return hasher.hexdigest()


def older(stamp: Stamp, now: int) -> bool:
    """Whether a write from `now` (nanoseconds of the wall clock) on is sure to get another stamp."""
    _, modified, moved, _, _ = stamp
    coarse = modified % _SECOND == 0 and moved % _SECOND == 0
    return max(modified, moved) < now - (_COARSE_TICK if coarse else _TICK)


def _unreadable(stamp: Stamp, error: OSError) -> Seen:
    return Seen(stamp, f"{UNREADABLE}{error.errno} {stamp}", settled=False)
