"""Where the repository around a directory keeps its own files, found without running git."""

import os

from vxwatch.config.load import content_of


def git_directory(directory: str) -> str | None:
    """The git directory of the repository or worktree around an absolute directory."""
    while not os.path.lexists(f"{directory}/.git"):
        if directory in ("", "/"):
            return None
        directory = os.path.dirname(directory)
    place = f"{directory}/.git"
    if os.path.isdir(place):
        return place
    pointed = _first_line(place)
    if pointed is None or not pointed.startswith("gitdir: "):
        return None
    return os.path.normpath(os.path.join(directory, pointed.removeprefix("gitdir: ")))


def common_directory(directory: str) -> str | None:
    """What all worktrees of the repository around an absolute directory share."""
    place = git_directory(directory)
    if place is None:
        return None
    common = _first_line(f"{place}/commondir")
    return place if common is None else os.path.normpath(os.path.join(place, common))


def _first_line(path: str) -> str | None:
    try:
        return os.fsdecode(content_of(path)).partition("\n")[0].removesuffix("\r")
    except OSError:
        return None
