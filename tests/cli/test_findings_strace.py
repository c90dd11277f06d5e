"""What vx says of a task's denials where strace has to tell of them, or cannot."""

import os
import shutil

import pytest

from tests.harness.filters import kernel_tells
from tests.harness.workspace import Box, Workspace

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(120)]

_BOX = Box(read=("src",), write=("out/",))


@pytest.fixture(autouse=True)
def _source(ws: Workspace) -> None:
    ws.trace_with_strace()
    ws.write("src/a", "text")
    ws.write("secret.txt", "hidden")
    home = os.path.join(ws.logs, "home")
    os.mkdir(home)
    ws.environment = {**ws.environment, "HOME": home}


def without_strace(ws: Workspace, stand_in: str | None = None) -> None:
    """Let PATH be a directory of links in the home, without strace or with a script as strace."""
    bin_directory = os.path.join(ws.environment["HOME"], ".local/bin")
    os.makedirs(bin_directory)
    for name in ("bwrap", "sh", "git", "cat", "env", "true"):
        program = shutil.which(name)
        assert program
        os.symlink(program, os.path.join(bin_directory, name))
    if stand_in is not None:
        path = os.path.join(bin_directory, "strace")
        with open(path, "w") as file:
            file.write(f"#!/bin/sh\n{stand_in}\n")
        os.chmod(path, 0o755)
    ws.environment = {**ws.environment, "PATH": bin_directory}


def test_without_strace_tasks_run_and_one_line_says_what_is_missing(ws: Workspace) -> None:
    without_strace(ws)
    ws.task("one", "cat src/a secret.txt; true", box=_BOX)
    ws.task("two", "cat src/a secret.txt; true", box=_BOX, after=["one"])
    done = ws.vx("run", "two")
    assert done.code == 0, done.text
    assert "hidden" not in done.text
    assert done.text.count("strace is not installed") == 1
    assert "apt-get install strace" in done.text


@pytest.mark.parametrize("failure", ["exit 1", "exit 124", "exec cat src/a"])
def test_a_tracer_that_fails_costs_a_second_run_and_a_line(ws: Workspace, failure: str) -> None:
    told = "case $1 in -V) echo 'strace -- version 6.1'; exit;; esac"
    without_strace(ws, f"{told}; {failure}")
    ws.task("t", 'echo ran >> "$LOGS/t"; cat src/a', box=_BOX)
    done = ws.vx("run", "t")
    assert done.code == 0, done.text
    assert "w#t could not be traced and runs once more" in done.text
    assert ws.lines("t") == ["ran"]


def test_a_tracer_that_is_killed_costs_a_second_run_and_a_line(ws: Workspace) -> None:
    kill = (
        "for p in /proc/[0-9]*; do case $(readlink $p/exe) in"
        " *strace) kill -9 ${p#/proc/};; esac; done; cat src/a"
    )
    ws.task("t", kill, box=_BOX)
    done = ws.vx("run", "t")
    if done.code == 137:  # a newer strace takes the command with it
        assert "exit code 137 (SIGKILL)" in done.text
        return
    assert done.code == 0, done.text
    assert "w#t could not be traced and runs once more" in done.text


@pytest.mark.skipif(not kernel_tells(), reason="the kernel tells nobody of calls here")
def test_where_the_kernel_tells_strace_is_not_needed(ws: Workspace) -> None:
    ws.before = ()
    without_strace(ws)
    ws.task("t", "cat src/a secret.txt; true", box=_BOX)
    done = ws.vx("run", "t")
    assert done.code == 1
    assert "w#t read secret.txt, which nothing grants\n" in done.text
    assert "strace" not in done.text
