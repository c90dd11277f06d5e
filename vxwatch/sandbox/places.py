"""Where paths and globs lead on this disk. Reads directories and links, changes nothing.

A path that cannot be looked at counts as missing: what vx may not see, its tasks need not.
"""

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from vxwatch.globs import EXCLUDED, Matcher
from vxwatch.sandbox.grants import Grant, Place, literal
from vxwatch.sandbox.paths import inside
from vxwatch.sandbox.policy import Entry

_MOST_LINKS = 40
"""As many as the kernel follows before it reports a loop."""
_NO_LIMIT = 1 << 30
_MOST_FILES = 50_000


def follow(path: str) -> Place:
    """Where an absolute path leads, one component at a time, and the links it passes."""
    real = "/"
    links: list[tuple[str, str]] = []
    kind: Literal["file", "directory", "missing"] = "directory"
    ahead = path.split("/")[::-1]
    while ahead:
        part = ahead.pop()
        if part in {"", "."}:
            continue
        if part == "..":
            real = os.path.dirname(real)
            continue
        here = f"{real}/{part}" if real != "/" else f"/{part}"
        found = _look(here) if kind == "directory" else "missing"
        if found == "link" and len(links) < _MOST_LINKS and (target := _target(here)):
            links.append((here, target))
            real = "/" if target.startswith("/") else real
            ahead += target.split("/")[::-1]
        else:
            real, kind = here, "missing" if found == "link" else found
    return Place(path, real, kind, tuple(links))


def _look(path: str) -> Literal["file", "directory", "link", "missing"]:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return "missing"
    if stat.S_ISLNK(mode):
        return "link"
    return "directory" if stat.S_ISDIR(mode) else "file"


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


def places(
    grant: Grant, foreign: Callable[[str], bool], *, leaving: bool = False
) -> Iterator[Place]:
    """What a grant stands for: its path, or the matches of its glob.

    `foreign` tells a directory that is another project. A glob enters one only where its parts
    before the first `**` lead there, and the directories of `EXCLUDED` only if it names them. A
    match that leads out of the grant's directory through a link is left out, unless `leaving`.
    """
    whole = follow(literal(grant))
    if not grant.pattern or whole.kind != "missing":
        yield whole
        return
    start = follow(grant.path)
    if start.kind != "directory":
        return
    for relative in _matches(grant, start.path, foreign):
        place = follow(os.path.join(start.path, relative))
        if (leaving or inside(place.path, start.path)) and place.kind != "missing":
            named = os.path.join(grant.path, relative)
            yield Place(named, place.path, place.kind, (*start.links, *place.links))


def would_match(grant: Grant, path: str) -> bool:
    """Whether a real path at which nothing is yet, or a directory above it, is what a glob means."""
    start = follow(grant.path).path
    if not grant.pattern or path == start or not inside(path, start):
        return False
    parts = os.path.relpath(path, start).split("/")
    matcher = Matcher([grant.pattern])
    return any(matcher.matches("/".join(parts[:count])) for count in range(1, len(parts) + 1))


def _matches(grant: Grant, start: str, foreign: Callable[[str], bool]) -> Iterator[str]:
    matcher = Matcher([grant.pattern])
    parts = grant.pattern.split("/")
    leading = next((i for i, part in enumerate(parts) if "**" in part), len(parts))
    deepest = len(parts) if leading == len(parts) else _NO_LIMIT
    passed = EXCLUDED - set(parts)
    queue = [("", 1)]
    while queue:
        directory, depth = queue.pop()
        for entry in _entries(os.path.join(start, directory)):
            relative = f"{directory}/{entry.name}" if directory else entry.name
            if matcher.matches(relative):
                yield relative
            elif (
                depth < deepest
                and entry.name not in passed
                and entry.is_dir(follow_symlinks=False)
                and (depth <= leading or not foreign(entry.path))
            ):
                queue.append((relative, depth + 1))


def _entries(directory: str) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(directory) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError:
        return []


def listing(directory: str) -> Mapping[str, Entry]:
    """What lies in a directory, by name."""
    return {entry.name: _entry(entry) for entry in _entries(directory)}


def texts(directory: str) -> Mapping[str, str | None]:
    """What lies in a directory, by name: the text of each link, None for all else."""
    return {
        entry.name: _target(entry.path) if entry.is_symlink() else None
        for entry in _entries(directory)
    }


def _entry(entry: "os.DirEntry[str]") -> Entry:
    if entry.is_symlink():
        return "link"
    return "directory" if entry.is_dir(follow_symlinks=False) else "file"


def files_below(directory: str) -> int:
    """How many files lie below a directory, without what is in those of `EXCLUDED`."""
    count, ahead = 0, [directory]
    while ahead and count < _MOST_FILES:
        for entry in _entries(ahead.pop()):
            if not entry.is_dir(follow_symlinks=False):
                count += 1
            elif entry.name not in EXCLUDED:
                ahead.append(entry.path)
    return count


def is_socket(path: str) -> bool:
    """Whether a unix socket is at the path itself."""
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


def is_special(path: str) -> bool:
    """Whether something is at the path itself that is neither a directory, a link nor a file."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))


def lies(path: str) -> Entry | None:
    """What is at the path itself; None if nothing is."""
    found = _look(path)
    return None if found == "missing" else found
