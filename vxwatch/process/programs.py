"""Where the programs are that vx itself runs: sh, git, bwrap, strace.

A task must not be able to put its own there. Under `npx`, or with a `.` in PATH, the user's PATH
begins inside the workspace; such entries are passed over, and so is a program elsewhere that is
a link into the workspace.
"""

import os


def resolve(name: str, path: str, workspace_root: str) -> str | None:
    """The absolute path of the first such program on `path`, or None.

    `workspace_root` is absolute and real.
    """
    for directory in path.split(os.pathsep):
        program = os.path.join(directory, name)
        if not os.path.isabs(directory) or not os.path.isfile(program):
            continue
        if os.access(program, os.X_OK) and not _touches(workspace_root, directory, program):
            return program
    return None


def _touches(root: str, *paths: str) -> bool:
    """Whether one of the paths lies in the root, as it is written or through links."""
    spellings = {spelling for path in paths for spelling in (path, os.path.realpath(path))}
    return any(os.path.commonpath((root, spelling)) == root for spelling in spellings)
