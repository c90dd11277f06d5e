"""What this machine hides from every box, and which toolchains show. Reads, changes nothing."""

import os
import pwd
import re
import stat
from collections.abc import Iterable, Iterator, Mapping

from vxwatch.sandbox.grants import Place
from vxwatch.sandbox.paths import inside, inside_any
from vxwatch.sandbox.places import follow
from vxwatch.sandbox.policy import Host
from vxwatch.sandbox.toolchains import ALWAYS, tool_roots

_HIDDEN = ("/run", "/mnt", "/media")
"""Sockets of daemons, agents and desktops, and other disks."""
_SCRATCH = ("/tmp", "/var/tmp")  # noqa: S108 - hidden, not used
_ROOT_HIDDEN = ("/root", "/home", "/var/lib", "/etc/ssh")
_ROOT_BLANKS = ("/etc/shadow", "/etc/shadow-")
"""What root may read and no task has to. A user cannot read it anyway."""
_NO_TOOLS = frozenset({"/mnt", "/media"})
"""On a search path these are another system's programs, or disks that come and go."""
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/dev", "/proc", "/sys")
"""Service users have homes in there; hiding one would take the system away."""


def describe(environ: Mapping[str, str], *, session: str, users: Iterable[int]) -> Host:
    """The host as every box of a session sees it.

    `session` is vx's private directory; `users` are the uids of vx and of the box, whose real
    homes are hidden as well as `$HOME`.
    """
    as_root = os.geteuid() == 0
    scratch = tuple(_directories(_SCRATCH))
    homes = tuple(_directories(_homes(environ, users, as_root=as_root)))
    hidden = tuple(_directories((*_HIDDEN, *(_ROOT_HIDDEN if as_root else ()), session)))
    return Host(
        homes=homes,
        masks=(*(path for path in hidden if not inside_any(path, {*scratch})), *homes),
        scratch=scratch,
        blanks=tuple(path for path in _ROOT_BLANKS if as_root and os.path.isfile(path)),
    )


def holds_the_system(root: str) -> bool:
    """Whether a workspace at this real path contains what every program needs."""
    return any(inside(system, root) for system in _SYSTEM)


def home(environ: Mapping[str, str]) -> str:
    """What `~` stands for: an absolute path."""
    return environ.get("HOME") or _passwd_home(os.getuid()) or "/"


def other_owner(root: str) -> tuple[int, int] | None:
    """The uid and gid a box runs as if that is not vx's own: root, in somebody's workspace.

    As root without capabilities a task could not write to that user's files.
    """
    status = os.stat(root)
    return (status.st_uid, status.st_gid) if os.geteuid() == 0 != status.st_uid else None


def scratch_room() -> int:
    """How many bytes each private temporary place may hold: a quarter of the memory it is made of."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4


def reachable(path: str, user: int, group: int) -> bool:
    """Whether a user without other groups may enter every directory above this real path."""
    while path != "/":
        path = os.path.dirname(path)
        status = os.stat(path)
        shift = 6 if status.st_uid == user else 3 if status.st_gid == group else 0
        if not status.st_mode >> shift & stat.S_IXOTH:
            return False
    return True


def _homes(environ: Mapping[str, str], users: Iterable[int], *, as_root: bool) -> Iterator[str]:
    for path in (environ.get("HOME", ""), *map(_passwd_home, users), "/root" if as_root else ""):
        real = os.path.realpath(path) if path.startswith("/") else "/"
        if not any(inside(system, real) or inside(real, system) for system in _SYSTEM):
            yield real


def _passwd_home(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_dir
    except KeyError:  # a uid without a name, as in many containers
        return ""


def _directories(paths: Iterable[str]) -> Iterator[str]:
    """Those that exist, by their real paths, each once."""
    found = (follow(path) for path in paths)
    yield from dict.fromkeys(p.path for p in found if p.kind == "directory" and p.path != "/")


def tools(host: Host, search: str, interpreters: Iterable[str]) -> tuple[Place, ...]:
    """What shows through the masks: the directories of a PATH, each with its tool's root.

    `interpreters` are programs that virtual environments link to; they count like a directory
    of the PATH.
    """
    entries = [follow(path) for path in search.split(":") if path.startswith("/")]
    found = [(entry, entry.path) for entry in entries if entry.kind == "directory"]
    programs = [follow(path) for path in interpreters]
    found += [(entry, os.path.dirname(entry.path)) for entry in programs if entry.kind == "file"]
    shown = [place for entry, directory in found for place in _shown(host, entry, directory)]
    always = [follow(os.path.join(home, path)) for home in host.homes for path in ALWAYS]
    return tuple(dict.fromkeys(p for p in (*shown, *always) if p.kind != "missing"))


def _shown(host: Host, entry: Place, directory: str) -> Iterator[Place]:
    """The parts of a masked place that a program directory needs, and the links that led there."""
    if inside_any(directory, _NO_TOOLS):
        return
    home = _home_of(host, directory)
    if home:
        name = directory[len(home) :].strip("/")
        roots = tool_roots(name)
        if roots[:1] == (name,) and os.path.lexists(f"{os.path.dirname(directory)}/.git"):
            roots = (name,)  # a checkout, not an installation
        for root in roots:
            place = follow(os.path.join(home, root))
            yield Place(entry.named, place.path, place.kind, (*entry.links, *place.links))
    elif inside_any(directory, {*host.masks}):
        yield Place(entry.named, directory, "directory", entry.links)
    elif entry.links:
        yield entry


def _home_of(host: Host, path: str) -> str:
    """The home that the path lies in; "" if none. Root sees other users' homes, too."""
    other = re.match(r"/home/[^/]+", path)
    candidates = (*host.homes, *([other.group()] if other else ()))
    return next((home for home in candidates if inside(path, home)), "")
