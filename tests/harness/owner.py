"""Does a part of a test as a user whom permissions bind, also where the test runs as root."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def as_an_owner() -> Iterator[str]:
    """A directory of a user whom permissions bind, who does what the block does."""
    place = tempfile.mkdtemp()
    root = os.geteuid() == 0
    if root:
        os.chmod(os.path.dirname(place), 0o755)
        os.chown(place, 65534, 65534)
        os.seteuid(65534)
    try:
        yield place
    finally:
        if root:
            os.seteuid(0)
        shutil.rmtree(place)
