"""What tests of real boxes share."""

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.harness.boxes import Site, make_site


@pytest.fixture
def site(temp_home: str) -> Iterator[Site]:
    """A workspace whose tasks run in real boxes."""
    root = os.path.join(temp_home, "site")
    os.mkdir(root)
    yield make_site(os.path.join(root, "ws"))
    shutil.rmtree(root)
