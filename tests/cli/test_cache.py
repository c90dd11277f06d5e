"""What `vx run` and `vx watch` take from the cache, and what never gets into it."""

import os
import re
import shutil
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.harness.workspace import Workspace
from vxwatch.cache.locks import Lock, TaskLocks

BUILD = """
echo run >> "$LOGS/build"
mkdir -p dist/empty
cat src/* > dist/all
echo built
"""


@pytest.fixture
def build(ws: Workspace) -> Workspace:
    ws.write("src/a", "one\n")
    ws.write("build.sh", BUILD)
    ws.task("build", "sh build.sh", inputs=["build.sh", "src/**"], outputs=["dist/**"])
    return ws


def summary(text: str) -> str:
    """The words of the last line, without the time."""
    return text.splitlines()[-1].partition(" in ")[0]


def run(ws: Workspace, *words: str) -> str:
    done = ws.vx("run", *words)
    assert done.code == 0, done.out
    return summary(done.out)


def test_each_manifest_of_a_project_counts(build: Workspace) -> None:
    for name, text in (("package.json", '{"name": "%s"}'), ("pyproject.toml", "[tool.%s]\n")):
        build.write(name, text % "one")
    assert run(build, "build") == "1 ran"
    assert run(build, "build") == "1 fresh"
    build.write("package.json", '{"name": "one", "type": "module"}')
    assert run(build, "build") == "1 ran"
    build.write("pyproject.toml", "[tool.two]\n")
    assert run(build, "build") == "1 ran"


def test_what_was_made_is_fresh_then_restored(build: Workspace) -> None:
    assert run(build, "build") == "1 ran"
    assert run(build, "build") == "1 fresh"
    shutil.rmtree(build.file("dist"))
    done = build.vx("run", "build")
    assert done.out.splitlines()[0] == "built"
    assert summary(done.out) == "1 restored"
    assert os.path.isdir(build.file("dist/empty"))
    build.write("src/a", "two\n")
    assert run(build, "build") == "1 ran"
    build.write("src/a", "one\n")
    assert run(build, "build") == "1 restored"
    assert build.read("dist/all") == "one\n"
    assert build.runs("build") == 2
    assert "dist/" in build.dirt()
    assert ".vx/" not in build.dirt()


def test_damage_on_disk_is_found_whatever_its_stamps_say(build: Workspace) -> None:
    run(build, "build")
    path = build.file("dist/all")
    stamps = os.stat(path)
    build.write("dist/all", "ONE\n")
    os.utime(path, ns=(stamps.st_atime_ns, stamps.st_mtime_ns))
    assert run(build, "build") == "1 restored"
    assert build.read("dist/all") == "one\n"
    build.write("dist/stray", "junk")
    assert run(build, "build") == "1 restored"
    assert not os.path.exists(build.file("dist/stray"))


def test_a_task_without_outputs_is_fresh_and_nothing_is_touched(ws: Workspace) -> None:
    ws.write("src/a", "one")
    ws.task("lint", 'echo run >> "$LOGS/lint"; echo fine', inputs=["src/**"], outputs=[])
    assert run(ws, "lint") == "1 ran"
    assert run(ws, "lint") == "1 fresh"
    assert run(ws, "lint", "--force") == "1 ran"
    assert run(ws, "lint", "--no-cache") == "1 ran"
    assert ws.runs("lint") == 3


def test_a_task_that_builds_on_an_unknown_one_always_runs(build: Workspace) -> None:
    build.task("setup", 'echo run >> "$LOGS/setup"')
    build.task("build", "sh build.sh", inputs=["src/**"], outputs=["dist/**"], after=["setup"])
    assert run(build, "build") == "2 ran"
    assert run(build, "build") == "2 ran"


@pytest.mark.parametrize("how", ["exit 3", "kill -9 $$", "sleep 60"])
def test_nothing_is_kept_of_what_did_not_succeed(build: Workspace, how: str) -> None:
    build.write(
        "build.sh", f'echo run >> "$LOGS/build"\nmkdir -p dist\necho half > dist/all\n{how}'
    )
    build.task(
        "build", "sh build.sh", inputs=["src/**"], outputs=["dist/**"], timeout="1s", grace="100ms"
    )
    codes = [build.vx("run", "build").code for _ in range(2)]
    assert codes == {"exit 3": [3, 3], "kill -9 $$": [137] * 2, "sleep 60": [124] * 2}[how]
    assert build.runs("build") == 2


