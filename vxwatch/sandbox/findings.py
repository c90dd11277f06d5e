"""What a task was denied, judged from the attempts in its log, and the grants that would allow it.

A read is a finding when the file exists on the host, lies in the workspace and the box hides it:
that a program looks for files which are not there is no finding. A write is one wherever it was
refused but in `/proc`, `/dev` and `/sys` and in the box's own temporary directories. A connection
is one when it went to another machine. Where a path leads is asked of `look`; nothing else here
knows a disk.
"""

import posixpath
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from vxwatch.globs import Matcher
from vxwatch.model import Sandbox
from vxwatch.sandbox.grants import Access as Listed
from vxwatch.sandbox.grants import Place, literal, parse
from vxwatch.sandbox.paths import inside, inside_any
from vxwatch.sandbox.policy import Kind, Mount
from vxwatch.sandbox.tracelog import Attempt

if TYPE_CHECKING:
    from vxwatch.hosts import Pattern

Access = Literal["read", "write", "network"]
Look = Callable[[str], Place]
_Crowd = tuple[Access, str, tuple[str, str] | None]

IGNORED_WRITES = (
    "**/__pycache__/**",
    "**/node_modules/.cache/**",
    "~/.cache/**",
    "~/.npm/_logs/**",
)
"""What programs write by the way and do without: as if each task had it in `ignore.write`."""

MOST_FILES = 5
"""Files of one directory that are named; when there are more, the directory is."""

_NO_FINDING = frozenset({"/proc", "/dev", "/sys"})
_HIDING: frozenset[Kind] = frozenset({"mask", "blank", "desk"})
MADE = "EPERM"
"""No error of a `mkdir` on a file system that is there: it stands for one that succeeded."""
_UNSEEN = frozenset({"ENOENT", "ENOTDIR", "EACCES"})
_REFUSED = frozenset({"EROFS", "EACCES", "EPERM", "EBUSY"})
_UNREACHED = frozenset({"ENETUNREACH", "EHOSTUNREACH", "EACCES", "EPERM"})


