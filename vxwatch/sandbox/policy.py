"""From what a task is granted and what lies where, to the mounts of its box.

Everything is a path with a meaning; the more specific path wins, and at the same path the
stronger meaning. So a grant shows through a wall above it, a wall hides a part of a grant above
it, and the order of the config never counts. What is denied comes last and takes back all below
it. Every mount but a desk shows the host's file of the same path.
Nothing here looks at a disk or speaks of bubblewrap.
"""

import posixpath
from bisect import insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Literal

from vxwatch.sandbox.grants import Place
from vxwatch.sandbox.paths import in_order, inside, inside_any

Entry = Literal["file", "directory", "link"]
"""What a name in a directory is."""

Kind = Literal[
    "read",  # the host's file or directory, read-only
    "write",  # the same, writable
    "mask",  # an empty directory in place of the host's; only what is mounted in it shows
    "blank",  # an empty file in place of the host's
    "scratch",  # an empty directory that the task may fill; gone with the box
    "desk",  # a directory of vx's own in place of the host's, in which granted files are saved
    "saved",  # such a file; it lies on its desk, so nothing is mounted
    "folder",  # a directory made in a mask
    "link",  # a symbolic link made in a mask
]
_VISIBLE: frozenset[Kind] = frozenset({"read", "write"})
_HIDING: frozenset[Kind] = frozenset({"mask", "blank", "scratch", "desk"})


@dataclass(frozen=True, slots=True)
class Mount:
    """One thing that a box shows at a path.

    `target` is the text of a link. `filled`: something lies in this mask.
    """

    path: str
    kind: Kind
    target: str = ""
    filled: bool = False


@dataclass(frozen=True, slots=True)
class Host:
    """What is hidden on this machine (`blanks` are files), and what programs on PATH need.

    `homes` are those of the masks that hold toolchains beside secrets. All paths are absolute
    and real.
    """

    homes: tuple[str, ...]
    masks: tuple[str, ...]
    scratch: tuple[str, ...]
    blanks: tuple[str, ...] = ()
    tools: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Ground:
    """A task's surroundings and where its grants led. All paths are absolute and real.

    `walls` and `protected` hold candidates; they count where a grant would open them.
    `siblings` lists what lies in the directory of a file in `writes`, by directory: names, with
    the text of those that are links. A file whose directory is not listed is bound alone. `hidden` and
    `kept` are what is denied for reading and for writing. `sockets` are those of the host that
    the task may use, `strangers` others that would show.
    """

    root: str
    directory: str
    temp: str
    baseline: tuple[Place, ...] = ()
    reads: tuple[Place, ...] = ()
    writes: tuple[Place, ...] = ()
    walls: Mapping[str, Entry] = field(default_factory=dict)
    protected: tuple[str, ...] = ()
    siblings: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    hidden: Mapping[str, Entry] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    sockets: tuple[Place, ...] = ()
    strangers: tuple[str, ...] = ()


class _Rank(IntEnum):
    """Which meaning of one path wins."""

    PROTECTED = 0
    SIBLING = 1
    LINK = 2
    KEPT = 3
    TOOL = 4
    MASK = 5
    SCRATCH = 6
    STRANGER = 7
    WALL = 8
    START = 9
    BASELINE = 10
    READ = 11
    WRITE = 12
    DENIED = 13


_COUNTING: Mapping[_Rank, frozenset[Kind]] = {
    _Rank.PROTECTED: frozenset({"write"}),
    _Rank.LINK: _HIDING,
    _Rank.KEPT: frozenset({"write"}),
    _Rank.TOOL: _HIDING,
    _Rank.STRANGER: frozenset({"read"}),
    _Rank.BASELINE: _HIDING,
    _Rank.DENIED: _VISIBLE,
}
"""The surroundings in which a meaning counts; those left out are judged by what they show."""


@dataclass(frozen=True, slots=True)
class _Claim:
    rank: _Rank
    mount: Mount


_Claims = dict[str, _Claim]


