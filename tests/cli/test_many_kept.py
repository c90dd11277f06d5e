"""Runs of which a copy of vx does a part: it looks at outputs, and restores them."""

import glob
import json
import os
import shutil
import sqlite3
import subprocess

import pytest

from tests.harness.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

MANY = 24
COPY_PAYS = "import vxwatch.process.twin as twin; twin.SHORTEST = 0"
"""Has a copy do its part also where there is little to do."""


@pytest.fixture
def many(ws: Workspace) -> Workspace:
    """As many tasks, each of which has run; each copies a file, and links to what it made."""
    tables = []
    for number in range(MANY):
        ws.write(f"src/{number}", f"text {number}")
        command = (
            f'echo run >> "{ws.logs}/all"; mkdir -p out/{number}/empty; '
            f"cp src/{number} out/{number}/a; ln -sf a out/{number}/link; chmod 755 out/{number}/a"
        )
        tables.append(
            f"[tasks.t{number}]\ncommand = {json.dumps(command)}\n"
            f'cache = {{ inputs = ["src/{number}"], outputs = ["out/{number}/**"] }}\n'
        )
    tables.append(f"[tasks.all]\ndepends_on = {json.dumps([f't{n}' for n in range(MANY)])}\n")
    ws.write("vx.toml", "".join(tables))
    done = ws.vx("run", "all", "--all", seconds=60)
    assert done.code == 0, done.text
    return ws


def told(ws: Workspace) -> str:
    """The last line of a run of all that succeeds, without its time."""
    done = ws.in_python("run", "all", "--all", first=COPY_PAYS)
    return done.stdout.splitlines()[-1].rpartition(" in ")[0]


def whole(ws: Workspace) -> None:
    """All that was made is there, just as it was."""
    for number in range(MANY):
        place = ws.file(f"out/{number}")
        assert ws.holds(f"out/{number}/a", f"text {number}")
        assert os.stat(f"{place}/a").st_mode & 0o777 == 0o755
        assert os.readlink(f"{place}/link") == "a"
        assert os.listdir(f"{place}/empty") == []


def test_all_of_it_is_put_back_and_fresh_from_then_on(many: Workspace) -> None:
    shutil.rmtree(many.file("out"))
    assert told(many) == f"{MANY} restored"
    whole(many)
    assert told(many) == f"{MANY} fresh"
    assert many.runs("all") == MANY
    run = json.loads(many.vx("last", "--format", "json").out)
    assert run["command"] == "vx run all --all"
    assert all(run["started"] <= task["started"] for task in run["tasks"])
    assert run["seconds"] >= max(task["started"] for task in run["tasks"]) - run["started"]
    many.nothing_left()


def test_each_kind_of_damage_is_mended_by_itself(many: Workspace) -> None:
    os.unlink(many.file("out/3/a"))
    os.chmod(many.file("out/4/a"), 0o644)
    many.write("out/21/extra", "x")
    many.write("out/22/a", "other")
    many.write("src/23", "text new")
    many.write("src/4", "text 4 ")
    many.write("src/4", "text 4")
    assert told(many) == f"1 ran, 4 restored, {MANY - 5} fresh"
    assert many.holds("out/23/a", "text new")
    many.write("src/23", "text 23")
    assert told(many) == f"1 restored, {MANY - 1} fresh"
    whole(many)


def test_what_is_damaged_in_the_cache_runs(many: Workspace) -> None:
    with sqlite3.connect(glob.glob(many.file(".vx/cache/*.db"))[0]) as database:
        rows = database.execute("SELECT artifact FROM entries WHERE artifact IS NOT NULL")
        artifacts = sorted(row[0] for row in rows)
    for name in artifacts[::7]:
        (path,) = glob.glob(many.file(f".vx/cache/**/{name}*"), recursive=True)
        with open(path, "r+b") as file:
            file.truncate(10)
    shutil.rmtree(many.file("out"))
    done = many.in_python("run", "all", "--all", first=COPY_PAYS)
    assert "is damaged" in done.stdout + done.stderr
    whole(many)
    assert many.runs("all") == MANY + len(artifacts[::7])


def test_a_task_that_another_vx_is_at_is_waited_for(many: Workspace) -> None:
    """The copy leaves it to the process itself, which waits."""
    slow = 'command = "sleep 1; mkdir -p out/7; cp src/7 out/7/a; ln -sf a out/7/link; chmod 755 out/7/a; mkdir out/7/empty"'
    text = many.read("vx.toml").splitlines()
    at = text.index("[tasks.t7]")
    text[at + 1] = slow
    many.write("vx.toml", "\n".join(text))
    shutil.rmtree(many.file("out"))
    first = many.start("run", "t7")
    many.wait(lambda: first.says("t7") or os.path.isdir(many.file("out/7")), "it is under way")
    assert told(many).endswith(f"{MANY - 1} restored") or told(many) == f"{MANY} fresh"
    first.process.wait(20)
    whole(many)


@pytest.mark.parametrize("inside", [False, True], ids=["repository", "part of one"])
def test_files_that_git_lists_ahead_are_those_of_now(ws: Workspace, inside: bool) -> None:
    """More files than vx waits for the configs with, before it asks git for them."""
    if inside:
        shutil.rmtree(ws.file(".git"))
        subprocess.run(["git", "init", "-q", os.path.dirname(ws.path)], check=True)
    for number in range(1500):
        ws.write(f"src/{number % 10}/{number}", f"{number}")
    ws.write(".gitignore", "*.log\nout\n")
    ws.task(
        "t",
        'echo run >> "$LOGS/t"; cat $(find src -type f | sort) > out',
        inputs=["src/**"],
        outputs=["out"],
    )

    def ended() -> str:
        done = ws.vx("run", "t", seconds=60)
        assert done.code == 0, done.text
        return done.out.splitlines()[-1].partition(" in ")[0]

    assert ended() == "1 ran"
    assert os.stat(ws.file(".vx/cache/files")).st_size > 100_000
    ws.write("src/noise.log", "x")
    assert ended() == "1 fresh"
    ws.write("src/new", "x")
    assert ended() == "1 ran"
    ws.write("src/0/0", "other")
    assert ended() == "1 ran"
    os.unlink(ws.file("src/new"))
    ws.write("src/0/0", "0")
    assert ended() == "1 restored"
    ws.write(".gitignore", "out\n")
    assert ended() == "1 ran"
    assert ended() == "1 fresh"
    assert ws.runs("t") == 4
    ws.nothing_left()
