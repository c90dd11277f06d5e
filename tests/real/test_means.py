"""How long tasks took before is looked up once, and only by a pass in which order matters."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.harness.workspaces import project, workspace
from vxwatch.cache.history import Recorder
from vxwatch.cache.reuse import Cache
from vxwatch.cache.store import Store
from vxwatch.events import Event, Notice, Outcome
from vxwatch.model import Resources
from vxwatch.process.machine import Machine
from vxwatch.session.means import Means

if TYPE_CHECKING:
    from vxwatch.session.session import Session

NAMES = ("a", "b", "c", "d")
G = 1 << 30


class Standing:
    """What of a session its means need."""

    def __init__(self, root: Path, **claims: Resources) -> None:
        tasks: dict[str, Any] = {name: {"command": "true"} for name in NAMES}
        for name, resources in claims.items():
            tasks[name]["resources"] = resources
        tasks["group"] = {"command": None, "depends_on": ["a"]}
        self.workspace = workspace(project("p", tasks), root=str(root))
        self.known = self.plan = self
        self.servers: frozenset[str] = frozenset()
        self.cache: Cache | None = None
        self.asked = 0
        self.looked = 0
        self.told: list[Event] = []
        self._place = str(root / "cache")

    def emit(self, event: Event) -> None:
        self.told.append(event)

    def look(self) -> Machine:
        self.looked += 1
        return Machine(2.0, G)

    def open_cache(self) -> Cache:
        self.asked += 1
        self.cache = Cache(self.workspace.root, {}, lambda: Store(self._place), lambda *_: None)
        return self.cache

    def means(self) -> Means:
        return Means(cast("Session", self), self.look)

    def took(self, **seconds: float) -> None:
        with Store(self._place) as store:
            recorder = Recorder(store, self.workspace.root, "vx run")
            for name, one in seconds.items():
                recorder.ended(Outcome(f"p#{name}", "ran", 0, one), None, 1)
            recorder.end(None)


def ids(*names: str) -> list[str]:
    return [f"p#{name}" for name in names]


@pytest.fixture
def standing(tmp_path: Path) -> Iterator[Callable[..., Standing]]:
    made: list[Standing] = []

    def make(**claims: Resources) -> Standing:
        made.append(Standing(tmp_path, **claims))
        return made[-1]

    yield make
    for one in made:
        if one.cache is not None:
            one.cache.close()


def test_they_are_looked_up_once_and_only_where_tasks_wait(
    standing: Callable[..., Standing],
) -> None:
    session = standing()
    session.took(a=9.0, b=2.0, c=4.0)
    means = session.means()
    assert means.costs(ids("a", "b"), 2).seconds == {}
    assert session.asked == 0
    for _ in range(3):
        costs = means.costs(ids("a", "b", "d", "group"), 2)
        assert costs.seconds == {"p#a": 9.0, "p#b": 2.0, "p#group": 0.0}
        assert costs.usual == 4.0
    assert (session.asked, session.looked) == (1, 0)
    means.learn(Outcome("p#d", "ran", 0, 7.0))
    means.learn(Outcome("p#a", "failed", 1, 0.1))
    assert means.costs(ids("a", "d"), 1).seconds == {"p#a": 9.0, "p#d": 7.0}
    assert session.asked == 1


def test_where_nothing_is_known_all_take_a_second(standing: Callable[..., Standing]) -> None:
    costs = standing().means().costs(ids(*NAMES), 1)
    assert (costs.seconds, costs.usual) == ({}, 1.0)


@pytest.mark.parametrize(
    ("needs", "said"),
    [
        (Resources(cpus=3, memory=1), "p#a runs alone: it needs 3 cores, and there are 2"),
        (Resources(memory=2 * G), "p#a runs alone: it needs 2G of memory, and there is 1G"),
        (Resources(cpus=2, memory=G), ""),
    ],
)
def test_the_machine_is_looked_at_once_and_what_it_has_not_is_told_once(
    standing: Callable[..., Standing], needs: Resources, said: str
) -> None:
    session = standing(a=needs)
    means = session.means()
    assert means.costs(ids("b"), 1).capacity == {}
    assert session.looked == 0
    for _ in range(2):
        costs = means.costs(ids("a", "b"), 1)
        assert costs.capacity == {"cpus": 2.0, "memory": float(G)}
        assert list(costs.claims) == ["p#a"]
    assert session.looked == 1
    assert session.told == ([Notice(said, "", "warning")] if said else [])
