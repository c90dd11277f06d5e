"""How many mounts a sandbox may have, and which grant is told when it needs more. Looks at no disk."""

import posixpath
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from vxwatch.errors import UserError
from vxwatch.sandbox.grants import Grant
from vxwatch.sandbox.paths import inside
from vxwatch.sandbox.policy import Kind, Mount

MOST_MOUNTS = 200
"""Each one costs more than the one before: 3 ms in all with ten, 80 ms with 200, 3 s with 1000."""

_FREE: frozenset[Kind] = frozenset({"link", "folder", "saved"})


def check(mounts: Collection[Mount], sizes: Mapping[Grant, int]) -> None:
    """Raise `UserError` if these are too many; `sizes` counts the paths each grant stands for.

    It names what most of them are for, and the directory to grant instead.
    """
    paths = [mount.path for mount in mounts if mount.kind not in _FREE]
    if len(paths) <= MOST_MOUNTS:
        return
    desks = {mount.path for mount in mounts if mount.kind == "desk"}
    reasons = (*_globs(sizes), *_literals(sizes), *_desks(paths, desks), *_kept(paths, sizes))
    what = f"the sandbox needs {len(paths)} mounts, more than the {MOST_MOUNTS} it can start with"
    if not reasons:
        raise UserError("sandbox-grant", f"{what}: the project depends on too many packages")
    _, why, hint = max(reasons, key=lambda reason: reason[0])
    raise UserError("sandbox-grant", f"{what}; {why}", hint)


def too_many(grant: Grant) -> UserError:
    """The refusal of a glob with more matches than a sandbox starts with quickly."""
    return UserError(
        "sandbox-grant",
        f"{grant.words} matches more than {MOST_MOUNTS} paths, more than a sandbox can start with",
        f"{_verb(grant)} the directory: {_directory(grant.path)}",
    )


_Reason = tuple[int, str, str]
"""How many mounts are for it, what it is, and what to do instead."""


def _globs(sizes: Mapping[Grant, int]) -> Iterator[_Reason]:
    for grant, size in sizes.items():
        if size > 1:
            hint = (
                f"{_verb(grant)} a directory instead of what lies in it: {_directory(grant.path)}"
            )
            yield size, f"{grant.words} stands for {size} paths", hint


def _literals(sizes: Mapping[Grant, int]) -> Iterator[_Reason]:
    """The directories of which many paths are named one by one."""
    counts = Counter(
        (grant.access, posixpath.dirname(grant.path)) for grant, size in sizes.items() if size == 1
    )
    for (access, parent), count in counts.items():
        verb = "name" if "deny" in access else "grant"
        why = f"{count} paths of {_directory(parent)} are named one by one for {access}"
        yield count, why, f"{verb} the directory: {_directory(parent)}"


def _desks(paths: Iterable[str], desks: Iterable[str]) -> Iterator[_Reason]:
    """The directories of which a file is to be written, and all else can be read."""
    counts = Counter(map(posixpath.dirname, paths))
    for desk in desks:
        directory, count = _directory(desk), counts[desk]
        why = f"beside a file that may be written, {count} names of {directory} can be read"
        yield count, why, f"grant the directory: {directory}, or keep the file in one of its own"


def _kept(paths: Iterable[str], sizes: Mapping[Grant, int]) -> Iterator[_Reason]:
    """The grants of directories in which much stays closed, or as it is."""
    paths = tuple(paths)
    for grant in sizes:
        if "deny" in grant.access or grant.pattern:
            continue
        named = sum(size for other, size in sizes.items() if inside(other.path, grant.path))
        count = sum(inside(path, grant.path) for path in paths) - named
        why = (
            f"{count} of them are for projects, repositories and configs in {grant.words}, "
            "which stay closed or as they are"
        )
        yield count, why, f"grant what the task needs in {_directory(grant.path)}"


def _directory(path: str) -> str:
    return f"{path.rstrip('/')}/"


def _verb(grant: Grant) -> str:
    return "name" if "deny" in grant.access else "grant"
