"""Files that change at random while tasks run: what was built last is what is on disk.

`SOAK` is for how many seconds the walk goes on; some where it is not set. A failure names its
seed, which `WALK` sets.
"""

import os
import random
import time

import pytest

from tests.harness.busy_walk import BusyWalk
from tests.harness.workspace import Workspace

SECONDS = float(os.environ.get("SOAK", "12"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS + 300)]


@pytest.mark.soak
def test_what_was_built_last_is_what_is_on_disk(ws: Workspace) -> None:
    seed = int(os.environ.get("WALK", random.randrange(1 << 30)))
    print(f"WALK={seed}")
    walk = BusyWalk(ws, seed)
    walk.prepare()
    walk.begin()
    walk.until(time.monotonic() + SECONDS)
    walk.end()
    print(f"{walk.rounds} rounds")