@pytest.mark.parametrize("trap", ["", "trap 'exit 0' INT TERM"])
def test_an_interrupted_task_is_not_kept(build: Workspace, trap: str) -> None:
    body = f'{trap}\necho run >> "$LOGS/build"\nmkdir -p dist\necho half > dist/all\n'
    build.write("wait.sh", body + 'while [ ! -e "$LOGS/go" ]; do sleep 0.05; done')
    build.task("build", "sh wait.sh", inputs=["src/**"], outputs=["dist/**"])
    vx = build.start("run", "build")
    build.wait_runs("build", 1)
    assert vx.stop(signal.SIGINT) == 130
    Path(build.logs, "go").touch()
    assert run(build, "build") == "1 ran"
    build.nothing_left()


MOVES = {
    "src/b": "echo new > src/b",
    "src/a": "printf 'two\n' > src/a",
    "src/empty/deep/c": "mkdir src/empty/deep; echo new > src/empty/deep/c",
    "src/gone": "rm src/gone",
    "package-lock.json": "echo '{}' > package-lock.json",
}


@pytest.mark.parametrize("path", MOVES)
def test_an_input_that_moved_while_the_task_ran_is_told_and_nothing_is_kept(
    build: Workspace, path: str
) -> None:
    build.write("src/gone", "here\n")
    os.makedirs(build.file("src/empty"))
    wait = '\necho up >> "$LOGS/up"; while [ ! -e "$LOGS/go" ]; do sleep 0.05; done\n'
    build.write("build.sh", BUILD.replace("cat src/*", "cat src/a") + wait)
    vx = build.start("run", "build")
    build.wait_runs("up", 1)
    subprocess.run(MOVES[path], shell=True, cwd=build.path, check=True)
    Path(build.logs, "go").touch()
    assert vx.ended() == 0
    assert f"build is not saved: {path} changed while it ran" in vx.output
    assert run(build, "build") == "1 ran"
    assert run(build, "build") == "1 fresh"


def test_a_watch_uses_and_fills_the_cache(build: Workspace) -> None:
    run(build, "build")
    shutil.rmtree(build.file("dist"))
    vx = build.watch("build")
    vx.wait_says(r"cycle 1: ")
    assert build.read("dist/all") == "one\n"
    build.write("src/a", "two\n")
    build.wait(lambda: build.holds("dist/all", "two\n"), "the edit is built")
    vx.wait_says(r"cycle 2: ")
    build.write("src/a", "one\n")
    build.wait(lambda: build.holds("dist/all", "one\n"), "the old state is back")
    assert vx.stop() == 0
    assert build.runs("build") == 2
    assert run(build, "build") == "1 fresh"


def test_outputs_behind_a_link_are_refused(build: Workspace) -> None:
    run(build, "build")
    shutil.rmtree(build.file("dist"))
    elsewhere = Path(build.logs, ".elsewhere")
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("x")
    os.symlink(elsewhere, build.file("dist"))
    done = build.vx("run", "build")
    assert done.code == 1
    assert "dist is a symbolic link" in done.out
    assert os.path.islink(build.file("dist"))
    assert os.listdir(elsewhere) == ["precious"]
    assert build.runs("build") == 1


def test_an_output_that_git_tracks_is_left_alone(build: Workspace) -> None:
    build.write("dist/README", "by hand")
    build.git("add", "-f", "dist/README")
    done = build.vx("run", "build")
    assert "dist/README: an output of" in done.out
    assert build.read("dist/README") == "by hand"
    os.unlink(build.file("dist/all"))
    assert run(build, "build") == "1 restored"
    assert build.read("dist/README") == "by hand"


def artifacts(ws: Workspace) -> list[Path]:
    return [*Path(ws.file(".vx/cache/artifacts")).rglob("*.tar.zst")]


@pytest.mark.parametrize("how", ["cut", "flipped", "gone"])
def test_a_damaged_artifact_is_a_miss_and_is_said_once(build: Workspace, how: str) -> None:
    run(build, "build")
    [artifact] = artifacts(build)
    content = artifact.read_bytes()
    if how == "gone":
        artifact.unlink()
    else:
        damaged = content[:-1] if how == "cut" else bytes([content[0] ^ 1]) + content[1:]
        artifact.write_bytes(damaged)
    shutil.rmtree(build.file("dist"))
    done = build.vx("run", "build")
    assert done.code == 0
    assert done.out.count("warning: ") == 1
    assert "what was saved of it is damaged" in done.out
    assert summary(done.out) == "1 ran"
    shutil.rmtree(build.file("dist"))
    assert run(build, "build") == "1 restored"


