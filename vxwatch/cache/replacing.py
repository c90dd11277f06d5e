"""Puts a file in place of another, whole or not at all, whoever else does the same just then."""

import contextlib
import os

from vxwatch.cache.place import make


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
