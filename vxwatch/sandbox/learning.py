"""The smallest `allow` table that would have let a task pass, from all that it did.

What it did is judged as if nothing had been granted; each finding then is a path that some grant
must cover. A directory is granted as a whole where most of its files were read, or where nothing
but what the task wrote is in it. Of the disk it knows what `Disk` tells.
"""

import posixpath
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from vxwatch.hosts import EVERY_HOST, NO_HOST, Refusal
from vxwatch.model import Sandbox
from vxwatch.sandbox.advice import key, sentence, toml
from vxwatch.sandbox.findings import MADE, Look, Scene, judge_each
from vxwatch.sandbox.paths import inside
from vxwatch.sandbox.protected import OWN
from vxwatch.sandbox.tracelog import Attempt

_MOST_ENTRIES = 12
"""Grants of single files that somebody still likes to read."""
_REMOVALS = frozenset({"rmdir", "unlinkat", "rename", "renameat", "renameat2"})


@dataclass(frozen=True, slots=True)
class Disk:
    """What lies on the disk, by names relative to the project.

    `files` counts the files below a directory, without what is never a source; `lies` says what
    is at a name, "" if nothing is; `listens` whether a port of the host answers.
    """

    files: Callable[[str], int]
    lies: Callable[[str], str]
    listens: Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class Terms:
    """What the task's config gives and takes while it is learned from, and what its proxy refused.

    Of the files, `sandbox` counts only for what it takes back, which no grant gives.
    """

    sandbox: Sandbox
    refused: Iterable[Refusal] = ()

    def hosts(self) -> tuple[str, ...]:
        """The hosts to grant."""
        refused = (grant for one in self.refused for grant in one.grants)
        names = dict.fromkeys((*self.sandbox.network, *refused))
        return tuple(name for name in names if name != NO_HOST)

    def denies(self) -> Sandbox:
        """A sandbox that takes back the same, and grants nothing."""
        return Sandbox(deny_read=self.sandbox.deny_read, deny_write=self.sandbox.deny_write)


def table(
    attempts: Iterable[Attempt],
    bare: Scene,
    task: str,
    look: Look,
    disk: Disk,
    terms: Terms,
) -> tuple[str, ...]:
    """The lines of the table, ready to paste; `bare` is what a box without grants shows."""
    attempts = tuple(attempts)
    every = judge_each(map(_as_denied, attempts), bare, terms.denies(), look)
    found = [finding for finding in every if not finding.denied]
    writes = _writes({f.name for f in found if f.access == "write"}, disk)
    reads = _reads({f.name for f in found if f.access == "read"}, writes, disk)
    ports = sorted(set(filter(disk.listens, _refused_ports(attempts))))
    hosts = terms.hosts()
    lines = [f"[tasks.{key(task)}.sandbox.allow]"]
    lines += [f"read = {toml(reads)}"] if reads else []
    lines += [f"write = {toml(writes)}"] if writes else []
    lines += [f"network = {_hosts(hosts)}"] if hosts else []
    lines += [f"host_ports = {ports}"] if ports else []
    told = {one.target for one in terms.refused}
    past = [f.name for f in found if f.access == "network" and f.name not in told]
    taken = [f"# it {sentence(finding)}" for finding in every if finding.denied]
    return (*lines, *taken, *_beyond(past, terms), *_removed(attempts, writes, bare))


def _hosts(names: tuple[str, ...]) -> str:
    return "true" if EVERY_HOST in names else toml(names)


def _beyond(past: Iterable[str], terms: Terms) -> Iterable[str]:
    """What of the network no grant would have given it, or not beside these grants."""
    for name in sorted(past):
        if name.endswith(":53"):
            yield "# it looked up hosts by itself, past the proxy that HTTP_PROXY names"
        else:
            yield f"# it connected to {name} past the proxy that HTTP_PROXY names"
    for one in terms.refused:
        if EVERY_HOST in terms.sandbox.network or not one.grants:
            yield f"# it connected to {one.target}, {one.why}"


