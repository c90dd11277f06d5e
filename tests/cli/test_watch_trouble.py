"""What is hard on a watch: it lives, says little, and what was built last is what is on disk."""

import json
import os
import re
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.harness.ports import is_open
from tests.harness.running import VX, Background
from tests.harness.workspace import Workspace
from tests.puppets.snapshot import snapshot

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

each_way = pytest.mark.parametrize("polling", [False, True])


class Site:
    """A workspace whose task writes down all that it reads."""

    def __init__(self, ws: Workspace, polling: bool = False) -> None:
        self.ws = ws
        if polling:
            ws.environment = {**ws.environment, "VX_WATCH_POLL": "1"}
        ws.write(".gitignore", "dist\n")
        ws.write("src/a", "0")
        self.config()

    def config(self) -> None:
        command = self.ws.puppet("snapshot.py", "src", "dist/snapshot.json")
        self.ws.task("build", command, inputs=["src/**"], outputs=["dist/**"])

    @contextmanager
    def watched(self, notes: int = 0, *before: str) -> Iterator[Background]:
        """A watch that has built everything, and at the end has said so many lines."""
        vx = self.ws.start_command(*before, VX, "watch", "build")
        self.built()
        yield vx
        told = [line for line in vx.output.splitlines() if line.startswith(("note:", "warning:"))]
        assert len(told) == notes, vx.output[-3000:]
        assert vx.stop() == 0
        self.ws.nothing_left()

    def built(self) -> None:
        """Wait until what was built last is what is there."""
        self.ws.wait(self._is_built, "what was built last is what is there", 15)

    def _is_built(self) -> bool:
        try:
            with open(self.ws.file("dist/snapshot.json")) as file:
                return bool(json.load(file)["files"] == snapshot(self.ws.file("src")))
        except (OSError, ValueError):
            return False


@each_way
def test_ten_thousand_files_at_once(ws: Workspace, polling: bool) -> None:
    site = Site(ws, polling)
    with site.watched(int(polling)) as vx:
        for number in range(10_000):
            path = f"src/d{number % 100}/e{number % 7}/f{number}"
            if number < 700:
                os.makedirs(ws.file(os.path.dirname(path)), exist_ok=True)
            with open(ws.file(path), "w") as file:
                file.write(str(number))
        site.built()
        ws.write("src/d50/e1/f750", "edited")
        site.built()
        shutil.rmtree(ws.file("src/d3"))
        site.built()
        assert vx.running


def test_more_events_than_the_kernel_keeps(ws: Workspace) -> None:
    site = Site(ws)
    with site.watched() as vx:
        for number in range(20):
            ws.write(f"src/d{number}/old", "0")
        site.built()
        vx.send(signal.SIGSTOP)
        for turn in range(10):
            for number in range(2000):
                with open(ws.file(f"src/d{number % 20}/f{number}"), "w") as file:
                    file.write(str(turn))
        vx.send(signal.SIGCONT)
        site.built()
        ws.write("src/d19/f1", "edited")
        site.built()


@each_way
def test_a_file_that_changes_faster_than_it_can_be_read(ws: Workspace, polling: bool) -> None:
    site = Site(ws, polling)
    over = threading.Event()

    def write_on() -> None:
        number = 0
        while not over.is_set():
            number += 1
            with open(ws.file("src/a"), "w") as file:
                file.write(f"{number}\n" * 1000)

    with site.watched(int(polling)) as vx:
        writer = threading.Thread(target=write_on)
        writer.start()
        try:
            # On a busy machine it may look like the task's own work, which waits for up to 32 s.
            ws.wait(lambda: vx.says("^cycle 3:"), "cycles while somebody writes on and on", 40)
            ws.write("src/b", "beside it")
            ws.wait(lambda: "b" in ws.read("dist/snapshot.json"), "an edit beside it is seen", 20)
        finally:
            over.set()
            writer.join()
        site.built()


@each_way
def test_a_tree_that_is_moved_in_and_out(ws: Workspace, polling: bool) -> None:
    site = Site(ws, polling)
    for number in range(300):
        ws.write(f"../aside/d{number % 30}/e/f{number}", str(number))
    with site.watched(int(polling)):
        os.rename(ws.file("../aside"), ws.file("src/in"))
        site.built()
        ws.write("src/in/d3/e/f3", "edited")
        site.built()
        os.rename(ws.file("src/in"), ws.file("src/other"))
        site.built()
        ws.write("src/other/d3/e/f3", "once more")
        site.built()
        os.rename(ws.file("src/other"), ws.file("../aside"))
        site.built()


