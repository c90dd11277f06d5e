"""Tasks wait for the cores and the memory that they say they need, and for nothing else."""

import os
import re

import pytest

from tests.harness.workspace import Workspace

CORES = len(os.sched_getaffinity(0))
MEETING = """
touch "$LOGS/here-{me}"
for _ in $(seq {tries}); do
  [ -e "$LOGS/here-{other}" ] && exec echo met >> "$LOGS/met"
  sleep 0.02
done
rm "$LOGS/here-{me}"
"""


def pair(ws: Workspace, needs: str, tries: int) -> None:
    """Two tasks that wait for each other for a while, and log if they were there at once."""
    config = ""
    for me, other in (("a", "b"), ("b", "a")):
        ws.write(f"{me}.sh", MEETING.format(me=me, other=other, tries=tries))
        config += f'[tasks.{me}]\ncommand = "sh {me}.sh"\nresources = {needs}\n'
        config += f'cache = {{ inputs = ["{me}.sh"], outputs = [] }}\nenv.set.LOGS = "{ws.logs}"\n'
    ws.write("vx.toml", config)


@pytest.mark.parametrize("needs", [f"{{ cpus = {CORES} }}", '{ cpus = 1, memory = "1T" }'])
def test_what_does_not_fit_together_does_not_run_at_once(ws: Workspace, needs: str) -> None:
    pair(ws, needs, 25)
    done = ws.vx("run", "a", "b", "--concurrency", "2")
    assert done.code == 0, done.text
    assert ws.runs("met") == 0
    ws.nothing_left()


def test_what_fits_together_does(ws: Workspace) -> None:
    pair(ws, '{ memory = "10M" }', 500)
    done = ws.vx("run", "a", "b", "--concurrency", "2")
    assert done.code == 0, done.text
    assert ws.runs("met") == 2
    assert "warning" not in done.text


def test_what_the_machine_has_not_is_said_once_and_runs_alone(ws: Workspace) -> None:
    pair(ws, "{ cpus = 4000 }", 25)
    done = ws.vx("run", "a", "b", "--concurrency", "2")
    assert done.code == 0, done.text
    assert ws.runs("met") == 0
    for name in ("a", "b"):
        needs = f"4000 cores, and there are {CORES}"
        assert done.text.count(f"{name} runs alone: it needs {needs}") == 1, done.text


def test_they_are_no_part_of_the_key(ws: Workspace) -> None:
    pair(ws, "{ cpus = 1 }", 1)
    assert "2 ran" in ws.vx("run", "a", "b").text
    ws.write("vx.toml", ws.read("vx.toml").replace("cpus = 1", 'memory = "3M"'))
    assert "2 fresh" in ws.vx("run", "a", "b").text


@pytest.mark.parametrize(
    ("needs", "message"),
    [
        ("{}", "expected cpus or memory, found neither"),
        ("{ cpus = -1 }", "expected a number from 0 to 4096"),
        ("{ memory = 4 }", 'expected a unit, as in "4M" or "4G"'),
        ("{ cores = 4 }", "cores"),
    ],
)
def test_what_makes_no_sense_is_refused(ws: Workspace, needs: str, message: str) -> None:
    ws.write("vx.toml", f'[tasks.t]\ncommand = "true"\nresources = {needs}\n')
    done = ws.vx("run", "t")
    assert done.code == 2
    assert message in done.text
    assert "tasks.t.resources" in done.text


def test_they_are_shown_as_they_are_written(ws: Workspace) -> None:
    pair(ws, '{ cpus = 2, memory = "1536M" }', 1)
    shown = ws.vx("show", "a").out
    assert re.search(r"^resources\.cpus +2$", shown, re.MULTILINE)
    assert re.search(r"^resources\.memory +1\.5G$", shown, re.MULTILINE)


def test_a_server_that_is_up_holds_nothing(ws: Workspace) -> None:
    port = ws.port()
    ws.server("web", ws.serve("web", port), ready_port=port)
    ws.task("t", 'echo run >> "$LOGS/t"', after=["web"])
    text = ws.read("vx.toml").replace("command", f"resources.cpus = {CORES}\ncommand")
    ws.write("vx.toml", text)
    done = ws.vx("run", "t")
    assert done.code == 0, done.text
    assert ws.runs("t") == 1
    ws.nothing_left()


def test_tasks_start_in_the_order_of_what_takes_longest_by_experience(ws: Workspace) -> None:
    config = ""
    for name, seconds in (("a", 0), ("b", 1.2), ("c", 0.6)):
        config += (
            f"[tasks.{name}]\ncommand = 'sleep {seconds}; echo {name} >> \"{ws.logs}/order\"'\n"
        )
    ws.write("vx.toml", config)
    assert ws.vx("run", "a", "b", "c", "--concurrency", "1").code == 0
    assert ws.lines("order") == ["a", "b", "c"]
    assert ws.vx("run", "a", "b", "c", "--concurrency", "1").code == 0
    assert ws.lines("order")[3:] == ["b", "c", "a"]
