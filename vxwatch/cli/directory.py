"""Where vx was called, and what is meant from there."""

import os

from vxwatch.errors import UserError


def given_place(path: str | None) -> str | None:
    """The absolute path of a directory that the command line names, if it does."""
    return None if path is None else os.path.normpath(os.path.join(working_directory(), path))


def working_directory() -> str:
    """The real path of the working directory; `UserError` if it was removed."""
    try:
        return os.path.realpath(os.getcwd())
    except FileNotFoundError:
        raise UserError(
            "no-directory",
            "the working directory does not exist any more",
            'go into one that does: cd "$PWD" if it was made again',
        ) from None
