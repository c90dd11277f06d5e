"""`vx watch` and the ways files change: every edit is built once, and nothing else is."""

import hashlib
import os
import re
import shutil
import subprocess

import pytest

from tests.harness.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

_COPY = 'echo run $$ >> "$LOGS/build"; mkdir -p dist; cp src/a dist/a'


def _copy_task(ws: Workspace, text: str) -> None:
    ws.write("src/a", text)
    ws.task("build", _COPY, inputs=["src/**"], outputs=["dist/**"])


def _built(ws: Workspace, text: str, run: int) -> None:
    """Wait until this run has built this text."""
    ws.wait_runs("build", run)
    ws.wait(lambda: ws.holds("dist/a", text), f"run {run} built {text}")


def test_each_save_runs_the_task_once_however_the_editor_saves(ws: Workspace) -> None:
    _copy_task(ws, "0")
    vx = ws.watch("build")
    _built(ws, "0", 1)
    for run, text in enumerate("123", start=2):
        ws.write("src/.a.swp", text)
        os.rename(ws.file("src/.a.swp"), ws.file("src/a"))
        _built(ws, text, run)
    subprocess.run(["sed", "-i", "s/3/4/", ws.file("src/a")], check=True)
    _built(ws, "4", 5)
    os.rename(ws.file("src/a"), ws.file("src/a~"))
    ws.write("src/a", "5")
    os.unlink(ws.file("src/a~"))
    _built(ws, "5", 6)
    ws.settle(2.0)
    assert ws.runs("build") == 6
    assert not vx.says("No such file")
    assert vx.stop() == 0
    ws.nothing_left()


def test_an_edit_during_a_run_is_built_afterwards(ws: Workspace) -> None:
    ws.write(
        "build.sh", 'echo run $$ >> "$LOGS/build"; mkdir -p dist; cat src/* > dist/all; sleep 1\n'
    )
    ws.write("src/a", "one\n")
    ws.task("build", "sh build.sh", inputs=["src/**", "build.sh"], outputs=["dist/**"])
    vx = ws.start("watch", "build")

    def built(text: str) -> bool:
        return ws.holds("dist/all", text)

    ws.wait(lambda: built("one\n"), "the first run read its input")
    ws.write("src/a", "two\n")
    ws.wait(lambda: built("two\n"), "the edit was built", 15)
    ws.settle(1.5)
    ws.write("src/a", "three\n")
    ws.wait(lambda: built("three\n"), "the next edit was built", 15)
    ws.write("src/b", "extra\n")
    ws.wait(lambda: built("three\nextra\n"), "the file that appeared was built", 15)
    ws.settle(1.5)
    assert built("three\nextra\n")
    assert vx.stop() == 0
    os.unlink(ws.file("src/b"))
    assert ws.vx("run", "build").code == 0
    assert built("three\n")


def test_own_outputs_do_not_wake_the_watch(ws: Workspace) -> None:
    ws.write("a.txt", "0")
    ws.task(
        "build",
        'echo run $$ >> "$LOGS/build"; mkdir -p dist; cp a.txt dist/; date +%N > dist/now',
        inputs=["**/*"],
        outputs=["dist/**"],
    )
    vx = ws.watch("build")
    ws.wait_runs("build", 1)
    ws.settle(2.0)
    assert ws.runs("build") == 1
    ws.write("a.txt", "x")
    ws.wait_runs("build", 2)
    ws.settle(2.0)
    assert ws.runs("build") == 2
    assert vx.stop() == 0
    assert sorted(ws.dirt()) == ["a.txt", "dist/", "vx.toml"]


def test_a_task_that_rewrites_its_own_input_is_named_and_stopped(ws: Workspace) -> None:
    ws.write("gen/now.txt", "")
    ws.write("gen/note.txt", "")
    ws.task("stamp", 'echo run $$ >> "$LOGS/stamp"; date +%N > gen/now.txt', inputs=["gen/**"])
    vx = ws.watch("stamp")
    vx.wait_says(r"^note: gen/now\.txt")
    ws.settle(2.0)
    runs = ws.runs("stamp")
    assert runs < 10
    assert len(re.findall(r"^note: gen/now\.txt", vx.output, re.MULTILINE)) == 1
    assert re.search("output", vx.output)
    assert re.search("ignore", vx.output)
    ws.write("gen/note.txt", "an edit of somebody else")
    ws.wait(lambda: ws.runs("stamp") > runs, "the watch still hears other edits")
    assert vx.stop() == 0


