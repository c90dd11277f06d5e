"""An edit that is taken back while tasks run: what was built last is what is on the disk."""

import os
import subprocess
import sys
from http.client import HTTPException

import pytest

from tests.harness.workspace import Workspace, get

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

_BUILD = """\
echo start $$ >> "$LOGS/steps"
until [ -e "$LOGS/read" ]; do sleep 0.02; done
cat src/* > out
echo read $$ >> "$LOGS/steps"
until [ -e "$LOGS/go" ]; do sleep 0.02; done
"""


def _open(ws: Workspace, gate: str) -> None:
    """Let the task that waits for it go on."""
    with open(f"{ws.logs}/{gate}", "w"):
        pass


def _served(port: int) -> str:
    """The page, "" where nobody serves one just now."""
    try:
        return get(port)
    except (OSError, HTTPException):
        return ""


def test_a_task_that_read_an_edit_which_was_undone_meanwhile_runs_again(ws: Workspace) -> None:
    ws.write("src/a", "first")
    ws.write("build.sh", _BUILD)
    ws.task("build", "sh build.sh", inputs=["src/**"], outputs=["out"])
    ws.task("use", 'cat out >> "$LOGS/use"; echo >> "$LOGS/use"', inputs=["x"], after=["build"])
    vx = ws.watch("use", "--on-busy=queue")
    ws.wait_steps("steps", "start", 1)
    ws.write("src/a", "second")
    ws.settle(0.5)  # the edit is looked at while the task runs
    _open(ws, "read")
    ws.wait_steps("steps", "read", 1)
    assert ws.read("out") == "second"
    ws.write("src/a", "first")
    _open(ws, "go")
    ws.wait(lambda: ws.holds("out", "first"), "what is on the disk is built")
    ws.wait(lambda: ws.lines("use")[-1:] == ["first"], "and what depends on it")
    ws.settle()
    assert ws.steps("steps").count("start") == 2
    assert vx.stop() == 0
    ws.nothing_left()


def _swap(ws: Workspace) -> None:
    """Have another file at the path, and one that is to come back with the inode number of the first.

    A system that gives numbers anew does so in the same directory. Git ignores what is beside it.
    """
    number = os.stat(ws.file("src/a")).st_ino
    ws.write("src/0.tmp", "second")
    os.rename(ws.file("src/0.tmp"), ws.file("src/a"))
    made = [ws.file(f"src/{count}.tmp") for count in range(1, 20)]
    for path in made:
        with open(path, "w") as file:
            file.write("first")
    back = next((path for path in made if os.stat(path).st_ino == number), made[0])
    os.rename(back, ws.file(".git/back"))
    for path in {*made} - {back}:
        os.unlink(path)


def _do(ws: Workspace, edit: str) -> None:
    if edit == "passing":
        ws.write("src/b", "third")
    elif edit == "emptied":
        ws.write("src/a", "")
    elif edit == "swapped":
        _swap(ws)
    elif edit == "moved":
        os.rename(ws.file("src"), ws.file(".git/away"))
    else:
        os.rename(ws.file("src/a"), ws.file(".git/away"))
    if edit == "replaced":
        ws.replace("src/a", "second")


