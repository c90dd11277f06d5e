"""Whatever a task prints: all of it arrives, as it was, and vx stays small."""

import os
import re
import subprocess

import pytest

from tests.harness import running
from tests.harness.waiting import patience
from tests.harness.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

SIZE = 100_000_000
MOST = 64 << 20
"""Bytes of memory over what a task that prints nothing needs."""

LINES = f"yes 'a line of some length that is printed again and again' | head -c {SIZE}"
LINE = f"head -c {SIZE} /dev/zero"


@pytest.fixture
def ws(ws: Workspace) -> Workspace:
    ws.task("nothing", "true")
    ws.task("lines", LINES)
    ws.task("line", LINE)
    ws.task("bad", f"{LINES}; exit 1")
    ws.task("after", "true", after=["bad"])
    ws.server("srv", LINES)
    ws.server("long", LINE)
    return ws


def _peak(ws: Workspace, *words: str, pause: float = 0.0) -> tuple[int, int]:
    """The peak memory of vx and the bytes it wrote; with `pause`, to a reader that waits first."""
    argv = [running.VX, "run", *words]
    vx = subprocess.Popen(
        argv, cwd=ws.path, env=ws.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    assert vx.stdout is not None
    read, peak = 0, 0
    with vx.stdout:
        if pause:
            read = len(os.read(vx.stdout.fileno(), 1))
            with pytest.raises(subprocess.TimeoutExpired):
                vx.wait(patience(pause))
        while data := os.read(vx.stdout.fileno(), 1 << 20):
            read += len(data)
            peak = max(peak, _resident(vx.pid))
    vx.wait()
    return peak, read


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/status") as status:
            found = re.search(r"VmHWM:\s+(\d+) kB", status.read())
    except FileNotFoundError:
        return 0
    return int(found[1]) * 1024 if found else 0


@pytest.mark.parametrize(
    ("words", "pause"),
    [
        (["lines"], 0.0),
        (["line"], 0.0),
        (["lines", "nothing"], 0.0),
        (["lines", "nothing"], 1.0),
        (["after"], 1.0),
        (["srv", "nothing"], 0.0),
        (["long", "nothing"], 1.0),
    ],
)
def test_memory_is_bounded_and_nothing_is_lost(
    ws: Workspace, words: list[str], pause: float
) -> None:
    idle, _ = _peak(ws, "nothing")
    peak, read = _peak(ws, *words, pause=pause)
    assert read >= SIZE
    assert peak - idle < MOST


def test_bytes_that_are_no_text_arrive_as_they_are(ws: Workspace) -> None:
    ws.task("bin", r"printf '\377\376\000ok\r50%%\r100%%\n'")
    done = subprocess.run(
        [running.VX, "run", "bin"],
        cwd=ws.path,
        env=ws.environment,
        capture_output=True,
        check=True,
    )
    assert done.stdout.startswith(b"\xff\xfe\x00ok\r50%\r100%\n")


def test_lines_of_two_tasks_are_never_spliced(ws: Workspace) -> None:
    for name in "ab":
        ws.task(name, f'for i in $(seq 2000); do echo "{name * 20} $i"; done')
    text = ws.vx("run", "a", "b").out
    for name in "ab":
        assert len(re.findall(rf"^{name * 20} \d+$", text, re.MULTILINE)) == 2000


def test_a_flood_that_nobody_reads_is_stopped_at_once(ws: Workspace) -> None:
    ws.task("flood", "yes")
    vx = ws.piped("run", "flood")
    assert vx.stdout is not None
    vx.stdout.read(1000)
    vx.send_signal(2)
    assert vx.wait(patience(5)) == 130
    ws.nothing_left()
