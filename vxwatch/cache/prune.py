"""Takes out of a cache what is old or too much, the longest unused first.

Goes in small steps, so that others save and restore meanwhile. What a process is reading just
then stays readable to it. What crashes left behind goes, too.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

from vxwatch.cache.database import Told
from vxwatch.cache.store import ARTIFACTS, SUFFIX, Store

_STEP = 64
_SECOND = 1_000_000_000
_SIZE = "size + length(items) + length(log)"


class Amount(NamedTuple):
    """Some entries, and the bytes that they take."""

    entries: int = 0
    size: int = 0


def total(store: Store) -> Amount:
    """What the cache holds; an artifact that entries share counts once. Raises `CacheError`."""
    with store.reading() as connection:
        entries, rest = connection.execute(
            "SELECT count(*), total(length(items) + length(log)) FROM entries"
        ).fetchone()
        shared = connection.execute(
            "SELECT total(size) FROM (SELECT max(size) AS size FROM entries"
            " WHERE artifact IS NOT NULL GROUP BY artifact)"
        ).fetchone()[0]
    return Amount(entries, int(rest + shared))


def prune(
    store: Store, older_than: float | None, max_size: int | None, *, dry: bool = False
) -> Amount:
    """Remove the entries unused for `older_than` seconds, then the oldest above `max_size` bytes.

    None sets no limit. `dry`: only say what would go. Raises `CacheError`.
    """
    keys = list(_outdated(store, older_than, max_size))
    before = total(store)
    if dry:
        return Amount(len(keys), before.size - _left(store, keys))
    for at in range(0, len(keys), _STEP):
        store.drop(*keys[at : at + _STEP])
    _tidy(store, older_than)
    return Amount(len(keys), max(0, before.size - total(store).size))


def due(store: Store, older_than: float | None, max_size: int | None) -> bool:
    """Whether there is anything to prune, as far as one look tells. Raises `CacheError`."""
    if _may_be_due(store, older_than, max_size) and any(
        True for _ in _outdated(store, older_than, max_size)
    ):
        return True
    with store.reading() as connection:
        oldest = connection.execute("SELECT min(started) FROM runs").fetchone()[0]
    if older_than is None or oldest is None:
        return False
    return bool(oldest < _before(store, older_than))


def _may_be_due(store: Store, older_than: float | None, max_size: int | None) -> bool:
    """Whether an entry may be outdated: artifacts that entries share count more than once here."""
    with store.reading() as connection:
        used, size = connection.execute(f"SELECT min(used), total({_SIZE}) FROM entries").fetchone()  # noqa: S608 - a constant
    old = older_than is not None and used is not None and used < _before(store, older_than)
    return old or (max_size is not None and size > max_size)


def _before(store: Store, older_than: float) -> int:
    return store.clock() - int(older_than * _SECOND)


def _outdated(store: Store, older_than: float | None, max_size: int | None) -> Iterator[str]:
    """The keys to remove."""
    with store.reading() as connection:
        rows = connection.execute(
            f"SELECT key, used, artifact, {_SIZE} FROM entries ORDER BY used DESC, key"  # noqa: S608 - a constant
        ).fetchall()
    oldest = 0 if older_than is None else _before(store, older_than)
    size = 0
    kept: set[str] = set()
    for key, used, artifact, own in rows:
        if artifact not in kept:
            size += own
        if used < oldest or (max_size is not None and size > max_size):
            yield key
        elif artifact is not None:
            kept.add(artifact)


def _left(store: Store, gone: list[str]) -> int:
    with store.reading() as connection:
        rows = connection.execute(f"SELECT key, artifact, {_SIZE} FROM entries").fetchall()  # noqa: S608 - a constant
    missing = {*gone}
    sizes = {artifact or key: size for key, artifact, size in rows if key not in missing}
    return sum(sizes.values())


def _tidy(store: Store, older_than: float | None) -> None:
    """Remove what no entry needs: what crashes left, and the history of what is gone."""
    with Told(store.directory):
        store.tidy()
        paths = _files(f"{store.directory}/{ARTIFACTS}")
        artifacts = [os.path.basename(path).removesuffix(SUFFIX) for path in paths]
        for at in range(0, len(artifacts), _STEP):
            store.sweep(artifacts[at : at + _STEP])
    with store.changing() as connection:
        if older_than is not None:
            oldest = (_before(store, older_than),)
            connection.execute("DELETE FROM runs WHERE started < ?", oldest)
            connection.execute("DELETE FROM results WHERE run NOT IN (SELECT id FROM runs)")
            connection.execute("DELETE FROM cycles WHERE run NOT IN (SELECT id FROM runs)")
            connection.execute(
                "DELETE FROM components WHERE made < ? AND key NOT IN (SELECT key FROM entries)"
                " AND key NOT IN (SELECT key FROM results WHERE key IS NOT NULL)",
                oldest,
            )
        for (root,) in connection.execute("SELECT DISTINCT root FROM present").fetchall():
            if not os.path.isdir(root):
                connection.execute("DELETE FROM present WHERE root = ?", (root,))
                connection.execute("DELETE FROM durations WHERE root = ?", (root,))
    with store.reading() as connection:
        connection.execute("PRAGMA incremental_vacuum").fetchall()


def _files(directory: str) -> Iterator[str]:
    for place, _, names in os.walk(directory):
        for name in names:
            yield f"{place}/{name}"
