"""Where vx was called."""

import os

from vxwatch.errors import UserError


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