def test_a_database_of_a_newer_vx_is_left_alone(build: Workspace) -> None:
    run(build, "build")
    path = build.file(".vx/cache/cache.db")
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    for _ in range(2):
        done = build.vx("run", "build")
        assert done.code == 0
        assert done.out.count("warning: the cache is not used: ") == 1
        assert "made by a newer vx" in done.out
        assert summary(done.out) == "1 ran"


def test_a_database_that_is_damaged_is_made_anew(build: Workspace) -> None:
    run(build, "build")
    Path(build.file(".vx/cache/cache.db")).write_bytes(b"\xff" * 40_000)
    done = build.vx("run", "build")
    assert "warning: the cache was damaged and is empty now" in done.out
    assert summary(done.out) == "1 ran"
    assert run(build, "build") == "1 fresh"


def test_a_cache_that_cannot_be_made_is_one_warning(build: Workspace) -> None:
    build.write("vx.workspace.toml", 'cache_dir = "src/a/cache"')
    done = build.vx("run", "build")
    assert done.code == 0
    assert done.out.count("warning: the cache is not used: ") == 1
    assert build.runs("build") == 1
    done = build.vx("cache")
    assert done.code == 2
    assert "src/a/cache" in done.text


def test_worktrees_share_a_cache_when_asked(build: Workspace, tmp_path: Path) -> None:
    build.write("vx.workspace.toml", 'cache_dir = "shared"')
    build.write(".gitignore", "dist\n")
    build.write("package.json", '{"name": "app"}')
    build.git("add", ".")
    build.git("commit", "-qm", "all")
    build.git("worktree", "add", "-q", str(tmp_path / "other"))
    run(build, "build")
    before = build.runs("build")
    done = build.vx("run", "build", cwd=str(tmp_path / "other"))
    assert done.code == 0
    assert build.runs("build") == before, done.out
    assert (tmp_path / "other" / "dist" / "all").read_text() == "one\n"
    assert not os.path.exists(build.file(".vx/cache/cache.db"))


def test_the_second_of_two_waits_for_the_first_and_takes_what_it_made(build: Workspace) -> None:
    wait = '\nwhile [ ! -e "$LOGS/go" ]; do sleep 0.05; done\n'
    build.write("build.sh", BUILD + wait)
    first = build.start("run", "build")
    build.wait_runs("build", 1)
    second = build.start("run", "build")
    second.wait_says(r"build waits since \d\d:\d\d:\d\d: another vx is at it")
    assert f"(pid {first.pid})" in second.output
    Path(build.logs, "go").touch()
    assert first.ended() == 0
    assert second.ended() == 0
    assert summary(second.output) == "1 fresh"
    assert build.runs("build") == 1


def test_a_killed_vx_holds_up_nobody(build: Workspace) -> None:
    build.write("build.sh", BUILD + '\n[ -e "$LOGS/go" ] || sleep 60\n')
    first = build.start("run", "build")
    build.wait_runs("build", 1)
    first.stop(signal.SIGKILL)
    Path(build.logs, "go").touch()
    assert run(build, "build") == "1 ran"
    build.nothing_left()


def test_the_cache_is_shown_and_pruned(build: Workspace) -> None:
    for text in ("one", "two", "three"):
        build.write("src/a", text)
        run(build, "build")
        run(build, "build")  # stamps prove what is there once they are old enough
    shown = build.vx("cache").out
    assert re.search(r"entries +3\b", shown)
    dry = build.vx("cache", "prune", "--max-size", "0", "--dry-run").out
    assert re.match(r"would remove 3 entries, ", dry)
    assert build.vx("cache", "prune", "--older-than", "1h").out.startswith("removed 0 entries")
    assert build.vx("cache", "prune", "--max-size", "0").out.startswith("removed 3 entries")
    assert artifacts(build) == []
    # what is on disk is what it was made of, still
    assert run(build, "build") == "1 fresh"
    shutil.rmtree(build.file("dist"))
    assert run(build, "build") == "1 ran"


def test_a_run_keeps_to_the_limits_of_the_workspace(build: Workspace) -> None:
    build.write("vx.workspace.toml", 'cache_retention = { max_size = "0" }')
    run(build, "build")
    assert artifacts(build) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--older-than", "30"), "expected an age"),
        (("--max-size", "10"), "expected a unit"),
    ],
)
def test_a_wrong_limit_is_refused(build: Workspace, words: tuple[str, ...], message: str) -> None:
    done = build.vx("cache", "prune", *words)
    assert done.code == 2
    assert message in done.text


