"""From what a task is granted and what lies where, to the mounts of its box.

Everything is a path with a meaning; the more specific path wins, and at the same path the
stronger meaning. So a grant shows through a wall above it, a wall hides a part of a grant above
it, and the order of the config never counts. Every mount shows the host's file of the same path.
Nothing here looks at a disk or speaks of bubblewrap.
"""

import posixpath
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
    "folder",  # a directory made in a mask
    "link",  # a symbolic link made in a mask
]
_VISIBLE = frozenset({"read", "write"})


@dataclass(frozen=True, slots=True)
class Mount:
    """One thing that a box shows at a path.

    `target` is the text of a link. `sealed`: something lies in this mask, so it is to be made
    read-only once all of that is in place.
    """

    path: str
    kind: Kind
    target: str = ""
    sealed: bool = False


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
    `siblings` lists what lies in the directory of a file in `writes`, by directory. Where it is
    not listed, that file is bound alone, and a save that renames over it fails.
    """

    root: str
    directory: str
    temp: str
    baseline: tuple[Place, ...] = ()
    reads: tuple[Place, ...] = ()
    writes: tuple[Place, ...] = ()
    walls: Mapping[str, Entry] = field(default_factory=dict)
    protected: tuple[str, ...] = ()
    siblings: Mapping[str, Mapping[str, Entry]] = field(default_factory=dict)


class _Rank(IntEnum):
    """Which meaning of one path wins."""

    PROTECTED = 0
    SIBLING = 1
    FOLDER = 2
    TOOL = 3
    MASK = 4
    SCRATCH = 5
    WALL = 6
    START = 7
    BASELINE = 8
    READ = 9
    WRITE = 10


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
    _claim_files(claims, ground)
    return tuple(_seal(list(_with_parents(_nest(claims)))))


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
    if inside(ground.directory, ground.root):
        _claim(claims, _Rank.FOLDER, Mount(ground.directory, "folder"))
    else:
        _claim(claims, _Rank.WALL, Mount(ground.directory, "mask"))
    _claim(claims, _Rank.SCRATCH, Mount(ground.temp, "scratch"))


def _claim_places(claims: _Claims, rank: _Rank, kind: Kind, places: Iterable[Place]) -> None:
    for place in places:
        _claim(claims, rank, Mount(place.path, kind))
        _claim_links(claims, place)


def _claim_links(claims: _Claims, place: Place) -> None:
    for path, target in place.links:
        _claim(claims, _Rank.FOLDER, Mount(path, "link", target))


def _tools(host: Host, ground: Ground) -> Iterator[Place]:
    """Tools outside of the workspace; a workspace that is a whole home keeps its tools."""
    homes = {path for path in host.homes if inside(path, ground.root)}
    for tool in host.tools:
        if not inside(tool.path, ground.root) or inside_any(tool.path, homes):
            yield tool


def _shared(place: Place, ground: Ground) -> bool:
    return place.kind != "directory" and posixpath.dirname(place.path) in ground.siblings


def _claim_files(claims: _Claims, ground: Ground) -> None:
    """Open the directories of granted files for saves by rename, and cover all else in them."""
    files = [place for place in ground.writes if _shared(place, ground)]
    for place in files:
        _claim_links(claims, place)
    names = {place.path for place in files}
    mounts = list(_nest(claims)) if files else []
    for parent in {posixpath.dirname(name) for name in names}:
        around = _kind_at(mounts, parent)
        if around != "write":
            _claim(claims, _Rank.WRITE, Mount(parent, "write"))
            _claim_siblings(claims, parent, ground.siblings[parent], names, around)


def _claim_siblings(
    claims: _Claims, parent: str, entries: Mapping[str, Entry], granted: set[str], around: Kind
) -> None:
    for name, entry in entries.items():
        path = posixpath.join(parent, name)
        if path not in granted:
            mount = Mount(path, "read") if around == "read" else _hide(path, entry)
            _claim(claims, _Rank.SIBLING, mount)


def _hide(path: str, entry: Entry) -> Mount:
    return Mount(path, "mask" if entry == "directory" else "blank")


def _kind_at(mounts: Iterable[Mount], path: str) -> Kind:
    """What the path shows: what is mounted there, or nearest above."""
    above = [m for m in mounts if m.kind not in {"link", "folder"} and inside(path, m.path)]
    return above[-1].kind if above else "read"


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
    between = []
    parent = posixpath.dirname(path)
    while parent != start and parent not in made:
        between.append(parent)
        parent = posixpath.dirname(parent)
    made.update(between)
    yield from (Mount(directory, "folder") for directory in reversed(between))


def _counts(claim: _Claim, around: Kind) -> bool:
    """Whether the claim changes what its surroundings show anyway."""
    kind = claim.mount.kind
    if kind in {"link", "folder"} or claim.rank in {_Rank.TOOL, _Rank.BASELINE}:
        return around not in _VISIBLE
    if claim.rank is _Rank.PROTECTED:
        return around == "write"
    if claim.rank is _Rank.START:
        return True  # even in a home, which is a mask too: the command starts there
    if kind == "blank":
        return around != "mask"
    return kind == "scratch" or kind != around


def _seal(mounts: list[Mount]) -> Iterator[Mount]:
    for index, mount in enumerate(mounts):
        following = mounts[index + 1].path if index + 1 < len(mounts) else "/"
        filled = mount.kind == "mask" and inside(following, mount.path)
        yield replace(mount, sealed=True) if filled else mount
