"""What `vx run` writes about itself: a summary, a trace, Markdown."""

import json
import os

import pytest

from tests.harness.schemas import checked
from tests.harness.workspace import Workspace


@pytest.fixture
def some(ws: Workspace) -> Workspace:
    ws.task("good", "echo shown", inputs=[], outputs=[])
    ws.task("bad", "echo hunter22; exit 3", after=["good"], secrets=["PASS"])
    ws.task("next", "true", after=["bad"])
    ws.environment["PASS"] = "hunter22"
    return ws


def test_a_summary_tells_of_every_task(some: Workspace) -> None:
    done = some.vx("run", "next", "--summarize", "run.json")
    assert done.code == 3
    value = checked(some.read("run.json"), "summary")
    assert [(t["task"], t["status"], t["code"], t["blocked_by"]) for t in value["tasks"]] == [
        ("w#good", "ran", 0, None),
        ("w#bad", "failed", 3, None),
        ("w#next", "skipped", None, "w#bad"),
    ]
    good, bad, _ = value["tasks"]
    assert value["started"] <= good["started"] <= bad["started"]
    assert (value["command"], value["exit_code"]) == ("vx run next", 3)
    assert value["counts"] == {"ran": 1, "failed": 1, "skipped": 1}


def test_it_is_written_where_nothing_is_to_do_each_time(some: Workspace) -> None:
    some.vx("run", "good")
    for _ in range(3):
        done = some.vx("run", "good", "--summarize", "run.json")
        assert "1 fresh" in done.out
        value = checked(some.read("run.json"), "summary")
        assert [task["status"] for task in value["tasks"]] == ["fresh"]
        os.unlink(some.file("run.json"))


def test_a_trace_has_tasks_that_overlap_in_lanes_of_their_own(some: Workspace) -> None:
    meet = "echo > {0}; while ! test -e {1}; do sleep 0.01; done"
    some.task("one", meet.format("a", "b"))
    some.task("two", meet.format("b", "a"))
    assert some.vx("run", "one", "two", "--profile", "trace.json").code == 0
    one, two = json.loads(some.read("trace.json"))["traceEvents"]
    assert {one["name"], two["name"]} == {"w#one", "w#two"}
    assert one["tid"] != two["tid"]
    assert one["ts"] + one["dur"] > two["ts"]


def test_markdown_is_printed_failures_first_and_no_secret_with_it(some: Workspace) -> None:
    done = some.vx("run", "next", "--report", "markdown")
    lines = done.out[done.out.index("###") :].splitlines()
    assert lines[0] == "### `vx run next`"
    assert lines[2].startswith("1 ran, 1 skipped, 1 failed in ")
    assert [line.split(" | ")[:2] for line in lines[6:]] == [
        ["| `w#bad`", "failed"],
        ["| `w#good`", "ran"],
        ["| `w#next`", "skipped"],
    ]
    assert "exit code 3" in lines[6]
    assert "hunter22" not in done.text


def test_on_github_actions_it_goes_to_the_job(some: Workspace) -> None:
    some.environment["GITHUB_STEP_SUMMARY"] = some.file("step.md")
    some.write("step.md", "before\n")
    done = some.vx("run", "good", "--report=markdown")
    assert "###" not in done.out
    assert some.read("step.md").startswith("before\n### `vx run good`\n")


def test_an_interrupted_run_is_told_of(some: Workspace) -> None:
    some.task("long", "echo > began; exec sleep 60")
    vx = some.start("run", "long", "--summarize", "run.json")
    some.wait(lambda: some.holds("began", "\n"), "the task runs")
    assert vx.stop() == 130
    value = checked(some.read("run.json"), "summary")
    assert (value["signal"], value["exit_code"]) == (2, 130)
    assert value["tasks"][0]["status"] == "aborted"


@pytest.mark.parametrize("option", ["--summarize", "--profile"])
@pytest.mark.parametrize("place", ["missing/run.json", "."])
def test_a_file_that_cannot_be_is_refused_before_anything_runs(
    some: Workspace, option: str, place: str
) -> None:
    done = some.vx("run", "good", option, place)
    assert done.code == 2
    assert f"{place}: no file can be written there" in done.err
    assert "shown" not in done.out


def test_a_file_that_cannot_be_written_is_told(some: Workspace) -> None:
    done = some.vx("run", "good", "--summarize", "/dev/full")
    assert done.code == 1
    assert "/dev/full: No space left on device" in done.err
    assert "1 ran" in done.out
