"""What is missing or full around vx: one clear error, the right code, nothing left."""

import os
import shutil

import pytest

from tests.harness.running import VX, Background
from tests.harness.workspace import Box, Workspace

pytestmark = pytest.mark.timeout(120)


_NEEDED = ("sh", "env", "setsid", "sleep", "git", "bwrap")


def _path_without(ws: Workspace, missing: str) -> str:
    """A PATH on which everything that vx needs is, but for one program."""
    directory = os.path.join(ws.logs, ".bin")
    os.mkdir(directory)
    for name in _NEEDED:
        found = shutil.which(name)
        assert found, name
        if name != missing:
            os.symlink(found, os.path.join(directory, name))
    return directory


@pytest.mark.parametrize(("program", "package"), [("bwrap", "bubblewrap")])
def test_a_missing_program_is_named_with_its_package_and_no_boxed_task_runs(
    ws: Workspace, program: str, package: str
) -> None:
    ws.environment = {**ws.environment, "PATH": _path_without(ws, program)}
    port = ws.port()
    ws.server("web", ws.serve("web", port), ready_line="READY", box=Box(ports=(port,)))
    done = ws.vx("run", "web")
    assert done.code not in {0, 70}
    assert program in done.text
    assert package in done.text
    assert "install" in done.text
    assert "Traceback" not in done.text
    assert ws.steps("web") == []
    ws.nothing_left()


@pytest.mark.slow
def test_a_watch_goes_on_where_no_box_is_needed(ws: Workspace) -> None:
    ws.environment = {**ws.environment, "PATH": _path_without(ws, "bwrap")}
    ws.write("src/a", "0")
    ws.task("boxed", 'echo run $$ >> "$LOGS/boxed"', inputs=["src/**"], box=Box(read=("src",)))
    ws.task("plain", 'echo run $$ >> "$LOGS/plain"', inputs=["src/**"])
    vx = ws.watch("boxed", "plain")
    ws.wait_runs("plain", 1)
    ws.write("src/a", "1")
    ws.wait_runs("plain", 2)
    assert ws.runs("boxed") == 0
    assert vx.says("bubblewrap")
    assert vx.stop() == 0
    ws.nothing_left()


def _on_a_small_disk(ws: Workspace, *words: str) -> Background:
    """A watch of the workspace on a file system of 256 KiB, in a mount namespace of its own."""
    copy = os.path.join(ws.logs, ".copy")
    shutil.copytree(ws.path, copy)
    script = (
        'mount -t tmpfs -o size=256k none "$1" && cp -a "$2/." "$1" && cd "$1" && shift 2 &&'
        ' exec "$@"'
    )
    new = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    return ws.start_command(*new, "sh", "-c", script, "sh", ws.path, copy, VX, *words)


@pytest.mark.slow
def test_a_full_disk_fails_the_task_and_the_watch_goes_on(ws: Workspace) -> None:
    ws.write("src/size", "400000")
    ws.task(
        "build",
        'echo run $$ >> "$LOGS/build"; mkdir -p dist; head -c "$(cat src/size)" /dev/zero > dist/big',
        inputs=["src/**"],
        outputs=["dist/**"],
    )
    vx = _on_a_small_disk(ws, "watch", "build")
    ws.wait_runs("build", 1)
    vx.wait_says(r"(?i)no space left")
    vx.wait_says(r"^cycle 1: 0 ran, 1 failed")
    inside = f"/proc/{vx.pid}/root{ws.path}"
    os.unlink(f"{inside}/dist/big")
    with open(f"{inside}/src/size", "w") as file:
        file.write("1000")
    vx.wait_says(r"^cycle \d+: 1 ran, 0 failed")
    assert "Traceback" not in vx.output
    assert vx.stop() == 0
    ws.nothing_left()


@pytest.mark.sandbox
def test_a_temporary_directory_that_takes_no_files_is_one_clear_error(ws: Workspace) -> None:
    ws.environment = {**ws.environment, "TMPDIR": os.path.join(ws.logs, "missing")}
    ws.write("src/a", "0")
    ws.task("boxed", 'echo run $$ >> "$LOGS/boxed"', box=Box(read=("src",)))
    done = ws.vx("run", "boxed")
    assert "Traceback" not in done.text
    if done.code == 0:  # another place was found
        assert ws.runs("boxed") == 1
    else:
        assert "TMPDIR" in done.text
        assert ws.runs("boxed") == 0


def test_a_directory_of_no_workspace_says_what_to_write(ws: Workspace) -> None:
    done = ws.vx("run", "build")
    assert done.code == 2
    assert "vx.toml" in done.err
    assert "Traceback" not in done.err


@pytest.mark.slow
def test_a_full_temporary_directory_shows_what_cannot_be_kept(ws: Workspace) -> None:
    ws.task("flood", "seq 400000")
    ws.task("small", "echo small")
    new = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    mount = 'mount -t tmpfs -o size=1m none "$TMPDIR" && exec "$@"'
    vx = ws.start_command(*new, "sh", "-c", mount, "sh", VX, "run", "flood", "small")
    assert vx.ended(30) == 0
    lines = vx.output.splitlines()
    numbers = [line.rpartition(" ")[2] for line in lines if line.startswith("w#flood | ")]
    assert numbers == [str(number) for number in range(1, 400_001)]
    assert vx.says(r"^note: w#flood is shown as it comes: .*\(No space left on device\)")
    assert vx.says(r"^small$")
