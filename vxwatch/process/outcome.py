"""How a box will refuse a system call, worked out before it does.

Whoever is told of a call by the kernel hears no result. What is granted is not asked about here;
everywhere else a box only shows or hides, so a call fails because a name is not there, because
nothing can be changed there, or because something is mounted on it. Knows no disk: what lies where
is asked of a `View`. It imports little, because the nursery's children run it.
"""

TYPE_CHECKING = False  # as typing has it, whose import is a third of the nursery's start
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal, Protocol

    Found = Literal["", "file", "directory", "other"]

    class View(Protocol):
        """What the process that calls can see, by absolute paths without links."""

        def find(self, path: str) -> Found:
            """What lies there, "" for nothing."""

        def locked(self, path: str) -> bool:
            """Whether the mount that holds this path is read-only."""

        def mount(self, path: str) -> str:
            """At which path that is mounted."""


O_ACCMODE, O_CREAT, O_EXCL, O_TRUNC, O_APPEND = 0o3, 0o100, 0o200, 0o1000, 0o2000
O_TMPFILE = 0o20000000
WRITING = O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND | O_TMPFILE
"""One of these flags makes an `open` a wish to write."""

OPENS = frozenset({"open", "openat", "openat2", "creat"})
_MAKES = frozenset(
    {"mkdir", "mkdirat", "mknod", "mknodat"} | {"link", "linkat", "symlink", "symlinkat"}
)
_REMOVES = frozenset({"unlink", "unlinkat", "rmdir"})
_RENAMES = frozenset({"rename", "renameat", "renameat2"})
NAMED = _MAKES | _REMOVES | _RENAMES
"""The calls that make or move the very name, and do not follow a link there."""


def reading(path: str, view: "View") -> str:
    """The error of a call that reads or looks; "" for none."""
    return "" if view.find(path) else "ENOENT"


def writing(call: str, flags: int, paths: "Sequence[str]", view: "View") -> str:
    """The error of a call that would change something at each of these paths; "" for none."""
    if call in _RENAMES:
        return _renaming(paths, view)
    (path,) = paths
    if call in _REMOVES:
        return _around(path, view) or _mounted(path, view)
    if call in OPENS:
        return _opening(flags, path, view)
    if call in _MAKES:
        return "" if view.find(path) else _around(path, view)
    if not view.find(path):
        return "ENOENT"
    return "EROFS" if view.locked(path) else ""


def _opening(flags: int, path: str, view: "View") -> str:
    found = view.find(path)
    if not found:
        return _around(path, view) if flags & O_CREAT else "ENOENT"
    makes = flags & O_TMPFILE
    changes = flags & (O_ACCMODE | O_TRUNC) and not flags & O_EXCL
    if (found == "file" and changes) or (found == "directory" and makes):
        return "EROFS" if view.locked(path) else ""
    return ""


def _renaming(paths: "Sequence[str]", view: "View") -> str:
    if len({view.mount(parent(path)) for path in paths}) > 1:
        return "EXDEV"
    errors = [_around(path, view) or _mounted(path, view) for path in paths]
    return next(filter(None, errors), "")


def _around(path: str, view: "View") -> str:
    """Why no name can come or go in the directory of this path."""
    above = parent(path)
    if view.find(above) != "directory":
        return "ENOENT"
    return "EROFS" if view.locked(above) else ""


def _mounted(path: str, view: "View") -> str:
    return "EBUSY" if view.mount(path) == path else ""


def parent(path: str) -> str:
    """The directory in which an absolute path lies."""
    return path.rpartition("/")[0] or "/"
