"""What a task was denied, judged from the attempts in its log, and the grants that would allow it.

A read is a finding when the file exists on the host, lies in the workspace and the box hides it:
that a program looks for files which are not there is no finding. A write is one wherever it was
refused but in `/proc`, `/dev` and `/sys` and in the box's own temporary directories. A connection
is one when it went to another machine. Where a path leads is asked of `look`; nothing else here
knows a disk.
"""

import json
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Literal

from vxwatch import hosts
from vxwatch.globs import Matcher
from vxwatch.model import Sandbox
from vxwatch.sandbox.grants import Access as Listed
from vxwatch.sandbox.grants import Place, parse
from vxwatch.sandbox.paths import inside, inside_any
from vxwatch.sandbox.policy import Kind, Mount
from vxwatch.sandbox.tracelog import Attempt

Access = Literal["read", "write", "network"]
Look = Callable[[str], Place]

IGNORED_WRITES = (
    "**/__pycache__/**",
    "**/node_modules/.cache/**",
    "~/.cache/**",
    "~/.npm/_logs/**",
)
"""What programs write by the way and do without: as if each task had it in `ignore.write`."""

MOST_NAMED = 10
"""Findings that are told one by one."""
MOST_FILES = 5
"""Files of one directory that are named; when there are more, the directory is."""

_NO_FINDING = frozenset({"/proc", "/dev", "/sys"})
_HIDING: frozenset[Kind] = frozenset({"mask", "blank", "desk"})
MADE = "EPERM"
"""No error of a `mkdir` on a file system that is there: it stands for one that succeeded."""
_UNSEEN = frozenset({"ENOENT", "ENOTDIR", "EACCES"})
_REFUSED = frozenset({"EROFS", "EACCES", "EPERM", "EBUSY"})
_UNREACHED = frozenset({"ENETUNREACH", "EHOSTUNREACH", "EACCES", "EPERM"})
_NAMESERVER = ":53"
_PROXY = "tell the program of the proxy that HTTP_PROXY names, if it does not look there by itself"


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
    `past_proxy`: the task may connect to some hosts, and did not take the way to them.
    """

    access: Access
    name: str
    files: int = 1
    package: str = ""
    unfolded: bool = False
    past_proxy: bool = False


def judge(
    attempts: Iterable[Attempt], scene: Scene, sandbox: Sandbox, look: Look
) -> tuple[Finding, ...]:
    """The findings, in the order in which they came about, many of one directory as one."""
    return _together(judge_each(attempts, scene, sandbox, look))


def judge_each(
    attempts: Iterable[Attempt], scene: Scene, sandbox: Sandbox, look: Look
) -> tuple[Finding, ...]:
    """The findings, one for each path or address, in the order in which they came about."""
    judge = _Judge(scene, sandbox, look)
    return tuple(dict.fromkeys(finding for attempt in attempts for finding in judge.of(attempt)))


class _Judge:
    """The judgement on one task."""

    def __init__(self, scene: Scene, sandbox: Sandbox, look: Look) -> None:
        self.scene = scene
        self.look = look
        self.has_proxy = bool(sandbox.network)
        self.kinds = {m.path: m.kind for m in scene.mounts if m.kind not in {"link", "folder"}}
        self.ignored = {
            "read": _Patterns(sandbox.ignore_read, "read", scene),
            "write": _Patterns((*IGNORED_WRITES, *sandbox.ignore_write), "write", scene),
        }
        self.ignored_hosts = hosts.patterns(sandbox.ignore_network)

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
            yield Finding(access, name, package=package, unfolded=unfolded)

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
        if attempt.error not in _UNREACHED or _is_loopback(host):
            return
        if not any(pattern.matches(host, int(port)) for pattern in self.ignored_hosts):
            yield Finding("network", attempt.name, past_proxy=self.has_proxy)


class _Patterns:
    """The paths that a list of `ignore` names."""

    def __init__(self, texts: Iterable[str], access: Listed, scene: Scene) -> None:
        self.paths: set[str] = set()
        self.globs: list[tuple[str, Matcher]] = []
        for text in texts:
            if text.startswith("**/"):
                self.globs.append(("/", Matcher([text])))
                continue
            grant = parse(text, access, directory=scene.directory, home=scene.home)
            if grant.pattern:
                self.globs.append((grant.path, Matcher([grant.pattern])))
            else:
                self.paths.add(grant.path)

    def match(self, path: str) -> bool:
        """Whether one of them names this absolute path, or a directory above it."""
        return inside_any(path, self.paths) or any(
            inside(path, start) and _fits(matcher, path[len(start) :].strip("/"))
            for start, matcher in self.globs
        )


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


def _is_loopback(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


# From many findings to few words


def _together(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings, with directories in the place of many of their files."""
    kept = list(found)
    made = {f.name for f in kept if f.access == "write" and f.name.endswith("/")}
    kept = [f for f in kept if f.access != "write" or not _below_one(f.name, made - {f.name})]
    while crowd := _crowded(kept):
        access, parent = crowd
        files = [f for f in kept if f.access == access and _parent(f.name) == parent]
        whole = replace(files[0], name=f"{parent}/", files=sum(f.files for f in files))
        index = kept.index(files[0])
        kept = [f for f in kept if f not in files]
        kept.insert(index, whole)
    return tuple(kept)


