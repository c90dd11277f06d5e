"""What vx ends with, and that the line that says why is there."""

import os
import re
import subprocess

import pytest

from tests.harness import running
from tests.harness.workspace import Workspace

pytestmark = pytest.mark.timeout(120)

_TASKS = {
    "ok": "true",
    "f3": "exit 3",
    "f255": "exit 255",
    "k9": "kill -9 $$",
    "segv": "kill -SEGV $$",
    "nf": "no-such-program-x",
    "t1": "sleep 30",
}


@pytest.fixture
def tasks(ws: Workspace) -> Workspace:
    for name, command in _TASKS.items():
        ws.task(name, command, timeout="1s" if name == "t1" else None)
    ws.task("grp", after=["ok", "k9"])
    return ws


def _last_lines_name(text: str, task: str, code: int) -> bool:
    return any(
        re.search(rf"\b{task}\b.*\b{code}\b", line) for line in text.rstrip().splitlines()[-6:]
    )


@pytest.mark.parametrize(
    ("names", "code", "failed"),
    [
        (["ok"], 0, None),
        (["f3"], 3, "f3"),
        (["f255"], 255, "f255"),
        (["k9"], 137, "k9"),
        (["segv"], 139, "segv"),
        (["nf"], 127, "nf"),
        (["t1"], 124, "t1"),
        (["grp"], 137, "k9"),
        (["ok", "k9"], 137, "k9"),
        (["f3", "f255", "--continue", "always"], 1, "f3"),
    ],
)
def test_run_ends_with_the_code_of_its_one_failed_task(
    tasks: Workspace, names: list[str], code: int, failed: str | None
) -> None:
    done = tasks.vx("run", *names)
    assert done.code == code, done.text
    if failed:
        own = code if code != 1 else 3
        assert _last_lines_name(done.text, failed, own), done.text
    assert "Traceback" not in done.text


@pytest.mark.slow
def test_run_ends_with_the_code_of_a_server_that_died_after_it_was_ready(ws: Workspace) -> None:
    ws.server("dead", ws.serve("dead", ws.port(), die_after=0.5), ready_line="READY")
    done = ws.vx("run", "dead")
    assert done.code == 3, done.text
    assert _last_lines_name(done.text, "dead", 3), done.text


def test_a_timed_out_task_says_so(tasks: Workspace) -> None:
    assert "timed out after 1s" in tasks.vx("run", "t1").text


def test_an_output_that_cannot_be_written_is_an_error_of_one_line(tasks: Workspace) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [running.VX, "run", "ok"],
            cwd=tasks.path,
            env=tasks.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode != 0
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_a_reader_that_leaves_changes_nothing(ws: Workspace) -> None:
    ws.task("big", 'seq 200000; echo end >> "$LOGS/big"; exit 3')
    vx = ws.piped("run", "big")
    assert vx.stdout is not None
    vx.stdout.readline()
    vx.stdout.close()
    assert vx.wait(20) == 3
    assert ws.runs("big") == 1


def test_the_end_of_the_output_is_shown_even_without_a_newline(ws: Workspace) -> None:
    ws.task("cut", "echo before-the-end; printf partial; kill -9 $$")
    ws.task("big", "seq 100000; printf last-without-newline")
    done = ws.vx("run", "cut")
    assert done.code == 137
    assert "before-the-end\npartial" in done.text
    done = ws.vx("run", "big")
    lines = done.text.splitlines()
    assert sum(line.strip().isdecimal() for line in lines) == 100_000
    assert "last-without-newline" in done.text


@pytest.mark.parametrize(
    "words",
    [
        ["run"],
        ["run", "buid"],
        ["rnu", "build"],
        ["run", "build", "--concurency", "2"],
        ["run", "build", "--continue", "sometimes"],
        ["watch", "build", "--debounce", "5"],
    ],
)
def test_a_usage_error_is_2_and_runs_nothing(ws: Workspace, words: list[str]) -> None:
    ws.task("build", 'echo run >> "$LOGS/build"')
    done = ws.vx(*words)
    assert done.code == 2, done.text
    assert ws.runs("build") == 0
    assert done.out == ""
    assert done.err
    assert "Traceback" not in done.err


def test_a_wrong_name_gets_the_nearest_right_one(ws: Workspace) -> None:
    ws.task("build", 'echo run >> "$LOGS/build"')
    for words, nearest in [
        (["run", "buid"], "build"),
        (["watch", "buid"], "build"),
        (["rnu", "build"], "run"),
        (["run", "build", "--concurency", "2"], "--concurrency"),
    ]:
        done = ws.vx(*words)
        assert done.code == 2
        assert re.search(rf"(?i)did you mean.*{nearest}", done.err, re.DOTALL), done.err
    assert ws.runs("build") == 0


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_vx_was_started_without_is_nobody_elses(ws: Workspace, closed: str) -> None:
    ws.task("build", 'echo out; echo err >&2; ls -l /proc/self/fd > "$LOGS/fds"')
    for words in ("run build", "show", "info"):
        done = running.finish(
            ["sh", "-c", f'exec "$0" {words} {closed}', running.VX], ws.path, ws.environment
        )
        assert done.code == 0, done.text
    assert [line.split()[-3] for line in ws.lines("fds")[1:]] == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    "words", ["run ok", "show", "show --format=json", "info", "--version", "--help", "run -h"]
)
def test_whatever_vx_cannot_write_it_says_in_one_line(tasks: Workspace, words: str) -> None:
    command = ["sh", "-c", f'exec "$0" {words} > /dev/full', running.VX]
    done = running.finish(command, tasks.path, tasks.environment)
    assert (done.code, done.err) == (1, "vx: cannot write output: No space left on device\n")


@pytest.mark.parametrize("words", ["show", "info", "--version", "--help", "run -h"])
def test_a_reader_that_leaves_is_no_failure(tasks: Workspace, words: str) -> None:
    command = ["bash", "-c", f'"$0" {words} | true; exit ${{PIPESTATUS[0]}}', running.VX]
    done = running.finish(command, tasks.path, tasks.environment)
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("sink", ["2> /dev/full", "2>&-"])
def test_an_error_that_nobody_hears_keeps_its_code(tasks: Workspace, sink: str) -> None:
    command = ["sh", "-c", f'exec "$0" run nope {sink}', running.VX]
    assert running.finish(command, tasks.path, tasks.environment).code == 2


@pytest.mark.parametrize("words", ["run build", "watch build", "show", "info"])
def test_a_working_directory_that_is_gone_is_said(ws: Workspace, words: str) -> None:
    ws.task("build", "true")
    os.mkdir(ws.file("here"))
    command = ["sh", "-c", f'cd here && rmdir ../here && exec "$0" {words}', running.VX]
    done = running.finish(command, ws.path, ws.environment)
    assert done.code == 2
    assert done.err.startswith("vx: the working directory does not exist any more\n")


def test_what_a_task_wrote_is_shown_when_the_run_is_stopped(ws: Workspace) -> None:
    ws.task("a", 'echo half of a; echo start >> "$LOGS/a"; sleep 300')
    ws.task("b", "echo b")
    vx = ws.start("run", "a", "b")
    ws.wait_runs("a", 1)
    vx.wait_says("b ran")
    assert vx.stop(15) == 143
    assert vx.says(r"a aborted\nhalf of a\nstopped by SIGTERM\n1 ran, 1 aborted in")