def _as_denied(attempt: Attempt) -> Attempt:
    """The attempt as it would have gone without a grant."""
    if attempt.error or attempt.wish == "connect":
        return attempt
    return replace(attempt, error="ENOENT" if attempt.wish == "read" else MADE)


def _refused_ports(attempts: Iterable[Attempt]) -> Iterable[int]:
    for attempt in attempts:
        host, _, port = attempt.name.rpartition(":")
        if attempt.error == "ECONNREFUSED" and host in {"127.0.0.1", "[::1]"}:
            yield int(port)


def _removed(attempts: Iterable[Attempt], writes: Iterable[str], bare: Scene) -> Iterable[str]:
    granted = {posixpath.join(bare.directory, name.rstrip("/")) for name in writes}
    removed = {
        posixpath.relpath(path, bare.directory)
        for attempt in attempts
        if attempt.call in _REMOVALS and not attempt.error
        for path in (posixpath.normpath(attempt.name),)
        if path in granted
    }
    for name in sorted(removed):
        yield f"# it removes or renames {name} itself, which a grant of it does not allow"


def _reads(names: AbstractSet[str], writes: Iterable[str], disk: Disk) -> list[str]:
    written = [name.rstrip("/") for name in writes]
    names = {name for name in names if not any(inside(name, at) for at in written)}
    directories = {name for name in names if disk.lies(name) == "directory"}
    grants = _whole(names - directories, disk, lambda read, there: 2 * read > there)
    if sum("/" not in name for name in grants) > _MOST_ENTRIES:
        grants = {".", *(name for name in grants if name.startswith((".", "~", "/")))}
    for name in sorted(directories):
        known = {*grants, *written}
        if posixpath.basename(name) == OWN:
            continue  # whoever lists the project sees it, and nobody needs what is in it
        if name.strip("./") and not any(inside(name, at) or inside(at, name) for at in known):
            grants.add(name)
    return sorted(grants, key=_order)


def _writes(names: AbstractSet[str], disk: Disk) -> list[str]:
    made = {name for name in names if name.endswith("/") and name != "./"}
    files = {n for n in names - made if not any(inside(n, at.rstrip("/")) for at in made)}
    lasting = {name for name in files if disk.lies(name) == "file"}
    grants = _whole(lasting, disk, lambda written, there: written >= there)
    for name in sorted(files - lasting):
        parent = posixpath.dirname(name)
        if any(posixpath.dirname(at) == parent or inside(name, at) for at in grants):
            continue  # a file that is written beside another one and takes its place
        grants.add(parent if parent.strip("./~") and not parent.startswith("/") else name)
    every = {*grants, *(name.rstrip("/") for name in made)}
    least = {n for n in every if not any(n != at and inside(n, at) for at in every)}
    directories = {name.rstrip("/") for name in made} | {n for n in least if n not in files}
    return sorted((f"{n}/" if n in directories else n for n in least), key=_order)


def _whole(names: AbstractSet[str], disk: Disk, enough: Callable[[int, int], bool]) -> set[str]:
    """The names, with directories in the place of those of which enough is named."""
    left = set(names)
    grants: set[str] = set()
    for directory in sorted({d for name in names for d in _above(name)}, key=_depth):
        below = {name for name in left if inside(name, directory)}
        if below and enough(len(below), disk.files(directory)):
            grants.add(directory)
            left -= below
    return grants | left


def _above(name: str) -> Iterable[str]:
    """The directories above a name of the workspace that may be granted as a whole."""
    parent = posixpath.dirname(name)
    while parent.strip("./") and not parent.startswith(("/", "~")):
        yield parent
        parent = posixpath.dirname(parent)


def _depth(name: str) -> tuple[int, str]:
    return name.count("/"), name


def _order(name: str) -> tuple[bool, str]:
    return name.startswith(("..", "~", "/")), name
