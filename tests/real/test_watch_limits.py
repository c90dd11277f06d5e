"""At the system's limits the watch polls, says so once, and misses nothing."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.harness.waiting import patience

PUPPET = os.path.abspath(f"{__file__}/../../puppets/watch_limits.py")
REPOSITORY = os.path.abspath(f"{__file__}/../../..")


def limited(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["unshare", "--user", "--map-root-user", *argv],
        env={**os.environ, "PYTHONPATH": REPOSITORY},
        capture_output=True,
        text=True,
        timeout=patience(50),
        check=False,
    )


@cache
def why_not() -> str:
    """The reason why no limit can be lowered here; empty if it can."""
    try:
        done = limited("sh", "-c", "echo 5 > /proc/sys/user/max_inotify_watches")
    except FileNotFoundError as error:
        return str(error)
    return done.stderr.strip()


def notices(engine: str, limit: str, value: int, directory: Path) -> list[str]:
    if why_not():
        pytest.skip(f"limits cannot be lowered here: {why_not()}")
    done = limited(sys.executable, PUPPET, engine, limit, str(value), str(directory))
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["inotify", "watchfiles"])
@pytest.mark.parametrize("watches", [0, 5, 43])
def test_out_of_watches_the_rest_is_polled(engine: str, watches: int, tmp_path: Path) -> None:
    (line,) = notices(engine, "max_inotify_watches", watches, tmp_path)
    assert "fs.inotify.max_user_watches" in line
    assert "polling" in line


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["inotify", "watchfiles"])
@pytest.mark.parametrize("instances", [0, 1])
def test_out_of_instances_all_is_polled(engine: str, instances: int, tmp_path: Path) -> None:
    lines = notices(engine, "max_inotify_instances", instances, tmp_path)
    if engine == "inotify" and instances:
        assert lines == [""]
    else:
        assert len(lines) == 1
        assert "fs.inotify.max_user_instances" in lines[0]
