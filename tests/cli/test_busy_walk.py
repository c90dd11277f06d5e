"""Files that change at random while tasks run: what was built last is what is on disk.

`SOAK` is for how many seconds the walk goes on; some where it is not set. A failure names its
seed, which `WALK` sets.
"""

import pytest

from tests.harness.busy_walk import BusyWalk
from tests.harness.soaking import WALKING, walk
from tests.harness.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(WALKING + 300)]


@pytest.mark.soak
def test_what_was_built_last_is_what_is_on_disk(ws: Workspace) -> None:
    walk(lambda seed: BusyWalk(ws, seed))
