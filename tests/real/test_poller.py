"""What a look at directories tells from the look before."""

import os
import threading
import time
from pathlib import Path

import pytest

from tests.harness.watching import write
from vxwatch.watch.poller import Poller


@pytest.fixture
def root(tmp_path: Path) -> str:
    return os.path.realpath(tmp_path)


def seen(looker: Poller) -> dict[str, bool]:
    """What a look finds, by name."""
    raw = looker.accept(looker.look())
    return {os.path.basename(path): structural for path, structural in raw.paths.items()}


@pytest.fixture
def looker(root: str) -> Poller:
    """A poller that knows the file `a`, which is old."""
    write(f"{root}/a", "aaaa")
    os.utime(f"{root}/a", (0, 0))
    looker = Poller()
    looker.add(root)
    return looker


def test_what_stays_as_it_was_is_not_told(looker: Poller) -> None:
    assert seen(looker) == {}


def test_an_edit_of_the_same_size_and_date_is_told(looker: Poller, root: str) -> None:
    write(f"{root}/a", "bbbb")
    os.utime(f"{root}/a", (0, 0))
    assert seen(looker) == {"a": False}


def test_a_change_of_mode_is_told(looker: Poller, root: str) -> None:
    os.chmod(f"{root}/a", 0o700)
    assert seen(looker) == {"a": False}


def test_another_file_of_the_same_name_is_told_as_another_one(looker: Poller, root: str) -> None:
    write(f"{root}/b", "aaaa")
    os.utime(f"{root}/b", (0, 0))
    os.replace(f"{root}/b", f"{root}/a")
    assert seen(looker) == {"a": True}


def test_what_came_and_went_is_told(looker: Poller, root: str) -> None:
    os.unlink(f"{root}/a")
    os.mkdir(f"{root}/d")
    os.symlink("nowhere", f"{root}/l")
    assert seen(looker) == {"a": True, "d": True, "l": True}
    assert seen(looker) == {}


def test_a_file_that_became_a_directory_is_another_one(looker: Poller, root: str) -> None:
    os.unlink(f"{root}/a")
    os.mkdir(f"{root}/a")
    assert seen(looker) == {"a": True}


def test_a_fresh_entry_is_told_once_more_when_its_tick_is_over(
    looker: Poller, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second edit within the tick would leave no other mark."""
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now)
    write(f"{root}/fresh")
    assert seen(looker) == {"fresh": True}
    assert seen(looker) == {}
    now += 10 * 1_000_000_000
    assert seen(looker)["fresh"] is False
    assert seen(looker) == {}


def test_a_look_that_was_not_accepted_loses_nothing(looker: Poller, root: str) -> None:
    write(f"{root}/b")
    assert looker.look()
    assert seen(looker) == {"b": True}


def test_a_look_ends_when_it_is_stopped(looker: Poller, root: str) -> None:
    write(f"{root}/b")
    stopped = threading.Event()
    stopped.set()
    assert looker.look(stopped.is_set) == {}


def test_a_directory_that_is_gone_or_forgotten_is_empty(looker: Poller, root: str) -> None:
    os.rename(root, f"{root}-away")
    assert seen(looker) == {"a": True}
    os.rename(f"{root}-away", root)
    looker.drop([root])
    assert len(looker) == 0
    assert seen(looker) == {}


def test_what_was_dropped_during_a_look_is_not_told(looker: Poller, root: str) -> None:
    write(f"{root}/b")
    different = looker.look()
    looker.drop([root])
    assert looker.accept(different).paths == {}