@each_way
def test_a_long_path_and_odd_names(ws: Workspace, polling: bool) -> None:
    site = Site(ws, polling)
    with site.watched(int(polling)):
        for name in ("new\nline", "by\udcffte", "-rf", "ü", " ", "[a]*?", '"', "\\", "x" * 255):
            ws.write(f"src/{name}/{name}", name[:3] if name.isascii() else "1")
            site.built()
            ws.write(f"src/{name}/{name}", "2")
            site.built()
        deep = "/".join(["d" * 200] * ((4085 - len(ws.file("src/"))) // 201))
        ws.write(f"src/{deep}/f", "1")
        site.built()
        ws.write(f"src/{deep}/f", "2")
        site.built()
        os.rename(ws.file("src/" + "d" * 200), ws.file("src/e"))
        site.built()


@each_way
def test_dates_of_all_times(ws: Workspace, polling: bool) -> None:
    site = Site(ws, polling)
    with site.watched(int(polling)):
        for number, when in enumerate((4e9, 1, 1, -1, 4e9, 1e9)):
            ws.write(f"src/{number % 2}", str(number))
            os.utime(ws.file(f"src/{number % 2}"), (when, when))
            os.utime(ws.file("src"), (when, when))
            site.built()


@each_way
def test_a_root_that_is_removed_and_made_again(ws: Workspace, polling: bool) -> None:
    site = Site(ws, polling)
    shutil.copytree(ws.path, f"{ws.path}.copy", symlinks=True)
    with site.watched(int(polling) + 1) as vx:
        vx.wait_says("^cycle 1:")
        shutil.rmtree(ws.path)
        vx.wait_says("note: what changes from now on waits", 20)
        os.rename(f"{ws.path}.copy", ws.path)
        ws.write("src/a", "again")
        site.built()
        ws.write("src/b/c", "after that")
        site.built()


def test_out_of_watches(ws: Workspace) -> None:
    site = Site(ws)
    for number in range(40):
        ws.write(f"src/d{number}/f", "0")
    limit = 'echo 5 > /proc/sys/user/max_inotify_watches && exec "$@"'
    with site.watched(1, "unshare", "-Ur", "sh", "-c", limit, "sh") as vx:
        ws.write("src/d37/f", "1")
        site.built()
        ws.write("src/new/deep/f", "1")
        site.built()
        assert vx.says("^note: .*max_user_watches.*polling")


def test_a_git_that_fails_is_waited_for_and_servers_stay_up(ws: Workspace) -> None:
    """Its index is damaged, or in the making, when somebody asks what it tracks."""
    port = ws.port()
    ws.write(".gitignore", "out\n")
    ws.write("src/a", "0")
    ws.task("build", "cat src/* > out", inputs=["src/**"], outputs=["out"])
    ws.server("dev", f"exec {ws.serve('dev', port)}", ready_port=port)
    ws.git("add", "-A")
    vx = ws.watch("build", "dev")
    ws.wait_open(port)
    ws.wait(lambda: ws.holds("out", "0"), "it is built")
    ws.settle()
    shutil.copy(ws.file(".git/index"), f"{ws.path}.index")
    ws.write(".git/index", "[[[ no index\n")
    ws.write("src/a", "1")
    vx.wait_says("^vx: git cannot list the files of ")
    assert is_open(port)
    os.replace(f"{ws.path}.index", ws.file(".git/index"))
    ws.write("src/a", "2")
    ws.wait(lambda: ws.holds("out", "2"), "it is built again")
    assert is_open(port)
    assert vx.stop() == 0
    ws.nothing_left()


@each_way
def test_temp_files_of_vx_in_the_workspace_are_no_edits(ws: Workspace, polling: bool) -> None:
    ws.environment = {**ws.environment, "TMPDIR": ws.file("tmp")}
    ws.write("tmp/kept", "")
    ws.task("build", 'echo run >> "$LOGS/build"')
    if polling:
        ws.environment["VX_WATCH_POLL"] = "1"
    vx = ws.watch("build")
    ws.wait_runs("build", 1)
    ws.settle()
    ws.write("a", "1")
    ws.wait_runs("build", 2)
    ws.settle()
    causes = re.findall(r"^cycle \d+: [^-\n]*(?:- (.*))?$", vx.output, re.MULTILINE)
    assert causes == ["", "a"]
    assert vx.stop() == 0
    ws.nothing_left()
