"""vx in places that allow less than a sandbox needs: it says which, and runs nothing unconfined."""

import os
import subprocess
import sys

import pytest

from tests.harness.running import VX
from tests.harness.workspace import Workspace

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(120)]

COVERED_PROC = (
    *("bwrap", "--dev-bind", "/", "/", "--unshare-user", "--unshare-pid"),
    *("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"),
)
ROOT_WITHOUT_RIGHTS = (*COVERED_PROC, "--cap-drop", "ALL")
USER = (*ROOT_WITHOUT_RIGHTS, "--uid", "1000", "--gid", "1000")
CONFIG = """
[tasks.strict]
command = "echo ran"
sandbox = {}
[tasks.weak]
command = "ls /; cat secret; echo x > /proc/sys/vm/swappiness; echo x > /etc/vx-was-here; echo ran"
sandbox = { weaker_when_nested = true }
"""


def limited(name: str) -> tuple[str, ...]:
    """A user namespace of its own in which a kernel setting is 0."""
    return ("unshare", "-Ur", "sh", "-c", f'echo 0 > /proc/sys/{name} && exec "$@"', "sh")


@pytest.fixture(autouse=True)
def _config(ws: Workspace) -> None:
    ws.write("vx.toml", CONFIG)
    ws.write("secret", "hidden")


def vx(ws: Workspace, around: tuple[str, ...], *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [*around, VX, *words],
        cwd=ws.path,
        env=ws.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


NO_NAMESPACES = (
    sys.executable,
    os.path.join(os.path.dirname(__file__), "../puppets/no_namespaces.py"),
)


@pytest.mark.parametrize(
    ("around", "reason", "fix"),
    [
        (COVERED_PROC, "lets nothing mount a /proc of its own", "weaker_when_nested = true"),
        (limited("user/max_user_namespaces"), "max_user_namespaces is 0", "sudo sysctl -w user."),
        (limited("user/max_net_namespaces"), "net namespaces", "user.max_net_namespaces=15000"),
        (ROOT_WITHOUT_RIGHTS, "took from root the right", "as another user than root"),
        (NO_NAMESPACES, "lets no program make user namespaces", "seccomp=unconfined"),
    ],
    ids=["proc", "user", "net", "root", "filter"],
)
def test_the_reason_is_told_and_nothing_runs(
    ws: Workspace, around: tuple[str, ...], reason: str, fix: str
) -> None:
    _, info = vx(ws, around, "info")
    assert reason in info, info
    assert fix in info
    code, told = vx(ws, around, "run", "strict")
    assert code != 0
    assert "ran\n" not in told


@pytest.mark.parametrize("around", [COVERED_PROC, USER], ids=["root", "user"])
def test_weaker_is_for_the_tasks_that_say_so(ws: Workspace, around: tuple[str, ...]) -> None:
    code, told = vx(ws, around, "run", "weak")
    assert code == 0, told
    assert "ran\n" in told
    assert "hidden" not in told
    assert told.count("Read-only file system") == 2
    assert not os.path.exists("/etc/vx-was-here")
    code, told = vx(ws, around, "run", "strict")
    assert code == 1
    assert "weaker_when_nested" in told


def test_where_a_whole_sandbox_works_nothing_is_weaker(ws: Workspace) -> None:
    ws.write("vx.toml", CONFIG.replace("ls /; cat secret", "ls /proc | grep -c '^[0-9]'; exit"))
    code, told = vx(ws, (), "run", "weak")
    assert code == 0, told
    assert int(told.split()[0]) < 10


def test_vx_in_a_box_of_vx(ws: Workspace) -> None:
    ws.write("inner/vx.workspace.toml", "")
    ws.write("inner/vx.toml", CONFIG)
    ws.write("inner/secret", "hidden")
    ws.write(
        "vx.toml",
        f"""
        [tasks.outer]
        command = "cd inner && {VX} run weak"
        [tasks.outer.sandbox]
        allow = {{ read = [".", "inner", {os.path.dirname(sys.prefix)!r}], write = ["inner/"] }}
        ignore = {{ read = ["**"], write = ["**", "/**"] }}
        """,
    )
    around = ("bwrap", "--dev-bind", "/", "/", "--unshare-user", "--uid", "1000", "--gid", "1000")
    code, told = vx(ws, (*around, "--cap-drop", "ALL"), "run", "outer")
    assert code == 0, told
    assert "ran\n" in told
    assert "hidden" not in told
