"""What a command loads: import time is most of the time of a short run."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.harness.running import VX
from tests.harness.workspace import Workspace

NEVER_FOR_A_RUN = {
    *("rich", "watchfiles", "psutil", "anyio", "yaml", "click", "_ssl"),
    *("inspect", "dis", "ast", "tokenize", "textwrap", "asyncio.sslproto", "asyncio.staggered"),
}


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
    assert loaded & NEVER_FOR_A_RUN == set()


def test_a_run_without_a_sandbox_loads_none(ws: Workspace) -> None:
    ws.task("build", "true")
    loaded = _loaded(ws, "run", "build")
    of_boxes = {name for name in loaded if name.startswith("vxwatch.sandbox.")}
    assert of_boxes == {"vxwatch.sandbox.runtime"}
    assert loaded & {"vxwatch.session.servers", "vxwatch.session.learning", "dataclasses"} == set()


def test_garbage_is_collected_once_all_is_loaded(ws: Workspace) -> None:
    ws.task("build", "true")
    then = "import gc; print(gc.isenabled(), gc.get_freeze_count() > 0)"
    done = ws.in_python("run", "build", then=then)
    assert done.stdout.splitlines()[-1] == "True True"


MACHINERY = {"asyncio", "psutil", "watchfiles", "anyio", "yaml", "wcmatch", "concurrent"}
SCREEN = {"rich"}
HISTORY = {"sqlite3", "zstandard"}


@pytest.mark.parametrize(
    ("words", "never"),
    [
        (("show", "build"), MACHINERY | HISTORY),
        (("run", "build", "--graph"), MACHINERY),
        (("run", "build", "--dry"), MACHINERY),
        (("why", "build"), MACHINERY),
        (("last",), MACHINERY),
        (("last", "--list"), MACHINERY),
        (("cache",), MACHINERY),
        (("cache", "prune"), MACHINERY),
        (("info",), HISTORY | {"psutil", "watchfiles", "anyio", "yaml"}),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else "",
)
def test_what_only_reads_starts_no_machinery(
    ws: Workspace, words: tuple[str, ...], never: set[str]
) -> None:
    ws.write("src/a", "0")
    ws.task("build", "true", inputs=["src/**"], outputs=[])
    assert ws.vx("run", "build").code == 0
    loaded = _loaded(ws, *words)
    assert "vxwatch" in loaded
    assert loaded & never == set()


@pytest.mark.parametrize("then", ["fresh", "restored"])
def test_a_run_that_runs_nothing_loads_no_event_loop(ws: Workspace, then: str) -> None:
    ws.write("src/a", "0")
    ws.task("build", "mkdir -p out; cp src/a out", inputs=["src/**"], outputs=["out/**"])
    assert ws.vx("run", "build").code == 0
    if then == "restored":
        shutil.rmtree(ws.file("out"))
    loaded = _loaded(ws, "run", "build", "--all")
    assert "vxwatch.session.warm" in loaded
    assert loaded & (MACHINERY | SCREEN) == set()
    assert ws.holds("out/a", "0")


@pytest.mark.parametrize(
    ("first", "at_the_end"),
    [
        ("pass", ""),
        (
            "import threading; threading.Thread(target=threading.main_thread().join).start()",
            "taken apart\n",
        ),
        ("sys.stdout = open('/dev/full', 'w'); sys.stdout.write('held')", "taken apart\n"),
    ],
    ids=["usual", "a thread goes on", "an output that takes nothing"],
)
def test_it_ends_without_taking_apart_what_it_loaded(
    ws: Workspace, first: str, at_the_end: str
) -> None:
    code = (
        "import atexit, os, sys; from vxwatch.cli import main\n"
        "atexit.register(os.write, 1, b'taken apart\\n')\n"
        f"{first}\nsys.argv = ['vx', '--version']; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.endswith(at_the_end)
    assert ("taken apart" in done.stdout) == bool(at_the_end)


def test_the_nursery_comes_up_while_the_event_loop_loads(ws: Workspace) -> None:
    ws.task("build", "true")
    watched = (
        "import os\nclass Look:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'asyncio':\n"
        "            print(*open(f'/proc/thread-self/children').read().split(), flush=True)\n"
        "sys.meta_path.insert(0, Look())"
    )
    done = ws.in_python("run", "build", first=watched)
    assert len(done.stdout.splitlines()[0].split()) == 1


def test_nor_is_there_one_where_nothing_runs(ws: Workspace) -> None:
    ws.write("src/a", "0")
    ws.task("build", "mkdir -p out; cp src/a out", inputs=["src/**"], outputs=["out/**"])
    assert "1 ran" in ws.in_python("run", "build").stdout
    done = ws.in_python("run", "build", then="print('vxwatch.process.ahead' in sys.modules)")
    assert done.stdout.splitlines()[-1] == "False"


def test_what_asyncio_was_loaded_without_is_there_once_it_is_used() -> None:
    code = """
import sys
from vxwatch.cli import eventloop
eventloop.load()
import asyncio, ssl, inspect, traceback, linecache
assert ssl.create_default_context and inspect.isfunction(eventloop.load)
assert linecache.getline(linecache.__file__, 1)
assert asyncio.base_events.sslproto.SSLProtocol
async def refused():
    await asyncio.open_connection(host="127.0.0.1", port=1, happy_eyeballs_delay=1)
try: asyncio.run(refused())
except OSError as error: assert "refused" in "".join(traceback.format_exception(error))
async def nothing(): pass
assert asyncio.iscoroutinefunction(nothing) and not asyncio.iscoroutinefunction(len)
async def debugged():
    asyncio.get_running_loop().set_debug(True)
    task = asyncio.create_task(nothing())
    assert "nothing" in repr(task)
    await task
asyncio.run(debugged())
"""
    subprocess.run([sys.executable, "-c", code], check=True)
