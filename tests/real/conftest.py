"""What tests of real boxes and of a real browser share."""

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.harness.boxes import Site, make_site
from tests.harness.webapp import node_modules

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture
def site(temp_home: str) -> Iterator[Site]:
    """A workspace whose tasks run in real boxes."""
    root = os.path.join(temp_home, "site")
    os.mkdir(root)
    yield make_site(os.path.join(root, "ws"))
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Browser]":
    """A Chromium for all tests of a module."""
    from tests.harness.browsing import chromium

    with chromium(str(tmp_path_factory.mktemp("home"))) as running:
        yield running


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What npm installs of the example application."""
    return node_modules(str(tmp_path_factory.mktemp("webapp")))
