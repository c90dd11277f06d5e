"""Finds the workspace around a directory, and loads all of it or nothing.

Promises that a `Workspace` it returns is whole and checked: one fault in any config, manifest
or dependency means `ConfigError` with every fault of every file, never a workspace with a part
left out. Runs nothing that a repository brings along but configs that are programs, and those
only to load the workspace.
"""

import os
from collections.abc import Iterator, Sequence

from vxwatch.config.load import Reader
from vxwatch.errors import ConfigError, UserError
from vxwatch.model import Workspace
from vxwatch.workspace.manifests import (
    CONFIG,
    PNPM,
    PROGRAM,
    PROGRAM_SETTINGS,
    PYTHON,
    SETTINGS,
    read_members,
    read_place,
    read_pnpm,
    table,
)
from vxwatch.workspace.members import is_member


def find_root(start: str) -> str:
    """The real path of the workspace that a directory belongs to.

    That is the nearest directory at or above `start` with workspace settings, or with a
    package manager's workspace of which `start` is part; else the nearest one with a config.
    Raises `UserError` if there is none, `ConfigError` if a file that decides it is broken.
    """
    start = os.path.realpath(start)
    for directory in _upward(start):
        if _lies(directory, SETTINGS, PROGRAM_SETTINGS) or _is_part(start, directory):
            return directory
    for directory in _upward(start):
        if _has_config(directory):
            return directory
    raise UserError(
        "no-workspace",
        f"no {CONFIG}, [tool.vx] or {SETTINGS} in {start} or above it",
        f"create a {CONFIG} beside the project's manifest, with a task in it",
    )


def load_workspace(root: str, *, frozen: bool = False) -> Workspace:
    """Everything that configs and manifests below a root say. `root` is absolute and real.

    `frozen` takes the values of programs from `vx.lock`, and refuses others. Raises
    `ConfigError` with all faults of all files.
    """
    from vxwatch.workspace.loading import load  # noqa: PLC0415 - a run whose configs are known reads none

    return load(root, frozen=frozen)


def _upward(directory: str) -> Iterator[str]:
    yield directory
    while directory != (parent := os.path.dirname(directory)):
        directory = parent
        yield directory


def _is_part(start: str, root: str) -> bool:
    """Whether the package manager's workspace of `root`, if it has one, includes `start`.

    It does if a directory between them is a member, or if none of them is a project.
    """
    patterns = _patterns(root)
    if patterns is None:
        return False
    between = [d for d in _upward(start) if len(d) > len(root)]
    return any(is_member(os.path.relpath(d, root), patterns) for d in between) or not any(
        map(_is_project, between)
    )


def _patterns(root: str) -> Sequence[str] | None:
    """The member globs of the manifests in a directory; None if they make no workspace."""
    reader = Reader(root)
    found = [read_members(reader), read_pnpm(reader)]
    broken = tuple(p for p in reader.problems if _decides(reader, p.file))
    if broken:
        raise ConfigError(broken)
    if found == [None, None]:
        return None
    return [pattern for patterns in found for pattern in patterns or ()]


def _decides(reader: Reader, file: str) -> bool:
    """Whether a broken file may well be the manifest of a workspace."""
    return file == PNPM or "workspace" in (Reader(reader.root).text(file) or "")


def _lies(directory: str, *names: str) -> bool:
    return any(os.path.lexists(f"{directory}/{name}") for name in names)


def _is_project(directory: str) -> bool:
    return read_place(Reader(directory), "") is not None


def _has_config(directory: str) -> bool:
    if _lies(directory, CONFIG, PROGRAM):
        return True
    reader = Reader(directory)
    text = reader.text(PYTHON) or ""
    if "vx" not in text:
        return False
    manifest = reader.toml(PYTHON)
    return "vx" in table(manifest.raw, "tool") if manifest else "tool.vx" in text
