"""Where the cache of a workspace lies, and making it."""

import contextlib
import os

from vxwatch.workspace.gitplace import common_directory

HOME = ".vx"
"""What vx keeps in a workspace, below its root."""

SHARED = "shared"
"""The setting for a cache that all worktrees of one repository share."""

_IGNORE = b"*\n"


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


def make(directory: str) -> None:
    """Make a directory of vx, which git shall not see; the one named `.vx`, if it lies in that.

    Raises OSError.
    """
    head, found, _ = f"{directory}/".rpartition(f"/{HOME}/")
    home = f"{head}/{HOME}" if found else directory
    os.makedirs(directory, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        handle = os.open(f"{home}/.gitignore", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            os.write(handle, _IGNORE)
        finally:
            os.close(handle)
