"""A task that fails is tried again as often as its config says, and never after Ctrl-C."""

import os

import pytest

from tests.harness.workspace import Workspace

pytestmark = pytest.mark.timeout(120)

COUNTS = 'echo run >> "$LOGS/t"; echo "try $(wc -l < "$LOGS/t")"; '


def test_the_first_success_ends_the_attempts(ws: Workspace) -> None:
    ws.task("t", COUNTS + '[ $(wc -l < "$LOGS/t") -gt 1 ] || exit 7', retries=5)
    done = ws.vx("run", "t")
    assert done.code == 0
    assert done.out.startswith("try 1\nretrying w#t (2/6) after exit 7\ntry 2\n1 ran in ")
    assert ws.runs("t") == 2


@pytest.mark.parametrize(
    ("command", "code", "cause"),
    [
        ("exit 3", 3, "exit 3"),
        ("kill -9 $$", 137, "exit 137"),
        ("no-such-program-x", 127, "exit 127"),
        ("sleep 300", 124, "a timeout of 300ms"),
    ],
)
def test_the_last_failure_is_the_outcome(
    ws: Workspace, command: str, code: int, cause: str
) -> None:
    timeout = "300ms" if command.startswith("sleep") else None
    ws.task("t", COUNTS + command, retries=2, timeout=timeout)
    done = ws.vx("run", "t")
    assert done.code == code
    assert ws.runs("t") == 3
    assert f"retrying w#t (2/3) after {cause}\n" in done.out
    assert f"retrying w#t (3/3) after {cause}\n" in done.out
    assert f"exit code {code}" in done.out.splitlines()[-1]
    assert "- 3 attempts" in done.out.splitlines()[-1]


def test_a_block_shows_the_attempts_in_order(ws: Workspace) -> None:
    ws.task("t", COUNTS + "exit 1", retries=1)
    ws.task("other", "true")
    out = ws.vx("run", "t", "other", "--continue", "always").out
    assert "try 1\nretrying w#t (2/2) after exit 1\ntry 2\n" in out
    assert out.count("retrying") == 2


def test_ctrl_c_is_no_failure_to_retry(ws: Workspace) -> None:
    ws.task("t", COUNTS + "trap 'exit 1' INT; sleep 300 & wait", retries=3)
    vx = ws.start("run", "t")
    ws.wait_runs("t", 1)
    assert vx.stop() == 130
    assert ws.runs("t") == 1
    assert "retrying" not in vx.output


def test_what_only_the_user_can_mend_is_not_tried_again(ws: Workspace) -> None:
    ws.task("t", COUNTS, retries=3)
    ws.write("vx.toml", ws.read("vx.toml") + "sandbox.allow.read = ['/nowhere/at/all']\n")
    done = ws.vx("run", "t")
    assert "retrying" not in done.out


def test_each_attempt_begins_without_the_outputs_of_the_one_before(ws: Workspace) -> None:
    makes = 'ls out >> "$LOGS/seen" 2>&1; mkdir -p out; n=$(wc -l < "$LOGS/t"); echo x > "out/try-$n"; test "$n" = 2'
    ws.task("t", COUNTS + makes, retries=1, inputs=["src/**"], outputs=["out/**"])
    assert ws.vx("run", "t").code == 0
    assert os.listdir(ws.file("out")) == ["try-2"]
    with open(f"{ws.logs}/seen") as file:
        assert "try-1" not in file.read()
