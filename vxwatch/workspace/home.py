"""What vx keeps in a workspace: making the place, and putting files there.

A file is put in place of another whole or not at all, whoever else does the same just then.
"""

import contextlib
import os

HOME = ".vx"
"""What vx keeps in a workspace, below its root."""

DOOR = "vx-control"
"""How the name of a directory begins in which a running session can be reached."""

_IGNORE = b"*\n"


def make(directory: str) -> None:
    """Make a directory of vx, which git shall not see; the one named `.vx`, if it lies in that.

    A workspace that is gone is not made anew. Raises OSError.
    """
    head, found, below = f"{directory}/".rpartition(f"/{HOME}/")
    home = f"{head}/{HOME}" if found else directory
    if not found:
        os.makedirs(directory, exist_ok=True)
    else:
        path = head
        for name in (HOME, *filter(None, below.split("/"))):
            path = f"{path}/{name}"
            with contextlib.suppress(FileExistsError):
                os.mkdir(path)
    with contextlib.suppress(FileExistsError):
        handle = os.open(f"{home}/.gitignore", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            os.write(handle, _IGNORE)
        finally:
            os.close(handle)


def has_session(root: str) -> bool:
    """Whether a session that stays may be at work in the workspace: it keeps outputs up to date."""
    try:
        return any(name.startswith(DOOR) for name in os.listdir(f"{root}/{HOME}"))
    except OSError:
        return False


def replace(path: str, content: bytes) -> None:
    """Give the file of ours at an absolute path this content; its directory is made if missing.

    Raises OSError; then what was there is there still. A machine that loses its power in between
    may keep either, or an empty file: who reads it must be able to tell.
    """
    directory, name = os.path.split(path)
    if not os.path.isdir(directory):
        make(directory)
    temporary = f"{directory}/.{name}.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        with open(temporary, "xb") as file:
            file.write(content)
        os.rename(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
