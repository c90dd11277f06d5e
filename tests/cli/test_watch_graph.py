"""`vx watch` and the graph: a change runs what it affects, once each, in order."""

import re

import pytest

from tests.harness.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

_STEP = """\
echo run $$ >> "$LOGS/$1"
echo "$(date +%s%N) $1 start" >> "$LOGS/order"
sleep 0.5
mkdir -p dist
{ cat "$1"/*; [ "$1" = lib ] || cat dist/lib; } > "dist/$1.new" 2> /dev/null
mv "dist/$1.new" "dist/$1"
echo "$(date +%s%N) $1 end" >> "$LOGS/order"
"""


def _diamond(ws: Workspace) -> None:
    after = {"lib": [], "left": ["lib"], "right": ["lib"], "app": ["left", "right"], "other": []}
    ws.write("step.sh", _STEP)
    for name, dependencies in after.items():
        ws.write(f"{name}/x", "0\n")
        ws.task(
            name,
            f"sh step.sh {name}",
            inputs=[f"{name}/**"],
            outputs=[f"dist/{name}"],
            after=dependencies,
        )
    ws.task("all", after=["app", "other"])


def _span(ws: Workspace, task: str, run: int) -> tuple[int, int]:
    """When a run of a task started and ended; the first run is 0."""
    rows = [line.split() for line in ws.lines("order")]
    times = [int(time) for time, name, _ in rows if name == task]
    return times[2 * run], times[2 * run + 1]


def test_a_change_runs_its_branch_of_the_graph_once_each_in_order(ws: Workspace) -> None:
    _diamond(ws)
    names = ("lib", "left", "right", "app", "other")
    vx = ws.watch("all", "--concurrency", "4")
    ws.wait_runs("app", 1, 20)
    ws.settle()
    for first, then in (("lib", "left"), ("lib", "right"), ("left", "app"), ("right", "app")):
        assert _span(ws, first, 0)[1] <= _span(ws, then, 0)[0]
    left, right = _span(ws, "left", 0), _span(ws, "right", 0)
    assert max(left[0], right[0]) < min(left[1], right[1])

    ws.write("lib/x", "1\n")
    ws.wait_runs("app", 2, 20)
    ws.settle(2.0)
    assert [ws.runs(name) for name in names] == [2, 2, 2, 2, 1]
    assert max(_span(ws, "left", 1)[1], _span(ws, "right", 1)[1]) <= _span(ws, "app", 1)[0]
    assert ws.read("dist/left") == "0\n1\n"

    ws.write("left/x", "2\n")
    ws.wait_runs("app", 3, 20)
    ws.settle(2.0)
    assert [ws.runs(name) for name in names] == [2, 3, 2, 3, 1]
    assert re.search(
        r"^cycle \d+: 2 ran, 0 failed, \d+ kept, .* - left/x$", vx.output, re.MULTILINE
    )
    assert vx.stop() == 0
    ws.nothing_left()


def test_a_failed_task_blocks_what_is_after_it_and_the_fix_runs_both(ws: Workspace) -> None:
    ws.write("src/a", "good")
    ws.task("lint", "! grep -q BAD src/a", inputs=["src/**"])
    ws.task("ship", 'echo run $$ >> "$LOGS/ship"', inputs=["ship/**"], after=["lint"])
    vx = ws.watch("ship")
    ws.wait_runs("ship", 1)
    ws.write("src/a", "BAD")
    vx.wait_says(r"^cycle \d+: 0 ran, 1 failed")
    assert ws.runs("ship") == 1
    ws.write("src/a", "better")
    ws.wait_runs("ship", 2)
    assert vx.stop() == 0
