"""Pruning takes the longest unused, and what crashes left; a history outlives what it tells of."""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from vxwatch.cache import history
from vxwatch.cache.key import Key
from vxwatch.cache.ondisk import NOTHING
from vxwatch.cache.prune import Amount, due, prune, total
from vxwatch.cache.store import ARTIFACTS, TEMPORARY, Entry, Store, pack_presence
from vxwatch.events import Outcome

DAY = 86_400


class Clock:
    def __init__(self) -> None:
        self.now = 10**18

    def __call__(self) -> int:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += int(seconds * 1e9)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    with Store(str(tmp_path / "c"), clock) as found:
        yield found


def save(store: Store, key: str, artifact: str, size: int = 1000) -> None:
    with store.writing() as pending:
        pending.file.write(b"x" * size)
        entry = Entry(key, "app#build", store.clock(), 1.0, artifact, size, b"", b"")
        store.save(entry, "/w", NOTHING, pending)


def kept(store: Store) -> list[str]:
    with store.reading() as connection:
        return [key for (key,) in connection.execute("SELECT key FROM entries ORDER BY used")]


def artifacts(store: Store) -> set[str]:
    return {
        name.partition(".")[0]
        for _, _, names in os.walk(f"{store.directory}/{ARTIFACTS}")
        for name in names
    }


def test_the_longest_unused_goes_first(store: Store, clock: Clock) -> None:
    for number in range(5):
        save(store, f"k{number}", f"aa{number}")
        clock.passes(DAY)
    store.note("/w", "app#build", "k0", pack_presence(NOTHING))  # used again
    assert total(store) == Amount(5, 5000)
    assert due(store, None, 3000)
    assert prune(store, None, 3000, dry=True) == Amount(2, 2000)
    assert len(kept(store)) == 5
    assert prune(store, None, 3000) == Amount(2, 2000)
    assert kept(store) == ["k3", "k4", "k0"]
    assert artifacts(store) == {"aa3", "aa4", "aa0"}
    assert not due(store, None, 3000)


def test_what_is_old_goes(store: Store, clock: Clock) -> None:
    save(store, "old", "aa")
    clock.passes(3 * DAY)
    save(store, "young", "bb")
    clock.passes(DAY)
    assert prune(store, 2 * DAY, None) == Amount(1, 1000)
    assert kept(store) == ["young"]
    assert prune(store, 0, None) == Amount(1, 1000)
    assert artifacts(store) == set()


def test_an_artifact_that_is_still_needed_stays(store: Store, clock: Clock) -> None:
    save(store, "old", "aa")
    clock.passes(DAY)
    save(store, "young", "aa")
    assert total(store) == Amount(2, 1000)
    assert prune(store, 0.5 * DAY, None) == Amount(1, 0)
    assert artifacts(store) == {"aa"}


def test_pruning_is_due_when_it_would_take_something(store: Store, clock: Clock) -> None:
    assert not due(store, DAY, 0)
    save(store, "k", "aa")
    save(store, "l", "aa")
    assert not due(store, DAY, 1000)
    assert due(store, DAY, 999)
    clock.passes(2 * DAY)
    assert due(store, DAY, 10_000)
    assert not due(store, 3 * DAY, None)


def test_an_artifact_that_is_being_read_stays_readable(store: Store) -> None:
    save(store, "k", "aa")
    with open(store.path("aa"), "rb") as file:
        prune(store, 0, 0)
        assert artifacts(store) == {"aa"} or file.read() == b"x" * 1000


def test_what_crashes_left_goes_and_what_is_being_written_stays(store: Store) -> None:
    save(store, "k", "aa")
    left = Path(f"{store.directory}/{TEMPORARY}/1.left")
    left.write_text("half")
    held = Path(f"{store.directory}/{TEMPORARY}/1.held")
    orphan = Path(store.path("bb"))
    orphan.parent.mkdir()
    orphan.write_text("whole, but of no entry")
    with held.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        prune(store, None, None)
        assert held.exists()
    assert not left.exists()
    assert artifacts(store) == {"aa"}


def outcome(status: str, seconds: float = 1.0) -> Outcome:
    return Outcome("app#build", status, 0, seconds)  # type: ignore[arg-type]


def test_a_history_tells_what_ran_and_of_what(store: Store, clock: Clock) -> None:
    one = Key("k1", {"config:command": "make"}, {"src/\udcff": "d1"})
    two = Key("k2", {"config:command": "make"}, {"src/\udcff": "d2"})
    for key, status in ((one, "failed"), (two, "ran"), (two, "fresh")):
        recorder = history.Recorder(store, "/w", "vx run build")
        clock.passes(2)
        recorder.ended(outcome(status, 1.5), key.hex, clock(), [key])
        recorder.end(2 if status == "failed" else None)
    last, middle, first = history.runs(store, "/w")
    assert (last.command, last.seconds, last.signal, first.signal) == ("vx run build", 2.0, None, 2)
    assert history.runs(store, "/other") == []
    assert [result.status for result in history.results(store, middle.id)] == ["ran"]
    found = history.last_result(
        store, "/w", "app#build", before=history.results(store, middle.id)[0].place
    )
    assert found is not None
    number, before = found
    assert (number, before.status, before.key) == (first.id, "failed", "k1")
    done = history.last_done(store, "/w", "app#build")
    assert done is not None
    assert (done[0], done[1].status) == (middle.id, "ran")
    assert history.run(store, "/w", middle.id) == middle
    assert history.run(store, "/other", middle.id) is None
    assert history.components(store, "k2") == two.components
    assert history.components(store, "unknown") is None
    assert history.durations(store, "/w") == {"app#build": 1.5}
    assert history.flaky(store, {"app#build": "k2"}) == set()


def test_a_task_that_failed_and_passed_on_one_key_is_flaky(store: Store) -> None:
    recorder = history.Recorder(store, "/w", "vx run build")
    recorder.ended(outcome("failed")._replace(faults=1), "k", 1)
    recorder.ended(outcome("ran"), "k", 2)
    recorder.ended(outcome("failed"), "late", 1)
    recorder.ended(outcome("ran"), "late", 2)
    recorder.end(None)
    assert history.flaky(store, {"app#build": "k"}) == {"app#build"}
    assert history.flaky(store, {"app#build": "late"}) == set()


def test_one_that_passed_at_a_later_attempt_is_flaky_too(store: Store) -> None:
    recorder = history.Recorder(store, "/w", "vx run build")
    recorder.ended(Outcome("app#build", "ran", 0, attempts=2, faults=1), "k", 1)
    recorder.ended(Outcome("app#test", "failed", 1, attempts=2, faults=2), "l", 1)
    recorder.ended(Outcome("app#late", "ran", 0, attempts=2), "m", 1)
    recorder.end(None)
    assert history.flaky(store, {"app#build": "k", "app#test": "l", "app#late": "m"}) == {
        "app#build"
    }


def test_an_old_history_goes_with_its_keys(store: Store, clock: Clock) -> None:
    recorder = history.Recorder(store, "/w", "vx run build")
    recorder.ended(outcome("failed"), "k", 1, [Key("k", {}, {})])
    recorder.end(None)
    clock.passes(40 * DAY)
    prune(store, 30 * DAY, None)
    assert history.runs(store, "/w") == []
    assert history.components(store, "k") is None


def test_a_run_that_was_killed_has_no_end(store: Store) -> None:
    recorder = history.Recorder(store, "/w", "vx run build")
    recorder.ended(outcome("failed"), None, 1)
    [run] = history.runs(store, "/w")
    assert run.seconds is None
    assert len(history.results(store, run.id)) == 1
