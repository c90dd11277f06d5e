"""Where the cache of a workspace lies."""

import os

from vxwatch.workspace.gitplace import common_directory
from vxwatch.workspace.home import HOME

SHARED = "shared"
"""The setting for a cache that all worktrees of one repository share."""


def cache_place(root: str, setting: str | None = None) -> str:
    """The absolute directory of the cache of the workspace at `root`.

    `setting` is None for the usual one, "shared", or a path, relative to the root. A workspace
    in no repository shares with nobody.
    """
    if setting is None:
        return f"{root}/{HOME}/cache"
    if setting == SHARED:
        common = common_directory(root)
        return f"{root}/{HOME}/cache" if common is None else f"{common}/vx/cache"
    return os.path.normpath(os.path.join(root, os.path.expanduser(setting)))
