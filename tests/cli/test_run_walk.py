"""A workspace that is edited at random between runs: each builds what is on disk, and no more.

What runs keep for each other (the workspace, keys, what files held, proofs that nothing is to do)
must never stand for what is there no more. `SOAK` is for how many seconds the walk goes on; a
failure names its seed, which `WALK` sets.
"""

import pytest

from tests.harness.soaking import WALKING, walk
from tests.harness.walk import Walk
from tests.harness.walk_edits import IDLE_EDITS
from tests.harness.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(WALKING + 300)]

_KEEP_ALL = "import vxwatch.session.recall as r; r.MANY = 0"


class RunWalk(Walk):
    """Rounds of edits and a run."""

    def begin(self) -> None:
        """See that everything is built."""
        self._meet("the start")

    def end(self) -> None:
        """Nothing is left."""
        self._ws.nothing_left()

    def _meet(self, what: str) -> None:
        self._run(what)
        differences = "\n".join(self.differences()[:10])
        assert not differences, f"built is not what is there:\n{differences}\n{self._story(what)}"
        if self._chance.random() < 0.3:
            assert "build ran" not in self._run(f"nothing after {what}"), self._story(what)

    def _stand_still(self) -> None:
        self._done = []
        self._ground.file()
        self._meet("a file that was needed")
        for _ in range(3):
            self._edit(self._chance.choice(IDLE_EDITS))
        assert "build ran" not in self._run("standing still"), self._story("standing still")

    def _run(self, what: str) -> str:
        words = ("run", "build", "lint", "all", "--all")
        done = self._ws.in_python(*words, first=_KEEP_ALL)
        self._said = f"{what}: {done.stdout}{done.stderr}"
        return self._said

    def _story(self, what: str) -> str:
        done = "\n  ".join(self._done)
        return f"seed {self._seed}, round {self.rounds}, after {what}:\n  {done}\nvx said:\n{self._said}"


@pytest.mark.soak
def test_what_a_run_built_is_what_is_on_disk(ws: Workspace) -> None:
    walk(lambda seed: RunWalk(ws, seed))