def _undo(ws: Workspace, edit: str) -> None:
    if edit == "swapped":
        os.rename(ws.file(".git/back"), ws.file("src/a"))
    elif edit == "moved":
        os.rename(ws.file(".git/away"), ws.file("src"))
    elif edit == "passing":
        os.unlink(ws.file("src/b"))
    elif edit == "emptied":
        before = os.stat(ws.file("src/a"))
        ws.write("src/a", "first")
        os.utime(ws.file("src/a"), ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        ws.write(".git/back", "first")
        os.rename(ws.file(".git/back"), ws.file("src/a"))


@pytest.mark.parametrize("polling", [False, True])
@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("edit", ["removed", "replaced", "swapped", "moved", "passing", "emptied"])
def test_nor_is_an_edit_missed_that_is_undone_before_anybody_looks(
    ws: Workspace, edit: str, cached: bool, polling: bool
) -> None:
    if polling:
        ws.environment["VX_WATCH_POLL"] = "1"
    ws.write("src/a", "first")
    ws.write("build.sh", f"{_BUILD}rm -f $LOGS/read $LOGS/go\n")
    ws.write(".gitignore", "out\n*.tmp\n")
    ws.git("add", "-A")
    if cached:
        ws.task("build", "sh build.sh", inputs=["src/**"], outputs=["out"])
    else:
        ws.task("build", "sh build.sh")
    vx = ws.watch("build")
    ws.wait_steps("steps", "start", 1)
    ws.write(".git/index.lock", "")  # nobody looks while git is at work
    _do(ws, edit)
    _open(ws, "read")
    ws.wait_steps("steps", "read", 1)
    read = {"replaced": "second", "swapped": "second", "passing": "firstthird"}
    assert ws.read("out") == read.get(edit, "")
    _undo(ws, edit)
    _open(ws, "go")
    vx.wait_says("^cycle 1: ")
    os.unlink(ws.file(".git/index.lock"))
    ws.wait_steps("steps", "start", 2)
    _open(ws, "read")
    _open(ws, "go")
    ws.wait(lambda: ws.holds("out", "first"), "what is on the disk is built")
    ws.settle()
    assert ws.steps("steps").count("start") == 2
    assert vx.stop() == 0
    os.unlink(ws.file("out"))
    _open(ws, "read")
    _open(ws, "go")
    assert ws.vx("run", "build").code == 0
    assert ws.read("out") == "first"
    ws.nothing_left()


@pytest.mark.parametrize("touch", ["touch src/a", "chmod u+w src/a"])
def test_a_file_that_is_only_dated_meanwhile_is_nothing(ws: Workspace, touch: str) -> None:
    ws.write("src/a", "first")
    ws.write("build.sh", _BUILD)
    ws.task("build", "sh build.sh", inputs=["src/a"], outputs=["out"])
    vx = ws.watch("build")
    ws.wait_steps("steps", "start", 1)
    subprocess.run(touch, shell=True, cwd=ws.path, check=True)
    _open(ws, "read")
    _open(ws, "go")
    vx.wait_says("^cycle 1: ")
    ws.settle()
    assert ws.steps("steps").count("start") == 1
    assert vx.stop() == 0


@pytest.mark.parametrize("polling", [False, True])
def test_a_task_that_writes_what_was_there_comes_to_rest(ws: Workspace, polling: bool) -> None:
    if polling:
        ws.environment["VX_WATCH_POLL"] = "1"
    ws.write("src/a", "0")
    ws.task(
        "format",
        'echo run >> "$LOGS/format"; text=$(cat src/a); printf %s "$text" > src/a; cat src/a > out',
        inputs=["src/**"],
        outputs=["out"],
    )
    vx = ws.watch("format")
    vx.wait_says("^cycle 1: 1 ran")
    ws.settle(2.5)
    first = ws.runs("format")
    assert first <= 2  # once it may have been somebody else
    for number in (1, 2, 3):
        ws.write("src/a", str(number))
        ws.wait_runs("format", first + number)
        ws.settle(1.5)
    assert ws.runs("format") <= first + 6
    assert vx.stop() == 0


@pytest.mark.parametrize("polling", [False, True])
@pytest.mark.parametrize("seconds", ["0", "0.1"])  # shorter and longer than it takes to look
def test_a_task_that_makes_files_for_the_time_of_its_run_comes_to_rest(
    ws: Workspace, seconds: str, polling: bool
) -> None:
    if polling:
        ws.environment["VX_WATCH_POLL"] = "1"
    ws.write("src/a", "0")
    ws.task(
        "build",
        'echo run >> "$LOGS/build"; echo > src/$$.tmp; '
        f"sleep {seconds}; cat src/a > out; rm src/$$.tmp",
        inputs=["src/**"],
        outputs=["out"],
    )
    vx = ws.watch("build")
    vx.wait_says("^cycle 1: 1 ran")
    ws.settle(2.5)
    first = ws.runs("build")
    assert first <= 4  # once it may have been somebody else's
    for number in (1, 2, 3):
        ws.write("src/a", str(number))
        ws.wait_runs("build", first + number)
        ws.settle(1.5)
    assert ws.runs("build") <= first + 6
    assert ws.holds("out", "3")
    assert vx.stop() == 0
    ws.nothing_left()


def test_a_task_that_makes_a_file_anew_as_it_was_runs_once_more_once(ws: Workspace) -> None:
    ws.write("src/a", "0")
    ws.write("made", "same\n")
    ws.task("build", 'echo run >> "$LOGS/build"; rm made; sleep 0.2; echo same > made')
    vx = ws.watch("build")
    vx.wait_says("^cycle 1: 1 ran")
    ws.settle(2.5)
    first = ws.runs("build")
    assert first <= 4  # once it may have been somebody who took an edit back
    for number in (1, 2, 3):
        ws.write("src/a", str(number))
        ws.wait_runs("build", first + number)
        ws.settle(1.5)
        assert ws.holds("made", "same\n")
    assert ws.runs("build") <= first + 6
    assert vx.stop() == 0
    ws.nothing_left()


def test_what_git_undoes_twice_in_a_row_is_no_work_of_the_task(ws: Workspace) -> None:
    ws.write("src/a", "second")
    ws.write(".gitignore", "out\n")
    ws.write("build.sh", f"{_BUILD}rm -f $LOGS/read $LOGS/go\n")
    ws.git("add", "-A")
    ws.git("commit", "-qm", "second")
    ws.write("src/a", "first")
    ws.git("commit", "-qam", "first")
    ws.task("build", "sh build.sh", inputs=["src/**"], outputs=["out"])
    vx = ws.watch("build", "--on-busy=queue")
    for run in (1, 2):
        ws.wait_steps("steps", "start", run)
        ws.git("checkout", "-q", "HEAD~", "--", "src/a")
        ws.settle(0.5)  # it is looked at while the task runs
        _open(ws, "read")
        ws.wait_steps("steps", "read", run)
        ws.git("checkout", "-q", "HEAD", "--", "src/a")
        _open(ws, "go")
    ws.wait_steps("steps", "start", 3)
    _open(ws, "read")
    _open(ws, "go")
    ws.wait(lambda: ws.holds("out", "first"), "what is on the disk is built")
    assert vx.stop() == 0
    ws.nothing_left()


def test_an_undone_edit_of_a_server_that_was_starting_restarts_it(ws: Workspace) -> None:
    port = ws.port()
    ws.write("conf", "first")
    until = 'until [ -e "$LOGS/read" ]; do sleep 0.02; done; cp conf "$LOGS/seen"; '
    serve = ws.serve("web", port, page=f"{ws.logs}/seen", slow_start=1)
    ws.server("web", until + serve, ready_line="READY", restart_on=["conf"])
    vx = ws.watch("web")
    ws.write("conf", "second")
    ws.settle(0.5)
    _open(ws, "read")
    ws.wait_steps("web", "start", 1)
    ws.write("conf", "first")
    # A start that has not read it is given up, one that has read it is followed by another.
    ws.wait(lambda: _served(port) == "first", "what is on the disk is served")
    vx.wait_says("^cycle 1: ")
    ws.settle()
    assert get(port) == "first"
    assert vx.stop() == 0
    ws.nothing_left()


def test_nor_does_a_server_keep_what_it_read_meanwhile(ws: Workspace) -> None:
    port = ws.port()
    ws.write("conf", "first")
    ws.git("add", "-A")
    until = 'until [ -e "$LOGS/read" ]; do sleep 0.02; done; cp conf "$LOGS/seen"; '
    until += 'until [ -e "$LOGS/go" ]; do sleep 0.02; done; '
    serve = ws.serve("web", port, page=f"{ws.logs}/seen")
    ws.server("web", until + serve, ready_line="READY", restart_on=["conf"])
    vx = ws.watch("web")
    ws.write(".git/index.lock", "")  # nobody looks while git is at work
    ws.replace("conf", "second")
    _open(ws, "read")
    ws.wait(lambda: os.path.exists(f"{ws.logs}/seen"), "it has read the edit")
    ws.replace("conf", "first")
    _open(ws, "go")
    vx.wait_says("^cycle 1: ")
    os.unlink(ws.file(".git/index.lock"))
    ws.wait(lambda: _served(port) == "first", "what is on the disk is served")
    ws.settle()
    assert ws.steps("web").count("start") == 2
    assert vx.stop() == 0
    ws.nothing_left()


def test_a_task_that_rewrites_a_file_slowly_as_it_was_comes_to_rest(ws: Workspace) -> None:
    ws.write("src/a", "0")
    ws.write("report", "same\n")
    slow = "exec > report; sleep 0.5; echo same"
    ws.task("build", f'echo run >> "$LOGS/build"; {slow}', inputs=["src/**", "report"])
    vx = ws.watch("build")
    vx.wait_says("^cycle 1: 1 ran")
    ws.settle(1.5)
    ws.settle(1.5)
    first = ws.runs("build")
    assert first <= 4  # once it may have been somebody who took an edit back
    assert ws.holds("report", "same\n")
    ws.write("src/a", "1")
    ws.settle(1.5)
    second = ws.runs("build")
    assert 1 <= second - first <= 3
    ws.settle(1.5)
    assert ws.runs("build") == second
    assert ws.holds("report", "same\n")
    assert not vx.says("^note")
    assert vx.stop() == 0
    ws.nothing_left()


_ALL_IS_OWN = """\
import sys
from vxwatch.session.undone import Undone
Undone.once_more = lambda *_, **__: frozenset()
from vxwatch.cli import main
sys.argv = ["vx", "watch", "read", "whole", "hold", "--all"]
main()
"""
"""A watch that takes all that came and went for the work of its tasks."""


def test_what_a_task_took_and_what_is_gone_is_not_taken_for_its_work(ws: Workspace) -> None:
    ws.write("vx.workspace.toml", 'members = ["one", "two"]\n')
    told = f'env.set = {{ LOGS = "{ws.logs}" }}\n'
    ws.write("one/src/a", "a")
    wait = 'echo run >> "$LOGS/{0}"; until [ -e "$LOGS/go" ]; do sleep 0.02; done'
    read = 'cat src/* > "$LOGS/out"; echo run >> "$LOGS/read"'
    ws.write(
        "one/vx.toml",
        f"[tasks.read]\ncommand = '{read}'\ncache.inputs = [\"src/**\"]\n{told}"
        f"[tasks.whole]\ncommand = '{wait.format('whole')}'\n{told}",
    )
    ws.write("two/vx.toml", f"[tasks.hold]\ncommand = '{wait.format('hold')}'\n{told}")
    _open(ws, "go")
    vx = ws.start_command(sys.executable, "-c", _ALL_IS_OWN)
    vx.wait_says("^cycle 1: ")
    os.unlink(f"{ws.logs}/go")
    ws.write("two/a", "")
    ws.wait_runs("hold", 2)
    ws.write("one/src/b", "b")
    ws.wait_runs("read", 2)
    ws.wait_runs("whole", 2)
    assert ws.lines("out") == ["ab"]
    os.unlink(ws.file("one/src/b"))
    ws.settle(0.5)  # it is looked at; the task that takes all of the project has to end first
    _open(ws, "go")
    ws.wait(lambda: ws.lines("out") == ["a"], "what is on the disk is built")
    ws.settle()
    assert ws.runs("read") == 3
    assert vx.stop() == 0