def _grow(ws: Workspace, directories: list[int], files: int, text: str) -> None:
    shutil.rmtree(ws.file("src"), ignore_errors=True)
    for directory in directories:
        for name in range(1, files + 1):
            ws.write(f"src/d{directory}/f{name}.txt", text)


def _wait_built(ws: Workspace) -> None:
    """Wait until what was built belongs to the tree on disk, and stays so."""
    lines = []
    for parent, _, names in os.walk(ws.file("src")):
        lines += [ws.read(os.path.join(parent, name)) for name in names]
    expected = hashlib.md5("".join(sorted(lines)).encode()).hexdigest() + "  -\n"
    ws.wait(lambda: ws.holds("dist/sum", expected), "the tree on disk is built", 20)
    ws.settle()
    assert ws.read("dist/sum") == expected


def test_a_branch_switch_is_one_or_two_cycles_and_the_last_state_wins(ws: Workspace) -> None:
    ws.write(".gitignore", "dist\n")
    ws.task(
        "build",
        'echo run $$ >> "$LOGS/build"; mkdir -p dist; cat src/*/*.txt | sort | md5sum > dist/sum',
        inputs=["src/**"],
        outputs=["dist/**"],
    )
    _grow(ws, list(range(1, 21)), 10, "m\n")
    ws.git("add", "-A")
    ws.git("commit", "-qm", "main")
    ws.git("checkout", "-qb", "other")
    _grow(ws, [*range(1, 11), *range(21, 31)], 20, "o\n")
    ws.git("add", "-A")
    ws.git("commit", "-qm", "other")
    ws.git("checkout", "-q", "main")

    vx = ws.watch("build")
    _wait_built(ws)
    for branch in ("other", "main", "other"):
        ws.git("checkout", "-q", branch)
        _wait_built(ws)
    ws.write("src/d1/f1.txt", "z\n")
    _wait_built(ws)
    assert ws.runs("build") <= 6
    assert ws.dirt() == ["src/d1/f1.txt"]
    assert vx.running
    assert vx.stop() == 0


@pytest.mark.parametrize("polling", [False, True])
def test_content_decides_not_the_modification_time(ws: Workspace, polling: bool) -> None:
    if polling:
        ws.environment = {**ws.environment, "VX_WATCH_POLL": "1"}
    _copy_task(ws, "aaaa")
    old = os.path.join(ws.logs, ".old")
    with open(old, "w") as file:
        file.write("bbbb")
    long_ago = (1_577_836_800, 1_577_836_800)
    os.utime(old, long_ago)
    vx = ws.watch("build")
    ws.wait_runs("build", 1)

    shutil.copy2(old, ws.file("src/a"))
    _built(ws, "bbbb", 2)
    with open(old, "w") as file:
        file.write("cccc")
    os.utime(old, long_ago)
    os.rename(old, ws.file("src/a"))
    _built(ws, "cccc", 3)
    ws.write("src/a", "dddd")
    os.utime(ws.file("src/a"), long_ago)
    _built(ws, "dddd", 4)
    ws.settle(2.0)  # the write may have been seen half-way, too
    runs = ws.runs("build")
    os.utime(ws.file("src/a"))
    os.chmod(ws.file("src/a"), 0o600)
    ws.read("src/a")
    ws.settle(2.0)
    assert ws.runs("build") == runs
    assert vx.stop() == 0
    ws.write("src/a", "eeee")
    os.utime(ws.file("src/a"), long_ago)
    assert ws.vx("run", "build").code == 0
    assert ws.read("dist/a") == "eeee"


def test_a_directory_that_is_removed_and_made_again_is_watched_again(ws: Workspace) -> None:
    ws.write("src/deep/a", "0")
    ws.write("src/b", "0")
    ws.task("build", 'echo run $$ >> "$LOGS/build"; ls -R src', inputs=["src/**"])
    vx = ws.watch("build")
    ws.wait_runs("build", 1)
    shutil.rmtree(ws.file("src/deep"))
    ws.wait_runs("build", 2)
    ws.write("src/deep/a", "1")
    ws.wait(lambda: ws.runs("build") >= 3, "the directory that came back is built")
    ws.settle()
    runs = ws.runs("build")
    ws.write("src/deep/a", "2")
    ws.wait_runs("build", runs + 1)
    shutil.rmtree(ws.file("src"))
    ws.wait(lambda: ws.runs("build") > runs + 1, "all inputs going away is a change")
    ws.settle()
    runs = ws.runs("build")
    ws.write("src/b", "3")
    ws.wait(lambda: ws.runs("build") > runs, "the inputs that came back are built")
    assert vx.stop() == 0
    ws.nothing_left()
