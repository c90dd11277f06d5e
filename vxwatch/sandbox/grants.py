"""What the paths of `allow` and `deny` mean, and which of them are refused.

A grant is a path or a glob, relative to its project, absolute, or beginning with `~`. This module
reads the text and judges where it led; it never looks at a disk (`places` does).
"""

import posixpath
from dataclasses import dataclass
from typing import Literal

from vxwatch.errors import UserError
from vxwatch.sandbox.paths import inside

Access = Literal["read", "write", "deny.read", "deny.write", "unix_sockets"]
"""The list of the config that a path stands in."""

_KERNELS = ("/proc", "/sys")
_DEVICES = "/dev"
_WILD = frozenset("*?[{\\")
_EVERYTHING_BELOW = frozenset({"**", "**/*"})


@dataclass(frozen=True, slots=True)
class Grant:
    """One string of the config.

    `path` is absolute and lexical; with a `pattern` it is the directory that the pattern starts
    from. `directory` says that a missing path is to be a directory.
    """

    text: str
    access: Access
    path: str
    pattern: str = ""
    directory: bool = False

    @property
    def words(self) -> str:
        """The grant as messages name it."""
        kind = f"{self.access} grant" if self.access in {"read", "write"} else self.access
        return f"{kind} {self.text!r}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path leads on this disk.

    `named` is the path as given, absolute; `path` is the real one, without links, also where
    nothing exists yet. `links` are the links on the way, each as its real path and its text.
    """

    named: str
    path: str
    kind: Literal["file", "directory", "missing"]
    links: tuple[tuple[str, str], ...] = ()


def parse(text: str, access: Access, *, directory: str, home: str) -> Grant:
    """The grant that this string is; `directory` is the project's, `home` what `~` stands for."""
    path = home + text[1:] if text == "~" or text.startswith("~/") else text
    parts = path.split("/")
    wild = next((i for i, part in enumerate(parts) if _WILD & set(part)), len(parts))
    start = posixpath.normpath(posixpath.join(directory, "/".join(parts[:wild]) or _top(path)))
    start = "/" + start.lstrip("/")  # two slashes in front would be kept
    pattern = "/".join(parts[wild:]).rstrip("/")
    if pattern in _EVERYTHING_BELOW:
        return Grant(text, access, start, directory=True)
    is_directory = not pattern and parts[-1] in {"", ".", ".."}
    return Grant(text, access, start, pattern, is_directory)


def _top(path: str) -> str:
    return "/" if path.startswith("/") else "."


def literal(grant: Grant) -> str:
    """The path a glob would name if its wildcards were meant as themselves, as in `[id].tsx`."""
    return posixpath.join(grant.path, grant.pattern) if grant.pattern else grant.path


def check_kind(grant: Grant, place: Place) -> None:
    """Refuse a grant that says of a file that it is a directory. Raises `UserError`."""
    if grant.directory and place.kind == "file":
        raise UserError(
            "sandbox-grant",
            f"{grant.words} means a directory, and {place.path} is a file",
            f"name the file: {grant.text.rstrip('/*')!r}",
        )


def check_write(grant: Grant, place: Place, *, directory: str, root: str) -> None:
    """Refuse a write grant of what each box has of its own, and one that leads astray.

    That is one which is named inside the project, or the workspace, and leads out of it. All paths
    are absolute; `directory` and `root` are real. Raises `UserError`.
    """
    top = next((top for top in _KERNELS if inside(place.path, top)), None)
    if top is None and (place.path == _DEVICES or _is_new_device(place)):
        top = _DEVICES
    if place.path == "/" or top is not None:
        whole = (
            "the whole system cannot be opened" if top is None else f"a sandbox has its own {top}"
        )
        raise UserError(
            "sandbox-grant",
            f"{grant.words} cannot be given: {whole}",
            "grant the directories that the task writes",
        )
    for border, name in ((directory, "project"), (root, "workspace")):
        if inside(place.named, border):
            if inside(place.path, border):
                return
            link, text = place.links[-1] if place.links else (place.named, place.path)
            raise UserError(
                "sandbox-grant",
                f"write grant {grant.text!r} leaves the {name}: "
                f"{posixpath.relpath(link, border)} is a link to {text}",
                f"grant the directory it leads to by its own path: {place.path}",
            )


def no_socket(grant: Grant, place: Place) -> UserError:
    """The refusal of something else in the place of a socket."""
    return UserError(
        "sandbox-grant",
        f"{grant.words}: {place.path} is a {place.kind} and no socket",
        "name the socket itself",
    )


def not_made(grant: Grant, path: str, reason: str) -> UserError:
    """The refusal of a write grant that cannot be made on this disk."""
    return UserError(
        "sandbox-grant",
        f"{grant.words} cannot be given: {path}: {reason}",
    )


def _is_new_device(place: Place) -> bool:
    return place.kind == "missing" and posixpath.dirname(place.path) == _DEVICES


def not_saved(directory: str, reason: str) -> UserError:
    """The refusal of files in a directory in which nothing can be saved by a rename."""
    return UserError(
        "sandbox-grant",
        f"single files in {directory} cannot be written in a sandbox: {reason}",
        f"grant the directory: {directory}/",
    )


def not_kept(directory: str, reason: str) -> UserError:
    """The failure of a task whose files could not be put into their place."""
    return UserError(
        "sandbox-grant",
        f"a file that was written could not be saved in {directory}: {reason}",
    )


def no_file_there(directory: str) -> UserError:
    """The refusal of single files in a directory of which each box has its own."""
    return UserError(
        "sandbox-grant",
        f"a single file in {directory} cannot be written: a sandbox has a {directory} of its own",
        "grant a directory in it",
    )


def not_opened(path: str, reason: str) -> UserError:
    """The refusal of a box that needs a path which cannot be opened."""
    return UserError("sandbox-grant", f"{path} cannot be shown in the sandbox: {reason}")
