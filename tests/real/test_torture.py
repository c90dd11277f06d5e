"""Random trees ended at random: nothing survives, and the harness would see it if something did."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import running
from tests.harness.processes import adopt_orphans
from tests.harness.torture_oracle import Oracle
from tests.harness.torture_plan import make_plan
from tests.harness.waiting import wait_for

_SEED, _ROUNDS, _ITEMS = 1, 100, 10
_HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _torture(*words: str) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "tests.harness.torture", "--jobs", "1", *words]
    return subprocess.run(argv, cwd=_HOME, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.timeout(300)
@pytest.mark.parametrize("item", range(_ITEMS))
def test_nothing_survives(item: int) -> None:
    rounds = _ROUNDS // _ITEMS
    done = _torture("--seed", str(_SEED + item * rounds), "--rounds", str(rounds))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"rounds {rounds}, failed 0" in done.stdout
    assert "survivors 0\n" in done.stdout


def test_a_survivor_is_reported() -> None:
    done = _torture("--seed", "3", "--rounds", "1", "--no-boxes", "--plant", "survivor")
    assert done.returncode == 1
    assert "survivors 1\n" in done.stdout
    assert "sleep 600 found by descent, directory" in done.stdout
    assert "FAILED seed 3: " in done.stdout


def test_a_signal_to_a_stranger_is_reported() -> None:
    done = _torture("--seed", "3", "--rounds", "1", "--no-boxes", "--plant", "kill")
    assert done.returncode == 1
    assert "strangers signalled 1\n" in done.stdout
    assert f": signal {int(signal.SIGTERM)}\n" in done.stdout


def test_a_seed_is_a_round() -> None:
    assert str(make_plan(7, boxes=True)) == str(make_plan(7, boxes=True))
    assert len({str(make_plan(seed, boxes=True)) for seed in range(100)}) == 100


@pytest.fixture
def place(tmp_path: Path) -> str:
    place = tmp_path / "ktoken"
    place.mkdir()
    return str(place)


@pytest.mark.parametrize(
    ("command", "trace"),
    [
        ("exec sleep 600 < /dev/null", "descent"),
        ("cd {place}; exec sleep 600", "directory"),
        ("exec sleep 600 < {place}/file", "open file"),
        (": {place}; sleep 600; :", "arguments"),
    ],
)
def test_each_trace_is_followed(place: str, command: str, trace: str) -> None:
    Path(place, "file").touch()
    process = subprocess.Popen(
        ["sh", "-c", command.replace("{place}", place)], start_new_session=True
    )
    oracle = Oracle("ktoken", f"{place}/members")
    try:
        wait_for(lambda: trace in _traces(oracle, process.pid), f"found by {trace}")
        assert "descent" in _traces(oracle, process.pid)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert not _traces(oracle, process.pid)


def test_who_has_shed_every_trace_but_the_log_is_found(place: str) -> None:
    spec = Path(place, "spec")
    spec.write_text('{"name": "root", "traits": ["bare"], "children": []}')
    tree = [*running.PYTHON, f"{running.PUPPETS}/tree.py", str(spec), f"{place}/members"]
    process = subprocess.Popen(tree)
    try:
        oracle = Oracle("ktoken", f"{place}/members")
        wait_for(lambda: _is_sleep(process.pid), "it is a bare sleep")
        assert _traces(oracle, process.pid) == ("descent", "log of root")
    finally:
        process.kill()
        process.wait()


def test_who_is_spared_is_no_survivor_and_neither_is_what_it_started(place: str) -> None:
    adopt_orphans()
    process = subprocess.Popen(["sh", "-c", "sleep 600 & wait"], start_new_session=True)
    try:
        oracle = Oracle("ktoken", f"{place}/members")
        wait_for(lambda: len(_group(oracle, process.pid)) == 2, "both are up")
        assert not [s for s in oracle.survivors([process.pid]) if s.row.group == process.pid]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _traces(oracle: Oracle, pid: int) -> tuple[str, ...]:
    """The traces that lead to this process; none when it is no survivor."""
    return next((each.traces for each in oracle.survivors() if each.row.pid == pid), ())


def _group(oracle: Oracle, group: int) -> list[int]:
    return [each.row.pid for each in oracle.survivors() if each.row.group == group]


def _is_sleep(pid: int) -> bool:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().split(b"\0") == [b"sleep", b"600", b""]
