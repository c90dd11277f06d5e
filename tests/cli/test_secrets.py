"""A secret is given to its task, and shown, kept and told nowhere."""

import os
import re

import pytest

from tests.harness.workspace import Workspace

pytestmark = pytest.mark.timeout(120)

TOKEN = "case-9f3b1c77d2"


@pytest.fixture
def ws(ws: Workspace) -> Workspace:
    ws.environment["API_TOKEN"] = TOKEN
    return ws


PRINTS = (
    'echo "out $API_TOKEN"; echo "err $API_TOKEN" >&2; printf case-9f; sleep 0.2; echo 3b1c77d2; '
    'test "$API_TOKEN" = case-9f3b1c77d2 && echo arrived'
)


@pytest.mark.parametrize(
    ("words", "ci"),
    [
        (["run", "t"], ""),
        (["run", "t", "ok"], ""),
        (["run", "after"], ""),
        (["run", "t", "--all"], ""),
        (["run", "t", "srv", "user"], ""),
        (["run", "t"], "1"),
    ],
)
def test_its_value_is_masked_however_output_is_shown(
    ws: Workspace, words: list[str], ci: str
) -> None:
    ws.environment["CI"] = ci
    ws.task("t", PRINTS + "; exit 1", secrets=["API_TOKEN"])
    ws.task("after", "true", after=["t"])
    ws.task("ok", "true")
    ws.server("srv", 'echo "srv $API_TOKEN"; sleep 300', ready_line="srv", secrets=["API_TOKEN"])
    ws.task("user", "true", after=["srv"])
    done = ws.vx(*words)
    assert done.code == 1
    assert TOKEN not in done.text
    assert "out ***" in done.text
    assert "err ***" in done.text
    assert "case-9f" not in done.text
    assert "arrived" in done.text


def test_a_task_that_does_not_have_it_cannot_show_it_either(ws: Workspace) -> None:
    ws.task("save", 'echo "$API_TOKEN" > token', secrets=["API_TOKEN"])
    ws.task("show", 'cat token; echo "[$API_TOKEN]"', after=["save"])
    assert ws.vx("run", "show").out.startswith("***\n[]\n")


def test_a_server_is_ready_by_what_it_really_prints(ws: Workspace) -> None:
    ws.server(
        "srv",
        'printf "go $API_TOKEN"; sleep 300',
        ready_line=f"go {TOKEN}",
        ready_timeout="5s",
        secrets=["API_TOKEN"],
    )
    vx = ws.start("watch", "srv")
    vx.wait_says(r"srv ready")
    assert vx.stop() == 0
    assert vx.says(r"go \*\*\*")
    assert TOKEN not in vx.output


def test_a_prompt_that_ends_as_a_value_begins_is_shown_at_once(ws: Workspace) -> None:
    ws.task("ask", 'printf "which c"; sleep 300', secrets=["API_TOKEN"])
    vx = ws.start("run", "ask")
    vx.wait_says(r"which c$")
    assert vx.stop() == 130


def test_errors_notes_and_commands_show_no_value(ws: Workspace) -> None:
    ws.task("t", f"true {TOKEN}", secrets=["API_TOKEN"])
    ws.task("late", "sleep 300", timeout="1ms", retries=1, secrets=["API_TOKEN"])
    ws.write("src/x", "")
    for words in (
        ["show"],
        ["show", "t"],
        ["show", "--format", "json"],
        ["show", "t", "--format", "json"],
        ["run", "t", "--", TOKEN],
        ["run", "late"],
    ):
        assert TOKEN not in ws.vx(*words).text, words


def test_a_watch_masks_the_names_of_files_and_a_secret_that_an_edit_declares(
    ws: Workspace,
) -> None:
    ws.task("t", "cat src/*", inputs=["src/**"])
    ws.write(f"src/{TOKEN}", "one\n")
    vx = ws.watch("t")
    vx.wait_says(r"cycle 1:")
    ws.task("t", "cat src/*; echo edited", inputs=["src/**"], secrets=["API_TOKEN"])
    vx.wait_says(r"cycle 2:")
    ws.write(f"src/{TOKEN}", f"two {TOKEN}\n")
    vx.wait_says(r"cycle 3:.*src/\*\*\*$")
    assert vx.stop() == 0
    assert "two ***\nedited" in vx.output
    assert TOKEN not in vx.output


def test_it_is_in_no_command_line_and_no_file(ws: Workspace) -> None:
    ws.environment["API_TOKEN"] = token = os.urandom(8).hex()
    leak = 'for p in /proc/[0-9]*; do tr "\\0" "\\n" < $p/cmdline; done 2> "$LOGS/none"'
    ws.task("t", f'echo "$API_TOKEN"; {leak} > "$LOGS/lines"; exit 1', secrets=["API_TOKEN"])
    ws.task("after", "true", after=["t"])
    done = ws.vx("run", "after")
    assert (done.code, done.out.count("***")) == (1, 1)
    assert not any(token in line for line in ws.lines("lines"))
    for place in (ws.path, os.environ["TMPDIR"]):
        for directory, _, names in os.walk(place):
            for name in names:
                with open(os.path.join(directory, name), "rb") as file:
                    assert token.encode() not in file.read(), name


def test_a_value_that_is_too_short_is_named_not_shown(ws: Workspace) -> None:
    ws.environment |= {"PIN": "123", "EMPTY": ""}
    ws.task("t", 'echo "pin $PIN"', secrets=["PIN", "EMPTY", "UNSET"])
    out = ws.vx("run", "t").out
    assert re.search(r"^warning: the value of PIN cannot be masked: .*4 bytes$", out, re.MULTILINE)
    assert "pin 123" in out
    assert out.count("warning") == 1
