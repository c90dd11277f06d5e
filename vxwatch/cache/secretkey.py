"""The key with which values of secrets are hashed, so that no hash of one can be guessed from.

It lies in the user's home, far from every cache, readable to its owner alone. Who loses it has
tasks with secrets run once more.
"""

import contextlib
import os
from collections.abc import Mapping

SIZE = 32
"""Bytes."""


def secret_key(environ: Mapping[str, str]) -> bytes:
    """The user's key, made if there is none; where it cannot be kept, one for this time alone."""
    home = environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    path = f"{home}/vx/secret-key"
    if not home.startswith("/"):
        return os.urandom(SIZE)
    with contextlib.suppress(OSError):
        return _read(path) or _make(path)
    return os.urandom(SIZE)


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            key = file.read()
    except FileNotFoundError:
        return None
    return key if len(key) == SIZE else None


def _make(path: str) -> bytes:
    """Put a new key in place, unless another process was faster."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    temporary = f"{path}.{os.getpid()}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, os.urandom(SIZE))
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.close(handle)
        os.unlink(temporary)
    key = _read(path)
    if key is None:
        os.unlink(path)  # it was damaged
        raise OSError("the key was cut")
    return key
