"""Unix sockets of the host that have a name in the file system. Reads, changes nothing.

A task that may use unix sockets could connect to every one that it sees, read-only or not, so
those that no grant names are hidden from it.
"""

from vxwatch.sandbox.places import follow, is_socket

_TABLE = "/proc/net/unix"
_NAME = 7
"""The column of the path, which may hold spaces; sockets without a path have no such column."""


def bound_sockets() -> tuple[str, ...]:
    """The real paths of the sockets that are bound now, as far as this network namespace knows."""
    try:
        with open(_TABLE, encoding="utf-8", errors="surrogateescape") as table:
            rows = [line.rstrip("\n").split(maxsplit=_NAME) for line in table]
    except OSError:
        return ()
    named = {row[_NAME] for row in rows if len(row) > _NAME and row[_NAME].startswith("/")}
    return tuple(path for path in sorted(follow(name).path for name in named) if is_socket(path))