def test_a_secret_is_kept_nowhere_and_counts(ws: Workspace) -> None:
    ws.write("src/a", "one")
    ws.task(
        "t",
        'echo run >> "$LOGS/t"; echo "token is $TOKEN"; printf "$TOKEN" | cut -c1-9; echo > out',
        inputs=["src/**"],
        outputs=["out"],
        secrets=["TOKEN"],
    )
    ws.environment |= {"TOKEN": "case-9f3b1c77d2", "XDG_STATE_HOME": ws.logs}
    texts = [ws.vx("run", "t").out]
    os.unlink(ws.file("out"))
    texts.append(ws.vx("run", "t").out)
    assert summary(texts[1]) == "1 restored"
    assert "token is" in texts[1]
    assert all("case-9f3b1c77d2" not in text for text in texts)
    for path in Path(ws.path).rglob("*"):
        assert not path.is_file() or b"case-9f3b1c77d2" not in path.read_bytes()
    ws.environment["TOKEN"] = "case-other-value"
    assert run(ws, "t") == "1 ran"
    assert ws.runs("t") == 2


def test_what_may_only_be_read_is_used_and_not_added_to(build: Workspace) -> None:
    run(build, "build")
    history = build.vx("last", "--list").out.partition(" ago")[0]
    shutil.rmtree(build.file("dist"))
    assert run(build, "build", "--cache", "local:r") == "1 restored"
    build.write("src/a", "two\n")
    for _ in range(2):
        done = build.vx("run", "build", "--cache=local:r")
        assert summary(done.out) == "1 ran"
        assert "warning" not in done.text
    assert build.holds("dist/all", "two\n")
    assert len(build.vx("last", "--list").out.splitlines()) == len(history.splitlines())
    assert run(build, "build") == "1 ran"
    assert run(build, "build", "--cache", "local:w") == "1 ran"
    assert run(build, "build", "--cache", "local:rw") == "1 fresh"


def test_a_cache_that_may_only_be_read_and_is_not_there_is_not_made(build: Workspace) -> None:
    done = build.vx("run", "build", "--cache", "local:r")
    assert summary(done.out) == "1 ran"
    assert done.text.count("warning: the cache is not used: there is none in ") == 1
    assert not os.path.exists(build.file(".vx/cache/cache.db"))


def test_the_command_line_says_where_the_cache_is(build: Workspace, tmp_path: Path) -> None:
    place = ("--cache-dir", "../other")
    os.makedirs(build.file("src/deep"))
    assert run(build, "build", *place) == "1 ran"
    assert run(build, "build", *place) == "1 fresh"
    assert not os.path.exists(build.file(".vx/cache/cache.db"))
    for words in (("cache", *place), ("cache", *place, "prune"), ("cache", "prune", *place)):
        done = build.vx(*words)
        assert done.code == 0
        assert f"{tmp_path}/other" in done.out or done.out.startswith("removed 0 entries")
    assert re.search(r"entries +1\b", build.vx("cache", *place).out)
    assert "1 ran" in build.vx("last", *place).out
    assert "fresh" in build.vx("why", "build", *place).out
    done = build.vx("run", "build", "--cache-dir", "../../../other", cwd="src/deep")
    assert summary(done.out) == "1 fresh"
    build.vx("cache", *place, "prune", "--max-size", "0")
    assert re.search(r"entries +0\b", build.vx("cache", *place).out)
    assert not os.path.exists(build.file(".vx/cache/cache.db"))


@pytest.mark.parametrize(
    "words",
    [("--force", "--no-cache"), ("--cache", "local:r", "--force"), ("--cache=x",), ("--cache",)],
)
def test_ways_to_use_the_cache_exclude_each_other(build: Workspace, words: tuple[str, ...]) -> None:
    done = build.vx("run", "build", *words)
    assert done.code == 2
    assert "--cache" in done.err
    assert build.runs("build") == 0


def test_nothing_older_is_restored_over_what_a_watch_has_made_meanwhile(ws: Workspace) -> None:
    ws.task("build", "cp src/a out", inputs=["src/**"], outputs=["out"])
    for text in ("one", "two", "one"):
        ws.write("src/a", text)
        assert ws.vx("run", "build").code == 0
    os.unlink(ws.file("out"))
    os.mkdir(ws.file(".vx/vx-control-of-a-watch"))
    name = os.path.basename(ws.path)
    with closing(TaskLocks(ws.path)) as locks:
        taken = locks.take(f"{name}#build")
        vx = ws.start("run", "build")
        vx.wait_says("another vx is at it")
        ws.write("src/a", "two")
        ws.write("out", "two")
        assert isinstance(taken, Lock)
        taken.release()
        assert vx.ended(20) == 0
    assert ws.read("out") == "two"
