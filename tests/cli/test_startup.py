"""What a command loads: import time is most of the time of a short run."""

import os
import subprocess

from tests.harness.running import VX
from tests.harness.workspace import Workspace


def _loaded(ws: Workspace, *words: str) -> set[str]:
    """The top-level packages and modules that `vx WORDS` imports."""
    done = subprocess.run(
        [VX, *words],
        cwd=ws.path,
        env={
            "PATH": os.environ["PATH"],
            "TMPDIR": os.environ["TMPDIR"],
            "PYTHONPROFILEIMPORTTIME": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    names = {row.rpartition("|")[2].strip() for row in rows}
    return names | {name.partition(".")[0] for name in names}


def test_the_version_loads_next_to_nothing(ws: Workspace) -> None:
    heavy = {"click", "rich", "asyncio", "psutil", "watchfiles", "sqlite3", "subprocess", "tomllib"}
    loaded = _loaded(ws, "--version")
    assert "vxwatch" in loaded
    assert loaded & heavy == set()


def test_a_run_loads_no_watcher_and_no_screen(ws: Workspace) -> None:
    ws.write("src/a", "0")
    ws.task("build", "true", inputs=["src/**"])
    loaded = _loaded(ws, "run", "build")
    assert "asyncio" in loaded
    assert loaded & {"rich", "watchfiles", "psutil", "anyio", "yaml"} == set()


def test_showing_a_task_starts_no_machinery(ws: Workspace) -> None:
    ws.task("build", "true")
    loaded = _loaded(ws, "show", "build")
    assert loaded & {"watchfiles", "psutil", "asyncio", "anyio", "sqlite3"} == set()
