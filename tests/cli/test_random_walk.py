"""A workspace that is edited at random: what was built last is what is on disk.

`SOAK` is for how many seconds the walk goes on; some where it is not set. A failure names its
seed, which `WALK` sets.
"""

import pytest

from tests.harness.soaking import WALKING, walk
from tests.harness.walk import Walk
from tests.harness.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(WALKING + 300)]


@pytest.mark.soak
@pytest.mark.parametrize("polling", [False, True])
def test_what_was_built_last_is_what_is_on_disk(ws: Workspace, polling: bool) -> None:
    if polling:
        ws.environment = {**ws.environment, "VX_WATCH_POLL": "1"}
    walk(lambda seed: Walk(ws, seed))
