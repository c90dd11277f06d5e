"""Everything that the answer "there is nothing to do" depends on, as paths.

While none of them moves, the same command finds the same root, the same configs, the same files
in the same state and the same outputs.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from vxwatch.cache.walk import directories
from vxwatch.workspace.git import Git, Ignores
from vxwatch.workspace.manifests import NAMES
from vxwatch.workspace.sources import sources

if TYPE_CHECKING:
    from vxwatch.cache.files import FileIndex
    from vxwatch.model import Workspace


def footprint(
    workspace: "Workspace", directory: str, index: "FileIndex", ignores: Ignores
) -> set[str] | None:
    """Paths, absolute or relative to the root; None where more counts than they can show.

    Links may lead to what no path here shows, and git's settings say what only git can tell.
    `directory` is where vx was called.
    """
    root = workspace.root
    projects = [project.dir for project in workspace.projects.values()]
    above = {os.path.dirname(path) for path in workspace.config_files}
    places_of_configs = above.union(projects, workspace.config_directories)
    if any(_leads_away(root, place) for place in places_of_configs):
        return None
    if any(os.path.islink(f"{root}/{path}") for path in workspace.config_files):
        return None

    def ignored(inner: list[str]) -> set[str]:
        return ignores.ignored([place for place in inner if not index.holds(place)])

    places = directories(root, ignored)
    listing = sources(Git(root), places)
    if listing is None:
        return None
    return {
        *workspace.config_files,
        *workspace.config_directories,
        *_deciding(directory),
        *projects,
        *workspace.member_parents,
        *workspace.bare_members,
        *places,
        *listing,
        *index.paths,
    }


def _leads_away(root: str, place: str) -> bool:
    path = f"{root}/{place}".rstrip("/")
    return os.path.realpath(path) != path


def _deciding(directory: str) -> Iterator[str]:
    """What would make another directory the root of the workspace, if it were there."""
    while True:
        yield from (os.path.join(directory, name) for name in NAMES)
        if directory == "/":
            return
        directory = os.path.dirname(directory)
