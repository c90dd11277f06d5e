"""Fixtures for all tests. `nothing_outlives_the_test` stands around every one of them."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.harness.leaks import LeakCheck
from tests.harness.ports import Ports
from tests.harness.processes import adopt_orphans


def pytest_configure() -> None:
    adopt_orphans()
    # Examples take the time that the machine's other work leaves them.
    settings.register_profile("vx", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("vx")


@pytest.fixture(scope="session")
def temp_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A short directory of this test process, in which each test's TMPDIR lies."""
    tmp_path_factory.getbasetemp()  # pytest chooses its place now, not in the first TMPDIR
    home = tempfile.mkdtemp(prefix="tvx-")
    os.chmod(home, 0o755)
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def port_block() -> Iterator[Ports]:
    """The host ports that belong to this test process."""
    ports = Ports()
    yield ports
    ports.close()


@pytest.fixture(autouse=True)
def nothing_outlives_the_test(temp_home: str, port_block: Ports) -> Iterator[None]:
    """Fail a test that leaves a process, a port or a temp file, and remove what it left."""
    check = LeakCheck(temp_home, port_block)
    check.begin()
    yield
    if left := check.end():
        pytest.fail("left behind:\n  " + "\n  ".join(left), pytrace=False)


@pytest.fixture
def free_port(port_block: Ports) -> Callable[[], int]:
    """Gives free host ports; each must be free again when the test is over."""
    return port_block.take