def decide(host: Host, ground: Ground) -> tuple[Mount, ...]:
    """The mounts of a box, each directory before what lies in it."""
    claims: _Claims = {}
    _claim_hidden(claims, host, ground)
    _claim_places(claims, _Rank.TOOL, "read", _tools(host, ground))
    for place in ground.baseline:
        rank = _Rank.READ if place.path in ground.walls else _Rank.BASELINE
        _claim_places(claims, rank, "read", (place,))
    _claim_places(claims, _Rank.READ, "read", ground.reads)
    _claim_places(
        claims, _Rank.WRITE, "write", (p for p in ground.writes if not _shared(p, ground))
    )
    for path in ground.protected:
        _claim(claims, _Rank.PROTECTED, Mount(path, "read"))
    for path in ground.strangers:
        _claim(claims, _Rank.STRANGER, Mount(path, "blank"))
    _claim_places(claims, _Rank.BASELINE, "read", ground.sockets)
    _claim_files(claims, ground)
    _take_back(claims, ground)
    mounts = _with_start(list(_nest(claims)), ground.directory)
    return tuple(_fill(list(_with_parents(_pinned(mounts)))))


def shows(mounts: Iterable[Mount], path: str) -> Kind:
    """What a box with these mounts has at the path: what is mounted there, or nearest above."""
    above = [m for m in mounts if m.kind not in {"link", "folder"} and inside(path, m.path)]
    return above[-1].kind if above else "read"


def _claim(claims: _Claims, rank: _Rank, mount: Mount) -> None:
    known = claims.get(mount.path)
    if known is None or known.rank < rank:
        claims[mount.path] = _Claim(rank, mount)


def _claim_hidden(claims: _Claims, host: Host, ground: Ground) -> None:
    for path in host.masks:
        _claim(claims, _Rank.MASK, Mount(path, "mask"))
    for path in host.scratch:
        _claim(claims, _Rank.SCRATCH, Mount(path, "scratch"))
    rank = _Rank.START if ground.directory == ground.root else _Rank.WALL
    _claim(claims, rank, Mount(ground.root, "mask"))
    for path in host.blanks:
        _claim(claims, _Rank.MASK, Mount(path, "blank"))
    for path, entry in ground.walls.items():
        _claim(claims, _Rank.WALL, _hide(path, entry))
    # A member that is a link may lie outside of the root; it is as closed as the rest.
    if not inside(ground.directory, ground.root):
        _claim(claims, _Rank.WALL, Mount(ground.directory, "mask"))
    _claim(claims, _Rank.SCRATCH, Mount(ground.temp, "scratch"))


def _claim_places(claims: _Claims, rank: _Rank, kind: Kind, places: Iterable[Place]) -> None:
    for place in places:
        _claim(claims, rank, Mount(place.path, kind))
        _claim_links(claims, place)


def _claim_links(claims: _Claims, place: Place) -> None:
    for path, target in place.links:
        _claim(claims, _Rank.LINK, Mount(path, "link", target))


def _tools(host: Host, ground: Ground) -> Iterator[Place]:
    """Tools outside of the workspace; a workspace that is a whole home keeps its tools."""
    homes = {path for path in host.homes if inside(path, ground.root)}
    for tool in host.tools:
        if not inside(tool.path, ground.root) or inside_any(tool.path, homes):
            yield tool


def _shared(place: Place, ground: Ground) -> bool:
    return place.kind != "directory" and posixpath.dirname(place.path) in ground.siblings


def _claim_files(claims: _Claims, ground: Ground) -> None:
    """Lay granted files on desks, beside what their directories show anyway."""
    files = [place for place in ground.writes if _shared(place, ground)]
    denied = ground.hidden.keys() | set(ground.kept)
    closed = [place for place in files if inside_any(place.path, denied)]
    _claim_places(claims, _Rank.READ, "read", closed)
    names = {place.path for place in files} - {place.path for place in closed}
    for place in files:
        _claim_links(claims, place)
    around = list(_nest(claims)) if names else []
    for parent in {posixpath.dirname(name) for name in names}:
        shown = shows(around, parent)
        if shown == "write":
            continue
        _claim(claims, _Rank.WRITE, Mount(parent, "desk"))
        if shown == "read":
            _claim_siblings(claims, parent, ground.siblings[parent])
    for name in names:
        if shows(around, posixpath.dirname(name)) != "write":
            claims[name] = _Claim(_Rank.WRITE, Mount(name, "saved"))


def _claim_siblings(claims: _Claims, parent: str, entries: Mapping[str, str | None]) -> None:
    for name, target in entries.items():
        path = posixpath.join(parent, name)
        if target is None:
            _claim(claims, _Rank.SIBLING, Mount(path, "read"))
        else:
            _claim(claims, _Rank.LINK, Mount(path, "link", target))


