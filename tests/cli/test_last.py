"""`vx last` tells how tasks of earlier runs ended, and which runs there were."""

import re

import pytest

from tests.harness.schemas import checked
from tests.harness.workspace import Workspace


@pytest.fixture
def past(ws: Workspace) -> Workspace:
    """Two runs: one in which a task failed, and one that was interrupted."""
    ws.task("good", "true", inputs=[], outputs=[])
    ws.task("bad", "exit 3", after=["good"])
    ws.task("long", "echo > began; exec sleep 60")
    assert ws.vx("run", "bad").code == 3
    vx = ws.start("run", "long")
    ws.wait(lambda: ws.holds("began", "\n"), "the task runs")
    assert vx.stop() == 130
    return ws


def told(ws: Workspace, *words: str) -> list[str]:
    """What is printed, without times and memory, columns apart by one space."""
    done = ws.vx("last", *words)
    assert done.code == 0, done.text
    text = re.sub(r" \d+(\.\d+)? (ms|s|min)\b( ago)?|\d+(\.\d+)?M\b", "", done.out)
    return [" ".join(line.split()) for line in text.splitlines()]


def test_the_last_run_and_an_earlier_one(past: Workspace) -> None:
    assert told(past) == [
        "run 2: vx run long,, stopped by SIGINT,, 1 aborted",
        "task status time cpu memory",
        "w#long aborted",
    ]
    assert told(past, "1") == [
        "run 1: vx run bad,,, 1 ran, 1 failed",
        "task status time cpu memory",
        "w#good ran",
        "w#bad failed exit code 3",
    ]
    assert told(past, "1", "--failed")[2:] == ["w#bad failed exit code 3"]
    assert told(past, "--failed") == ["run 2: vx run long,, stopped by SIGINT,, 1 aborted"]


def test_runs_are_listed_the_latest_first(past: Workspace) -> None:
    past.vx("run", "good", "--all", "--filter", "w", "--force")
    lines = told(past, "--list")
    assert [line.split()[0] for line in lines] == ["3", "2", "1"]
    assert "vx run good --filter w --all" in lines[0]
    assert "1 ran, 1 failed" in lines[2]
    assert [line.split()[0] for line in told(past, "--list", "--failed")] == ["1"]


def test_a_run_with_nothing_to_do_is_no_run(past: Workspace) -> None:
    assert "1 fresh" in past.vx("run", "good").out
    assert told(past)[0].startswith("run 2:")


def test_a_run_that_goes_on_says_so(past: Workspace) -> None:
    vx = past.start("run", "long")
    past.wait(lambda: len(told(past, "--list")) == 3, "the run is known")
    assert "goes on, or was killed" in told(past)[0]
    vx.stop()


def test_the_json_forms_are_those_of_their_schemas(past: Workspace) -> None:
    run = checked(past.vx("last", "1", "--format", "json").out, "last")
    assert [(t["task"], t["status"], t["code"]) for t in run["tasks"]] == [
        ("w#good", "ran", 0),
        ("w#bad", "failed", 3),
    ]
    assert run["tasks"][0]["peak_memory"] > 0
    assert run["counts"] == {"ran": 1, "failed": 1}
    runs = checked(past.vx("last", "--list", "--format", "json").out, "runs")["runs"]
    assert [(one["run"], one["signal"]) for one in runs] == [(2, 2), (1, None)]


def test_where_nothing_ran_nothing_is_told_nor_made(ws: Workspace) -> None:
    ws.task("good", "true")
    assert told(ws, "--list") == ["no run is known here"]
    done = ws.vx("last")
    assert done.code == 2
    assert "no run is known here" in done.err
    assert ws.vx("last", "9").code == 2
    assert ws.vx("last", "--list", "9").code == 2
    assert ".vx" not in " ".join(ws.dirt())
