"""`vx lock` and `--frozen`: config programs with exactly the values that were looked at."""

import json
import os

import pytest

from tests.harness.workspace import Workspace

pytestmark = pytest.mark.timeout(120)

PROGRAM = """\
import os
print("evaluated")
word = os.environ.get("WORD", "usual")
config = {"tasks": {"t": {"command": f"echo {word}", "timeout": "1m"}}}
"""


@pytest.fixture
def locked(ws: Workspace) -> Workspace:
    ws.write("vx.config.py", PROGRAM)
    done = ws.vx("lock")
    assert (done.code, done.out) == (0, "vx.lock: 1 program\n")
    return ws


def test_it_holds_the_values(locked: Workspace) -> None:
    entry = json.loads(locked.read("vx.lock"))["programs"]["vx.config.py"]
    assert entry["config"]["tasks"]["t"] == {"command": "echo usual", "timeout": "1m"}
    before = locked.read("vx.lock")
    assert locked.vx("lock").out == "vx.lock: 1 program, as before\n"
    assert locked.read("vx.lock") == before


def test_a_frozen_run_evaluates_nothing_and_heeds_no_variable(locked: Workspace) -> None:
    locked.environment["WORD"] = "other"
    done = locked.vx("run", "t", "--frozen")
    assert done.code == 0
    assert "usual" in done.out
    assert "evaluated" not in done.err
    assert "other" in locked.vx("run", "t").out


def test_other_files_with_the_same_value_are_the_same(locked: Workspace) -> None:
    locked.write("vx.config.py", PROGRAM + "# a comment\n")
    done = locked.vx("run", "t", "--frozen")
    assert done.code == 0
    assert "usual" in done.out


def test_another_value_is_refused_by_name(locked: Workspace) -> None:
    locked.write("vx.config.py", PROGRAM.replace("1m", "2m").replace("echo", "echo -n"))
    done = locked.vx("run", "t", "--frozen")
    assert done.code == 2
    lines = [line for line in done.err.splitlines() if line.startswith("vx.lock")]
    assert lines == [
        'vx.lock: tasks.t.command of vx.config.py is "echo usual" there, and "echo -n usual" now',
        'vx.lock: tasks.t.timeout of vx.config.py is "1m" there, and "2m" now',
    ]
    assert "  run vx lock, look at what it changed, and commit it" in done.err
    assert locked.vx("lock").code == 0
    assert locked.vx("run", "t", "--frozen").code == 0


def test_a_program_that_is_not_locked_is_refused(locked: Workspace) -> None:
    locked.write("vx.workspace.py", "config = {}\n")
    done = locked.vx("run", "t", "--frozen")
    assert done.code == 2
    assert "vx.lock: has no value of vx.workspace.py" in done.err


def test_a_program_that_is_gone_is_refused(locked: Workspace) -> None:
    os.unlink(locked.file("vx.config.py"))
    locked.task("t", "true")
    done = locked.vx("run", "t", "--frozen")
    assert done.code == 2
    assert "vx.lock: has a value of vx.config.py, which is not there" in done.err
    assert locked.vx("lock").out == "nothing to lock: no config is a program, and vx.lock is gone\n"
    assert locked.vx("run", "t", "--frozen").code == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "vx.lock: is not there, and a frozen run takes its values from it"),
        ("{", "vx.lock: is not what this vx writes"),
        ("[]", "vx.lock: is not what this vx writes"),
        ('{"format": 7, "programs": {}}', "vx.lock: is not what this vx writes"),
        ('{"format": 1, "programs": {"vx.config.py": 1}}', "vx.lock: is not what this vx writes"),
    ],
)
def test_a_lock_that_is_none(locked: Workspace, content: str | None, said: str) -> None:
    os.unlink(locked.file("vx.lock"))
    if content is not None:
        locked.write("vx.lock", content)
    done = locked.vx("run", "t", "--frozen")
    assert done.code == 2
    assert done.err.splitlines()[0] == said
    assert len(done.err.splitlines()) == 2


def test_what_is_wrong_is_not_locked(ws: Workspace) -> None:
    ws.write("vx.config.py", "config = {'tasks': {'t': {'command': 7}}}\n")
    done = ws.vx("lock")
    assert done.code == 2
    assert "tasks.t.command" in done.err
    assert not os.path.exists(ws.file("vx.lock"))


def test_data_needs_no_lock(ws: Workspace) -> None:
    ws.task("t", "true")
    assert ws.vx("lock").out == "nothing to lock: no config is a program\n"
    assert ws.vx("run", "t", "--frozen").code == 0


def test_a_proof_ends_with_the_lock(ws: Workspace) -> None:
    ws.write("src/a", "")
    program = PROGRAM.replace('"timeout": "1m"', '"cache": {"inputs": ["src/**"], "outputs": []}')
    ws.write("vx.config.py", program)
    ws.vx("lock")
    for _ in range(3):
        assert ws.vx("run", "t", "--frozen").code == 0
    ws.write("vx.lock", ws.read("vx.lock").replace("usual", "edited"))
    assert "edited" in ws.vx("run", "t", "--frozen").out


def test_a_watch_takes_up_a_new_lock(locked: Workspace) -> None:
    vx = locked.start("watch", "t", "--frozen")
    vx.wait_says("usual")
    locked.write("vx.config.py", PROGRAM.replace("usual", "later"))
    vx.wait_says('is "echo usual" there, and "echo later" now')
    assert locked.vx("lock").code == 0
    vx.wait_says(r"^.*\blater\b$")


def test_a_lock_that_cannot_be_written(ws: Workspace) -> None:
    ws.write("vx.config.py", PROGRAM)
    os.mkdir(ws.file("vx.lock"))
    done = ws.vx("lock")
    assert done.code == 2
    assert f"vx: {ws.file('vx.lock')} cannot be written: Is a directory" in done.err