@dataclass(frozen=True, slots=True)
class Scene:
    """What a box showed, and what things are called around it.

    Paths are absolute and real, but `home`, for which `~` stands. `packages` maps the directories
    of the other projects to their names; `unfolded` are those of them that the project depends on
    and that the task's key does not fold.
    """

    mounts: tuple[Mount, ...]
    root: str
    directory: str
    home: str
    packages: Mapping[str, str] = field(default_factory=dict)
    unfolded: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was denied. `name` is what a config calls it, `files` how many it stands for.

    `package` names the project whose file it is, if that is another one that the task came to
    through an installed package; `unfolded` that a change of it would not run the task again.
    `past_proxy`: the task may connect to some hosts, and did not take the way to them. `denied` is
    what takes the path from the task, whatever is granted: a list of its `deny`, and the entry.
    """

    access: Access
    name: str
    files: int = 1
    package: str = ""
    unfolded: bool = False
    past_proxy: bool = False
    denied: tuple[str, str] | None = None


def judge(
    attempts: Iterable[Attempt],
    scene: Scene,
    sandbox: Sandbox,
    look: Look,
    refused: Container[str] = (),
) -> tuple[Finding, ...]:
    """The findings, in the order in which they came about, many of one directory as one.

    `refused` are the targets that the task's proxy refused, which tells of them better.
    """
    return _together(judge_each(attempts, scene, sandbox, look, refused))


def judge_each(
    attempts: Iterable[Attempt],
    scene: Scene,
    sandbox: Sandbox,
    look: Look,
    refused: Container[str] = (),
) -> tuple[Finding, ...]:
    """The findings, one for each path or address, in the order in which they came about."""
    judge = _Judge(scene, sandbox, look, refused)
    return tuple(dict.fromkeys(finding for attempt in attempts for finding in judge.of(attempt)))


class _Judge:
    """The judgement on one task."""

    def __init__(self, scene: Scene, sandbox: Sandbox, look: Look, refused: Container[str]) -> None:
        self.scene = scene
        self.look = look
        self.refused = refused
        self.has_proxy = bool(sandbox.network)
        self.kinds = {m.path: m.kind for m in scene.mounts if m.kind not in {"link", "folder"}}
        self.ignored = {
            "read": _Patterns(sandbox.ignore_read, "read", scene),
            "write": _Patterns((*IGNORED_WRITES, *sandbox.ignore_write), "write", scene),
        }
        hidden = [("deny.read", text) for text in sandbox.deny_read]
        kept = [("deny.write", text) for text in sandbox.deny_write]
        # What may not be read is not there to be written either.
        self.denied: Mapping[str, list[_Denial]] = {
            "read": self._denials(hidden),
            "write": self._denials((*kept, *hidden)),
        }
        self.ignored_hosts = _hosts(sandbox.ignore_network)

    def of(self, attempt: Attempt) -> Iterator[Finding]:
        """The finding that this attempt is, if it is one."""
        if attempt.wish == "connect":
            yield from self.connection(attempt)
            return
        path = posixpath.normpath(attempt.name)
        if inside_any(path, _NO_FINDING) or self.shows(path) == "scratch":
            return
        if attempt.wish == "read" and not self.ours(path) and self.shows(path) == "read":
            return  # of the system; most of what programs look for, so not worth a look
        place = self.look(attempt.name)
        if inside_any(place.path, _NO_FINDING) or self.shows(place.path) == "scratch":
            return
        access = self.wish(attempt, place)
        if access and not any(self.ignored[access].match(name) for name in (path, place.path)):
            directory = access == "write" and attempt.call in {"mkdir", "mkdirat"}
            name = spelled(place.path, self.scene) + ("/" if directory else "")
            package = self.package(attempt, place, access)
            unfolded = package in self.scene.unfolded
            denied = self.denial(access, (path, place.path))
            yield Finding(access, name, package=package, unfolded=unfolded, denied=denied)

    def _denials(self, entries: Iterable[tuple[str, str]]) -> "list[_Denial]":
        return [
            (listed, text, _Patterns((text,), "deny.read", self.scene, self.look))
            for listed, text in entries
        ]

    def denial(self, access: str, names: Iterable[str]) -> tuple[str, str] | None:
        """The list of `deny`, and its entry, that takes a path of these names from the task."""
        names = tuple(names)
        for listed, text, patterns in self.denied[access]:
            if any(map(patterns.match, names)):
                return listed, text
        return None

    def wish(self, attempt: Attempt, place: Place) -> Literal["read", "write", ""]:
        """Which grant was missing; "" for none."""
        if attempt.wish == "read":
            return "read" if self.unread(attempt, place) else ""
        if self.shows(place.path) in {"write", "saved"}:
            return ""
        if attempt.error in _REFUSED:
            made = attempt.call.startswith("mkdir") and attempt.error != MADE
            if made and place.kind == "directory":
                # It would be told that the directory exists; making sure of that is no write.
                return "read" if self.hidden(place) else ""
            return "write"
        return "write" if attempt.error in _UNSEEN and self.absent(place) else ""

    def unread(self, attempt: Attempt, place: Place) -> bool:
        if place.kind == "missing" or not self.hidden(place):
            return False
        if not attempt.error:
            return self.kinds.get(place.path) == "blank"
        return attempt.error in _UNSEEN

    def absent(self, place: Place) -> bool:
        """Whether the host has what the box has not, so that there was something to write to."""
        if place.kind != "missing":
            return self.shows(place.path) in _HIDING
        parent = self.look(posixpath.dirname(place.path))
        return parent.kind == "directory" and self.shows(parent.path) in {"mask", "blank"}

    def hidden(self, place: Place) -> bool:
        """Whether it lies in the workspace and the box hides it."""
        return self.ours(place.path) and self.shows(place.path) in _HIDING

    def ours(self, path: str) -> bool:
        """Whether it lies in the workspace, of which a project may lie elsewhere."""
        return inside(path, self.scene.root) or inside(path, self.scene.directory)

    def shows(self, path: str) -> Kind:
        """What the box has at a real path."""
        while path not in self.kinds:
            if path == "/":
                return "read"
            path = posixpath.dirname(path)
        return self.kinds[path]

    def package(self, attempt: Attempt, place: Place, access: Access) -> str:
        if access != "read" or "/node_modules/" not in attempt.name or not place.links:
            return ""
        path = place.path
        while path != "/" and path not in self.scene.packages:
            path = posixpath.dirname(path)
        return self.scene.packages.get(path, "")

    def connection(self, attempt: Attempt) -> Iterator[Finding]:
        """The finding that a connection is, if it is one."""
        host, _, port = attempt.name.rpartition(":")
        host = host.strip("[]")
        if attempt.error not in _UNREACHED or _is_loopback(host) or attempt.name in self.refused:
            return
        if not any(pattern.matches(host, int(port)) for pattern in self.ignored_hosts):
            yield Finding("network", attempt.name, past_proxy=self.has_proxy)


class _Patterns:
    """The paths that a list of `ignore` or `deny` names; with `look`, by where they lead as well."""

    def __init__(
        self, texts: Iterable[str], access: Listed, scene: Scene, look: Look | None = None
    ) -> None:
        self.paths: set[str] = set()
        self.globs: list[tuple[str, Matcher]] = []
        for text in texts:
            if text.startswith("**/") and look is None:
                self.globs.append(("/", Matcher([text])))
                continue
            grant = parse(text, access, directory=scene.directory, home=scene.home)
            if grant.pattern:
                self.globs.append((grant.path, Matcher([grant.pattern])))
            else:
                self.paths.add(grant.path)
            if look is not None:
                self.paths.add(look(literal(grant)).path)

    def match(self, path: str) -> bool:
        """Whether one of them names this absolute path, or a directory above it."""
        return inside_any(path, self.paths) or any(
            inside(path, start) and _fits(matcher, path[len(start) :].strip("/"))
            for start, matcher in self.globs
        )


_Denial = tuple[str, str, _Patterns]


def _fits(matcher: Matcher, path: str) -> bool:
    """Whether it matches, or is the directory of which a pattern names all that is in it."""
    return matcher.matches(path) or matcher.matches(f"{path}/\x01")


def spelled(path: str, scene: Scene) -> str:
    """An absolute real path as a config of the project would name it."""
    if inside(path, scene.directory) or inside(path, scene.root):
        return posixpath.relpath(path, scene.directory)
    if scene.home != "/" and inside(path, scene.home):
        return "~" + path[len(scene.home.rstrip("/")) :]
    return path


def _hosts(texts: tuple[str, ...]) -> "tuple[Pattern, ...]":
    if not texts:
        return ()
    from vxwatch.hosts import patterns  # noqa: PLC0415 - few tasks have any, and it takes its time

    return patterns(texts)


def _is_loopback(host: str) -> bool:
    from ipaddress import ip_address  # noqa: PLC0415 - few tasks connect

    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


# From many findings to few


def _together(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings, with directories in the place of many of their files."""
    kept = list(found)
    made = {f.name for f in kept if f.access == "write" and f.name.endswith("/")}
    kept = [f for f in kept if f.access != "write" or not below_one(f.name, made - {f.name})]
    while crowd := _crowded(kept):
        files = [f for f in kept if _crowd(f) == crowd]
        parent = parent_of(files[0].name)
        whole = replace(files[0], name=f"{parent}/", files=sum(f.files for f in files))
        index = kept.index(files[0])
        kept = [f for f in kept if f not in files]
        kept.insert(index, whole)
    return tuple(kept)


def below_one(name: str, directories: set[str]) -> bool:
    """Whether one of these directories holds the name, or is it."""
    return any(inside(name.rstrip("/"), directory.rstrip("/")) for directory in directories)


def _crowd(finding: Finding) -> _Crowd:
    """What the files of one crowd have in common."""
    return finding.access, parent_of(finding.name), finding.denied


def _crowded(found: Iterable[Finding]) -> _Crowd | None:
    """A directory of the project, or of a sibling, in which many files were denied."""
    counts: dict[_Crowd, int] = {}
    for finding in found:
        parent = parent_of(finding.name)
        if finding.access == "network" or not parent.strip("./~"):
            continue
        if parent.startswith("/") or finding.name.startswith("~"):
            continue  # nobody should be told to open a directory of the system for writing
        counts[_crowd(finding)] = counts.get(_crowd(finding), 0) + 1
    return next((crowd for crowd, count in counts.items() if count > MOST_FILES), None)


def parent_of(name: str) -> str:
    """The directory in which the file or directory of this name lies."""
    return posixpath.dirname(name.rstrip("/"))