def _hide(path: str, entry: Entry) -> Mount:
    return Mount(path, "mask" if entry == "directory" else "blank")


def _take_back(claims: _Claims, ground: Ground) -> None:
    """Let what is denied win over every grant at it or below it."""
    if not ground.hidden and not ground.kept:
        return
    hidden, kept = ground.hidden.keys(), frozenset(ground.kept)
    for path, claim in tuple(claims.items()):
        if claim.mount.kind in {"scratch", "mask"}:
            continue  # nothing of the host's is there
        if inside_any(path, hidden):
            del claims[path]
        elif claim.mount.kind == "write" and inside_any(path, kept):
            claims[path] = replace(claim, mount=Mount(path, "read"))
    for path in kept:
        _claim(claims, _Rank.KEPT, Mount(path, "read"))
    for path, entry in ground.hidden.items():
        if path not in claims:
            _claim(claims, _Rank.DENIED, _hide(path, entry))


def _nest(claims: _Claims) -> Iterator[Mount]:
    """The claims that change something where they stand."""
    above: list[Mount] = [Mount("/", "read")]
    for path in sorted(claims, key=in_order):
        while not inside(path, above[-1].path):
            above.pop()
        claim = claims[path]
        if claim.mount.kind == above[-1].kind == "scratch":
            yield Mount(path, "folder")  # as good, and each mount costs
        elif _counts(claim, above[-1].kind):
            yield claim.mount
            if claim.mount.kind not in {"link", "folder"}:
                above.append(claim.mount)


def _pinned(mounts: Iterable[Mount]) -> Iterator[Mount]:
    """The mounts, and the directories between each and the write grant around it.

    A mount goes along when a directory above it is renamed, and its old path is free for
    another file. A directory that is mounted on itself cannot be renamed.
    """
    above: list[Mount] = [Mount("/", "read")]
    for mount in mounts:
        while not inside(mount.path, above[-1].path):
            above.pop()
        if above[-1].kind == "write":
            for path in _between(mount.path, above[-1].path):
                above.append(Mount(path, "write"))
                yield above[-1]
        yield mount
        if mount.kind not in {"link", "folder"}:
            above.append(mount)


def _between(path: str, start: str) -> list[str]:
    """The directories strictly between the two, outermost first."""
    found = []
    parent = posixpath.dirname(path)
    while parent != start:
        found.append(parent)
        parent = posixpath.dirname(parent)
    return found[::-1]


def _with_start(mounts: list[Mount], directory: str) -> list[Mount]:
    """The mounts, and the directory that the command starts in, also where nothing grants it."""
    if shows(mounts, directory) not in _VISIBLE and directory not in {m.path for m in mounts}:
        insort(mounts, Mount(directory, "folder"), key=lambda mount: in_order(mount.path))
    return mounts


def _with_parents(mounts: Iterable[Mount]) -> Iterator[Mount]:
    """The mounts, and the directories that lead to each from the mask or scratch around it.

    bwrap would make them too, but closed to everybody but their owner.
    """
    above: list[Mount] = [Mount("/", "read")]
    made: set[str] = set()
    for mount in mounts:
        while not inside(mount.path, above[-1].path):
            above.pop()
        if above[-1].kind not in _VISIBLE:
            yield from _leading(mount.path, above[-1].path, made)
        yield mount
        made.add(mount.path)
        if mount.kind not in {"link", "folder"}:
            above.append(mount)


def _leading(path: str, start: str, made: set[str]) -> Iterator[Mount]:
    """The directories strictly between the two, outermost first, that are not made yet."""
    for directory in _between(path, start):
        if directory not in made:
            made.add(directory)
            yield Mount(directory, "folder")


def _counts(claim: _Claim, around: Kind) -> bool:
    """Whether the claim changes what its surroundings show anyway."""
    kind = claim.mount.kind
    if claim.rank in _COUNTING:
        return around in _COUNTING[claim.rank]
    if claim.rank is _Rank.START:
        return True  # even in a home, which is a mask too: the command starts there
    if kind == "blank":
        return around not in {"mask", "desk"}
    return kind in {"scratch", "desk"} or kind != around


def _fill(mounts: list[Mount]) -> Iterator[Mount]:
    for index, mount in enumerate(mounts):
        following = mounts[index + 1].path if index + 1 < len(mounts) else "/"
        filled = mount.kind == "mask" and inside(following, mount.path)
        yield replace(mount, filled=True) if filled else mount
