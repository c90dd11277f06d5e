"""Every way to save a file makes one cycle, which sees what was saved; and what saves nothing none."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness import running
from tests.harness.ports import Ports
from tests.harness.saves import NO_SAVES, SAVES, Save
from tests.harness.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

REPOSITORY = os.path.abspath(f"{__file__}/../../..")
ENGINE = os.path.join(running.PUPPETS, "vx_engine.py")
MEMORY = "/dev/shm"
"""A tmpfs, where there is one."""


@pytest.fixture(params=["here", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path, port_block: Ports) -> Iterator[Workspace]:
    """A workspace on the file system of temporary files, and on a tmpfs."""
    if request.param == "memory" and not os.access(MEMORY, os.W_OK):
        pytest.skip(f"no {MEMORY}")
    home = tempfile.mkdtemp(dir=MEMORY) if request.param == "memory" else str(tmp_path)
    ws = Workspace(f"{home}/w", str(tmp_path / "logs"), port_block.take)
    yield ws
    ws.close()
    if request.param == "memory":
        shutil.rmtree(home)


class Session:
    """A watch, and what its task saw in each of its runs."""

    def __init__(self, ws: Workspace, engine: str) -> None:
        self._ws = ws
        self._edits = 0
        ws.write(".gitignore", "dist\n")
        ws.write("src/a", "text000")
        ws.write("mark", "0")
        ws.task(
            "build", 'tr -d "\\n" < src/a >> "$LOGS/seen"; echo >> "$LOGS/seen"', inputs=["src/**"]
        )
        ws.task("mark", "true", inputs=["mark"])
        command = [sys.executable, ENGINE, engine, "watch", "build", "mark"]
        ws.environment = {**ws.environment, "PYTHONPATH": REPOSITORY}
        self.vx = ws.start_command(*command)
        ws.wait(lambda: self.vx.says("^cycle 1:"), "the first cycle")

    def seen_of_save(self, save: Save) -> tuple[str, list[str]]:
        """The text that was saved, and what the runs saw that the save started, all of them."""
        self._edits += 1
        text = f"text{self._edits:03}"
        before = self._ws.runs("seen")
        save(self._ws.file("src/a"), text)
        self._ws.wait(lambda: self._ws.lines("seen")[-1:] == [text], f"{text} of {save}", 8)
        self._await_mark()
        return text, self._ws.lines("seen")[before:]

    def seen_of(self, edit: Callable[[str], None]) -> list[str]:
        """What the runs saw that the edit started."""
        before = self._ws.runs("seen")
        edit(self._ws.file("src/a"))
        self._await_mark()
        return self._ws.lines("seen")[before:]

    def _await_mark(self) -> None:
        """Edit what another task takes, twice: when it ran, all earlier edits were taken up."""
        for _ in range(2):
            self._ws.settle(0.1)
            cycles = self._cycles()
            self._ws.write("mark", f"{cycles} cycles")
            self._ws.wait(lambda: self._cycles() > cycles, "a cycle for the mark", 8)  # noqa: B023
        self._ws.settle(0.1)

    def _cycles(self) -> int:
        """How many cycles that took up the mark have ended."""
        return len(re.findall(r"^cycle .* - (?:.*, )?mark\b", self.vx.output, re.MULTILINE))


@pytest.mark.parametrize("engine", ["inotify", "watchfiles", "poll"])
def test_each_save_is_one_cycle_and_nothing_else_is(place: Workspace, engine: str) -> None:
    session = Session(place, engine)
    wrong = {}
    for pattern in SAVES:
        if pattern.possible and (engine, pattern.name) != ("watchfiles", "a mapping"):
            text, seen = session.seen_of_save(pattern.save)
            if seen != [text]:
                wrong[pattern.name] = (text, seen)
    for edit in NO_SAVES:
        if seen := session.seen_of(edit):
            wrong[edit.__name__] = ("", seen)
    assert not wrong, session.vx.output[-3000:]
    assert session.vx.stop() == 0
    place.nothing_left()


MOUNT = 'mount -t overlay overlay -o "lowerdir=$0/l,upperdir=$0/u,workdir=$0/w" "$0/m"'
TESTS = '"$1" -m pytest -q -n 0 -p no:cacheprovider "$2" -k "here and not watchfiles" --basetemp "$0/m/t"'


def test_so_it_is_on_an_overlay(tmp_path: Path) -> None:
    for name in "luwm":
        (tmp_path / name).mkdir()

    def inside(script: str) -> subprocess.CompletedProcess[str]:
        argv = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
        return subprocess.run(
            [*argv, str(tmp_path), sys.executable, __file__],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )

    if shutil.which("unshare") is None:
        pytest.skip("no unshare")
    if (tried := inside(MOUNT)).returncode:
        pytest.skip(f"no overlay can be mounted here: {tried.stderr.strip()}")
    done = inside(f"{MOUNT} && {TESTS}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
