"""`.ci/setup` on machines that lack something, as far as it gets without a network."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

SETUP = os.path.realpath(os.path.join(__file__, "../../../.ci/setup"))
LINE = "apt-get install -y --no-install-recommends"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with nothing but the script, beside a PATH of our own in `bin`."""
    (tmp_path / ".ci").mkdir()
    (tmp_path / "bin").mkdir()
    shutil.copy(SETUP, tmp_path / ".ci")
    for name in ("cat", "dirname", "sh", "tr", "git", "env"):
        tool(tmp_path, name, f'exec {shutil.which(name)} "$@"')
    tool(tmp_path, "python3", "exit 0")
    tool(tmp_path, "id", "echo 1000")
    return tmp_path


def tool(checkout: Path, name: str, script: str) -> None:
    path = checkout / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def setup(checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / ".ci" / "setup", *words],
        env={"PATH": str(checkout / "bin")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_must_be_told_what_for(checkout: Path) -> None:
    done = setup(checkout, "everything")
    assert (done.returncode, done.stdout) == (1, "")
    assert ".ci/setup demo|check|test|bench" in done.stderr


def test_a_user_who_may_not_install_is_told_the_line(checkout: Path) -> None:
    tool(checkout, "apt-get", "exit 99")
    done = setup(checkout, "demo")
    assert done.returncode == 1
    assert f"sudo {LINE} bubblewrap strace nodejs npm" in done.stderr


def test_a_password_nobody_can_type_is_not_asked_for(checkout: Path) -> None:
    tool(checkout, "apt-get", "exit 99")
    tool(checkout, "sudo", '[ "$1" = -n ] && exit 1; echo asked >&2; exit 1')
    done = setup(checkout, "demo")
    assert done.returncode == 1
    assert "asked" not in done.stderr
    assert f"sudo {LINE} bubblewrap" in done.stderr


def test_a_failed_installation_ends_it_with_the_line_to_try(checkout: Path) -> None:
    tool(checkout, "id", "echo 0")
    tool(checkout, "apt-get", 'echo "apt-get $*" >&2; exit 100')
    done = setup(checkout, "demo")
    assert done.returncode == 1
    assert "apt-get update" in done.stderr
    assert f"sudo apt-get update && sudo {LINE} bubblewrap" in done.stderr


def test_a_machine_without_apt_gets_the_names(checkout: Path) -> None:
    done = setup(checkout, "demo")
    assert done.returncode == 1
    assert "install what these Debian packages hold: bubblewrap strace nodejs npm" in done.stderr


def test_sudo_is_used_where_it_works(checkout: Path) -> None:
    tool(checkout, "apt-get", 'echo "ran apt-get $*" >&2')
    tool(checkout, "sudo", '[ "$1" = -n ] && exit 0; echo "as root: $1" >&2; "$@"')
    tool(checkout, "node", "echo v12.0.0")
    tool(checkout, "sed", f'exec {shutil.which("sed")} "$@"')
    done = setup(checkout, "demo")
    assert "as root: env" in done.stderr
    assert f"ran {LINE} bubblewrap strace npm" in done.stderr
    assert "node v12.0.0 is too old" in done.stderr
    assert done.returncode == 1


def test_the_lock_pins_everything_the_project_asks_for() -> None:
    root = os.path.realpath(os.path.join(__file__, "../../.."))
    with open(os.path.join(root, "pyproject.toml"), "rb") as file:
        config = tomllib.load(file)
    with open(os.path.join(root, "requirements-dev.lock")) as file:
        pinned = {line.partition("==")[0].lower() for line in file if "==" in line}
    wanted = [*config["project"]["dependencies"], *config["dependency-groups"]["dev"]]
    names = {re.split(r"[<>=!~\s\[;]", line, maxsplit=1)[0].lower() for line in wanted}
    assert names - pinned == set()
