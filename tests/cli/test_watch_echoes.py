"""What answers to each cycle, be it a server or vx's own output in a file, does not keep vx busy."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import pytest

from tests.harness.running import VX
from tests.harness.waiting import wait_for
from tests.harness.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

_NOTED = "changed in every cycle it caused"
_FOLLOWS = """
import os, time
print("up", flush=True)
last = None
while True:
    seen = os.stat("out").st_mtime_ns if os.path.exists("out") else None
    if seen != last:
        last = seen
        time.sleep(0.02)
        with open("seen", "w") as file:
            file.write(str(seen))
    time.sleep(0.005)
"""


def _log(ws: Workspace) -> str:
    return ws.read("vx.log") if os.path.exists(ws.file("vx.log")) else ""


def _says(ws: Workspace, line: re.Pattern[str]) -> bool:
    return line.search(_log(ws)) is not None


def _cycles(text: str) -> list[str]:
    return re.findall("^cycle .*$", text, re.MULTILINE)


def _rests(output: Callable[[], str]) -> bool:
    """Whether there are few cycles in some seconds: the pauses are of one, two and four."""
    before, begun = len(_cycles(output())), time.monotonic()
    wait_for(lambda: time.monotonic() > begun + 4, "some seconds")
    return len(_cycles(output())) <= before + 5


def test_a_server_that_writes_after_each_cycle_waits_longer_and_longer(ws: Workspace) -> None:
    ws.write("follow.py", _FOLLOWS)
    ws.write(".gitignore", "out\n")
    ws.write("a", "1")
    ws.task("build", "cat a > out; date +%N >> out", outputs=["out"])
    ws.server("dev", f"exec {sys.executable} follow.py", ready_line="up")
    vx = ws.watch("build", "dev")
    vx.wait_says(_NOTED, 90)
    assert _rests(lambda: vx.output)
    ws.write("b", "1")
    vx.wait_says(r"^cycle .*\bb\b", 5)
    assert _rests(lambda: vx.output)
    assert vx.stop() == 0
    ws.nothing_left()


def test_output_that_is_kept_in_the_project_does_not_keep_vx_busy(ws: Workspace) -> None:
    ws.task("build", "true")
    with subprocess.Popen(
        ["sh", "-c", '"$0" watch build | tee vx.log', VX],
        cwd=ws.path,
        env=ws.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    ) as shell:
        try:
            wait_for(lambda: _NOTED in _log(ws), "the note", 60)
            wait_for(lambda: _rests(lambda: _log(ws)), "few cycles", 60)
        finally:
            os.killpg(shell.pid, signal.SIGTERM)
    ws.nothing_left()


@pytest.mark.parametrize("inputs", [None, ["**"]])
def test_the_file_it_writes_its_output_to_is_no_edit(
    ws: Workspace, inputs: list[str] | None
) -> None:
    ws.write("a", "0")
    ws.write("vx.log", "")
    ws.task("build", "cat a", inputs=inputs, outputs=None if inputs is None else [])
    vx = ws.start_command("sh", "-c", 'exec "$0" watch build > vx.log 2>&1', VX)
    for number in range(1, 5):
        cause = " - a" if number > 1 else ""
        line = re.compile(rf"^cycle {number}: 1 ran, [^-\n]*{cause}$", re.MULTILINE)
        ws.wait(partial(_says, ws, line), f"cycle {number}")
        ws.settle()
        ws.write("a", str(number))
    ws.settle()
    assert vx.stop() == 0
    assert len(_cycles(_log(ws))) == 5
    ws.nothing_left()


def test_who_saves_one_file_again_and_again_waits_for_nothing(ws: Workspace) -> None:
    ws.write("src/a", "")
    ws.task("build", 'cat src/a >> "$LOGS/build"; echo >> "$LOGS/build"', inputs=["src/**"])
    vx = ws.watch("build")
    ws.wait_runs("build", 1)
    for number in range(1, 41):
        ws.write("src/a", str(number))
        time.sleep(0.3)  # as somebody types, whether or not it was built
    ws.wait(lambda: "40" in ws.lines("build"), "the last edit is built")
    assert len(ws.lines("build")) > 35
    assert _NOTED not in vx.output
    assert vx.stop() == 0
    ws.nothing_left()
