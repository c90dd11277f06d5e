"""A cache that can only be read, a full disk, and outputs that cannot be kept: what a run says then."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.harness import running
from tests.harness.workspace import Workspace

SPACES = ("unshare", "--user", "--map-root-user", "--mount")
BUILD = """
echo run >> "$LOGS/build"
mkdir -p dist/sub
cat src/* > dist/all
head -c 100000 /dev/urandom > dist/sub/noise
echo built
"""


def can_mount() -> bool:
    probe = [*SPACES, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


needs_mounts = pytest.mark.skipif(
    shutil.which("unshare") is None or not can_mount(), reason="nothing can be mounted here"
)


@pytest.fixture
def build(ws: Workspace, tmp_path: Path) -> Workspace:
    ws.write("src/a", "one\n")
    ws.write("build.sh", BUILD)
    ws.task("build", "sh build.sh", inputs=["build.sh", "src/**"], outputs=["dist/**"])
    ws.write("vx.workspace.toml", f'cache_dir = "{tmp_path}/cache"\n')
    return ws


def run(ws: Workspace, mounts: str = "", *words: str) -> str:
    """What a run prints after these mounts, which only it sees."""
    argv = [running.VX, "run", "build", *words]
    if mounts:
        argv = [*SPACES, "sh", "-c", f'set -e\n{mounts}\nexec "$@"', "sh", *argv]
    done = running.finish(argv, ws.path, ws.environment, 20)
    assert done.code == 0, done.text
    return done.text


def read_only(path: str | Path) -> str:
    return f"mount --bind '{path}' '{path}'; mount -o remount,bind,ro '{path}'"


def content(path: Path) -> Mapping[str, tuple[int, bytes]]:
    return {
        str(file): (file.stat().st_mtime_ns, file.read_bytes() if file.is_file() else b"")
        for file in path.rglob("*")
    }


@needs_mounts
def test_a_cache_that_can_only_be_read_gives_what_it_has(build: Workspace, tmp_path: Path) -> None:
    place = tmp_path / "cache"
    run(build)
    before = content(place)
    noise = build.read("dist/all")
    assert "1 fresh" in run(build, read_only(place))
    shutil.rmtree(build.file("dist"))
    for _ in range(2):
        text = run(build, read_only(place))
        assert "1 restored" in text or "1 fresh" in text
        assert "warning" not in text
        assert build.read("dist/all") == noise
    assert build.runs("build") == 1
    build.write("src/a", "two\n")
    for _ in range(2):
        text = run(build, read_only(place))
        assert "1 ran" in text
        said = f"warning: nothing is saved: the cache can only be read: {place}"
        assert text.count("warning: ") == text.count(said) == 1
        assert build.read("dist/all") == "two\n"
    assert content(place) == before
    build.write("src/a", "one\n")
    assert "1 restored" in run(build)


@needs_mounts
@pytest.mark.parametrize("words", [("cache",), ("last",), ("why", "build")])
def test_what_a_cache_holds_can_be_seen_where_it_can_only_be_read(
    build: Workspace, tmp_path: Path, words: tuple[str, ...]
) -> None:
    run(build)
    script = f'{read_only(tmp_path / "cache")}; exec "$@"'
    argv = [*SPACES, "sh", "-c", script, "sh", running.VX, *words]
    done = running.finish(argv, build.path, build.environment, 20)
    assert (done.code, done.err) == (0, ""), done.text


@needs_mounts
def test_a_cache_that_can_only_be_read_is_not_pruned(build: Workspace, tmp_path: Path) -> None:
    run(build)
    script = f'{read_only(tmp_path / "cache")}; exec "$@"'
    argv = [*SPACES, "sh", "-c", script, "sh", running.VX, "cache", "prune", "--max-size", "0"]
    done = running.finish(argv, build.path, build.environment, 20)
    assert done.code == 2
    assert f"{tmp_path}/cache can only be read" in done.err
    assert "1 fresh" in run(build)


@needs_mounts
def test_a_read_only_cache_that_another_process_writes_is_read(
    build: Workspace, tmp_path: Path
) -> None:
    go = f'\n[ -e "{build.logs}/go" ] || while [ ! -e "{build.logs}/go" ]; do sleep 0.05; done\n'
    run(build)
    shutil.rmtree(build.file("dist"))
    build.task("slow", go)
    other = build.start("run", "slow")
    build.wait((tmp_path / "cache" / "cache.db-wal").exists, "the database is open")
    assert "1 restored" in run(build, read_only(tmp_path / "cache"))
    Path(build.logs, "go").touch()
    assert other.ended() == 0


@needs_mounts
@pytest.mark.parametrize("size", ["16k", "64k", "100k", "140k"])
def test_a_full_disk_keeps_nothing_from_being_made(
    build: Workspace, tmp_path: Path, size: str
) -> None:
    place = tmp_path / "cache"
    place.mkdir()
    text = run(build, f"mount -t tmpfs -o size={size} tmpfs '{place}'")
    assert "1 ran" in text
    assert text.count("warning: ") == 1, text
    assert "No space left on device" in text or "full" in text
    assert build.read("dist/all") == "one\n"
    assert "1 ran" in run(build)
    assert "1 fresh" in run(build)


@needs_mounts
@pytest.mark.parametrize("size", ["4k", "40k"])
def test_a_disk_that_is_full_in_the_middle_of_a_restore_is_a_miss(
    build: Workspace, size: str
) -> None:
    run(build)
    shutil.rmtree(build.file("dist"))
    os.mkdir(build.file("dist"))
    argv = [*SPACES, "sh", "-c", f'mount -t tmpfs -o size={size} tmpfs dist; exec "$@"', "sh"]
    argv += [running.VX, "run", "build"]
    done = running.finish(argv, build.path, build.environment, 20)
    assert done.text.count("warning: ") == 1, done.text
    assert "build runs, because its outputs cannot be restored: " in done.text
    assert build.runs("build") == 2
    assert "1 restored" in run(build)


def test_an_output_that_cannot_be_kept_is_said_and_the_task_has_run(build: Workspace) -> None:
    build.write("build.sh", f"{BUILD}mkfifo dist/pipe\n")
    for count in (1, 2):
        text = run(build)
        assert "1 ran" in text
        assert text.count("build is not saved: ") == 1, text
        assert "dist/pipe" in text
        assert build.runs("build") == count
