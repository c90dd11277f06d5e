"""What tests of the installed vx share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.ports import Ports
from tests.harness.workspace import Workspace


@pytest.fixture
def ws(tmp_path: Path, port_block: Ports) -> Iterator[Workspace]:
    """An empty workspace; what still runs in it at the end is killed."""
    workspace = Workspace(str(tmp_path / "w"), str(tmp_path / "logs"), port_block.take)
    yield workspace
    workspace.close()