def _below_one(name: str, directories: set[str]) -> bool:
    return any(inside(name.rstrip("/"), directory.rstrip("/")) for directory in directories)


def _crowded(found: Iterable[Finding]) -> tuple[Access, str] | None:
    """A directory of the project, or of a sibling, in which many files were denied."""
    counts: dict[tuple[Access, str], int] = {}
    for finding in found:
        parent = _parent(finding.name)
        if finding.access == "network" or not parent.strip("./~"):
            continue
        if parent.startswith("/") or finding.name.startswith("~"):
            continue  # nobody should be told to open a directory of the system for writing
        counts[finding.access, parent] = counts.get((finding.access, parent), 0) + 1
    return next((crowd for crowd, count in counts.items() if count > MOST_FILES), None)


def _parent(name: str) -> str:
    return posixpath.dirname(name.rstrip("/"))


def sentences(found: Iterable[Finding]) -> tuple[str, ...]:
    """What a task did that was denied, in words: each follows the task's name."""
    every = tuple(found)
    said = [_sentence(finding) for finding in every[:MOST_NAMED]]
    if len(every) > MOST_NAMED:
        said.append(f"was denied {len(every) - MOST_NAMED} more")
    return tuple(said)


def _sentence(finding: Finding) -> str:
    name = finding.name + (f" ({finding.files} files)" if finding.files > 1 else "")
    if finding.access == "network":
        if finding.past_proxy:
            return f"connected to {name}, past the proxy that its network is behind"
        if name.endswith(_NAMESERVER):
            return f"looked up a host (at {name}), and nothing grants it the network"
        return f"connected to {name}, which nothing grants"
    verb = "read" if finding.access == "read" else "wrote"
    if finding.unfolded:
        return f"{verb} {name} of the package {finding.package}, whose changes do not run it again"
    if finding.package:
        return f"{verb} {name} of the package {finding.package}, on which it does not depend"
    return f"{verb} {name}, which nothing grants"


def _edge(package: str, *, unfolded: bool) -> str:
    name = json.dumps(package)
    if not unfolded:
        return f"add it: {name} to the dependencies of the project"
    return f'run it after a task of {name}: depends_on = ["^build"], say; or grant and declare its files'


def remedies(found: Iterable[Finding], task: str, sandbox: Sandbox) -> tuple[str, ...]:
    """Lines for the config, each complete: what is granted today and what was missing."""
    every = tuple(found)
    packages = {finding.package: finding.unfolded for finding in every if finding.package}
    said = [_edge(name, unfolded=unfolded) for name, unfolded in packages.items()]
    lists: tuple[tuple[Access, tuple[str, ...]], ...] = (
        ("read", sandbox.read),
        ("write", sandbox.write),
        ("network", sandbox.network),
    )
    for access, granted in lists:
        new = [_grant(f) for f in every if f.access == access and not (f.package or f.past_proxy)]
        new = [name for name in new if not _below_one(name, {*new} - {name})]
        if new:
            complete = dict.fromkeys((*granted, *new))
            said.append(f"allow it: tasks.{key(task)}.sandbox.allow.{access} = {toml(complete)}")
    if any(finding.past_proxy for finding in every):
        said.append(_PROXY)
    return tuple(said)


def _grant(finding: Finding) -> str:
    if finding.access != "network":
        return _writable(finding.name)
    return "HOST" if finding.name.endswith(_NAMESERVER) else finding.name


def _writable(name: str) -> str:
    """A name that a TOML file can hold: the nearest directory where bytes are no text."""
    while name and not name.isprintable() and not _encodes(name):
        name = _parent(name) + "/"
    return name


def _encodes(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def key(name: str) -> str:
    """A name as TOML writes a key."""
    plain = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if plain else json.dumps(name)


def toml(names: Iterable[str]) -> str:
    """A list of texts as TOML writes it."""
    texts = (json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f") for name in names)
    return f"[{', '.join(texts)}]"
