"""`vx cache`: what the cache of the workspace holds, and making it smaller."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vxwatch.cache.database import CacheError
from vxwatch.cache.place import cache_place
from vxwatch.cache.prune import prune, total
from vxwatch.cache.store import Store
from vxwatch.cli.directory import given_place, working_directory
from vxwatch.durations import parse_age
from vxwatch.errors import UserError
from vxwatch.output import tables
from vxwatch.sizes import format_size, parse_size
from vxwatch.workspace.discover import find_root, load_workspace


def show_cache(directory: str | None, *, as_json: bool) -> int:
    """Print where the cache is, how much it holds, and what it may hold."""
    place, retention = _place(directory)
    with _store(place) as store:
        found = total(store)
    if as_json:
        value: dict[str, Any] = {"place": place, "entries": found.entries, "size": found.size}
        value |= {"older_than": retention.older_than, "max_size": retention.max_size}
        tables.write_json(value)
    else:
        tables.fields(
            {
                "place": place,
                "entries": found.entries,
                "size": format_size(found.size),
                "at most": format_size(retention.max_size),
            }
        )
    return 0


def prune_cache(
    directory: str | None, older_than: str | None, max_size: str | None, *, dry: bool
) -> int:
    """Remove what is older or more than that; what the workspace says where nothing is given."""
    age = None if older_than is None else _age(older_than)
    size = None if max_size is None else _size(max_size)
    place, retention = _place(directory)
    if age is None and size is None:
        age, size = retention.older_than, retention.max_size
    with _store(place) as store:
        gone = prune(store, age, size, dry=dry)
        left = total(store)
    what = f"{gone.entries} {'entry' if gone.entries == 1 else 'entries'}"
    if dry:
        tables.line(f"would remove {what}, {format_size(gone.size)}")
    else:
        tables.line(f"removed {what}, {format_size(gone.size)}; {format_size(left.size)} left")
    return 0


def _place(directory: str | None) -> tuple[str, Any]:
    workspace = load_workspace(find_root(working_directory()))
    place = given_place(directory) or cache_place(workspace.root, workspace.cache_dir)
    return place, workspace.cache_retention


@contextmanager
def _store(place: str) -> Iterator[Store]:
    try:
        with Store(place) as store:
            yield store
    except CacheError as error:
        hint = error.hint or "see that you may write there, and that the disk has room"
        raise UserError("cache", error.message, hint) from None


def _age(text: str) -> float:
    try:
        return parse_age(text)
    except ValueError as error:
        raise UserError("bad-age", f"--older-than: {error}, got {text!r}") from None


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise UserError("bad-size", f"--max-size: {error}, got {text!r}") from None
