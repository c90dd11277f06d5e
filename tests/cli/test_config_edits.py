"""Config as it is while somebody types it: told once, with a place, and never the end of a watch."""

import os
import re

import pytest

from tests.harness.workspace import Workspace, get

pytestmark = pytest.mark.timeout(120)


class Broken:
    """A watch over a server and a task whose config a test breaks and repairs."""

    def __init__(self, ws: Workspace) -> None:
        self.ws = ws
        self.port = ws.port()
        ws.write("src/a", "0")
        ws.server("web", ws.serve("web", self.port), ready_line="READY", restart_on=["web/**"])
        ws.task("build", 'echo run $$ >> "$LOGS/build"', inputs=["src/**"])
        self.good = ws.read("vx.toml")
        self.vx = ws.watch("web", "build")
        ws.wait_open(self.port)
        ws.wait_runs("build", 1)
        self.pid = get(self.port, "/pid")

    def breaks(self, text: str | None, says: str) -> None:
        """Break it, or remove it; see it told once, in the words that `vx run` has for it."""
        seen = len(self.vx.output)
        if text is None:
            os.unlink(self.ws.file("vx.toml"))
        else:
            self.ws.write("vx.toml", text)
        self.ws.wait(
            lambda: re.search(says, self.vx.output[seen:], re.MULTILINE), f"vx says {says}"
        )
        self.ws.settle()
        told = self.vx.output[seen:]
        assert len(re.findall(says, told, re.MULTILINE)) == 1, told
        refused = self.ws.vx("run", "build")
        assert refused.code == 2
        for line in refused.err.strip().splitlines():
            assert line in told
        assert get(self.port, "/pid") == self.pid

    def edit_and_repair(self, text: str) -> None:
        """An edit made while it is broken is built at the latest after the repair."""
        runs = self.ws.runs("build")
        assert self.vx.says("what changes from now on waits")
        self.ws.write("src/a", text)
        self.ws.settle()
        assert self.ws.runs("build") == runs
        self.ws.write("vx.toml", self.good)
        self.ws.wait_runs("build", runs + 1)
        self.ws.settle()
        assert self.ws.runs("build") == runs + 1


@pytest.mark.slow
def test_a_half_typed_config_does_not_end_the_watch(ws: Workspace) -> None:
    watch = Broken(ws)
    lines = watch.good.count("\n")
    watch.breaks(watch.good[:-3], rf"vx\.toml:{lines}\b")
    watch.edit_and_repair("x")
    assert watch.vx.stop() == 0
    assert ws.steps("web") == ["start", "listen", "sig2", "clean"]
    ws.nothing_left()


@pytest.mark.slow
def test_an_unknown_field_is_named_with_the_nearest_and_the_watch_goes_on(ws: Workspace) -> None:
    watch = Broken(ws)
    watch.breaks(
        watch.good.replace("ready_when", "ready_wen"),
        r"vx\.toml:\d+: .*ready_wen.*\n.*did you mean.*ready_when",
    )
    watch.edit_and_repair("x")
    assert watch.vx.stop() == 0
    assert ws.steps("web") == ["start", "listen", "sig2", "clean"]
    ws.nothing_left()


@pytest.mark.slow
def test_a_requested_task_that_vanishes_is_said_and_the_server_stays(ws: Workspace) -> None:
    watch = Broken(ws)
    watch.breaks(
        watch.good.replace("tasks.build", "tasks.bulid"), r"no task .?build\b.*\n.*mean bulid"
    )
    ws.write("vx.toml", watch.good)
    ws.settle()
    runs = ws.runs("build")
    ws.write("src/a", "y")
    ws.wait_runs("build", runs + 1)
    assert watch.vx.stop() == 0
    assert ws.steps("web") == ["start", "listen", "sig2", "clean"]
    ws.nothing_left()


@pytest.mark.slow
def test_a_config_that_is_removed_and_put_back_does_not_end_the_watch(ws: Workspace) -> None:
    watch = Broken(ws)
    watch.breaks(None, r"^vx: no vx\.toml")
    watch.edit_and_repair("z")
    assert watch.vx.stop() == 0
    assert ws.steps("web") == ["start", "listen", "sig2", "clean"]
    ws.nothing_left()


@pytest.mark.slow
def test_a_new_task_and_a_changed_command_are_taken_up_without_a_restart(ws: Workspace) -> None:
    ws.write("src/a", "0")
    ws.task("build", 'echo run $$ >> "$LOGS/build"', inputs=["src/**"])
    vx = ws.watch("build")
    ws.wait_runs("build", 1)
    ws.task("gen", 'echo run $$ >> "$LOGS/gen"', inputs=["src/**"])
    ws.task("build", 'echo again $$ >> "$LOGS/build"', inputs=["src/**"], after=["gen"])
    ws.wait_steps("build", "again", 1)
    assert ws.runs("gen") == 1
    assert vx.stop() == 0


_BROKEN = {
    "syntax": ("[tasks.build\ncommand = 'true'\n", r"^vx\.toml:1\b.*"),
    "unknown field": (
        "[tasks.build]\ncommand = 'true'\ncomand = 'x'\n",
        r"^vx\.toml:3: tasks\.build\.comand: unknown field\n.*did you mean command\?",
    ),
    "wrong type": ("[tasks.build]\ncommand = 3\n", r"^vx\.toml:2: tasks\.build\.command\b"),
    "no unit": (
        "[tasks.build]\ncommand = 'true'\ntimeout = '30'\n",
        r"^vx\.toml:3: tasks\.build\.timeout\b",
    ),
    "nothing to do": ("[tasks.build]\ndescription = 'x'\n", r"^vx\.toml:1: tasks\.build\b"),
    "unknown dependency": (
        "[tasks.build]\ncommand = 'true'\ndepends_on = ['biuld', 'gne']\n[tasks.gen]\ncommand = 'true'\n",
        r"^vx\.toml:3: tasks\.build\.depends_on\b.*gne.*\n.*did you mean.*gen",
    ),
    "a cycle": (
        "[tasks.build]\ndepends_on = ['a']\n[tasks.a]\ndepends_on = ['build']\n",
        r"build\b.* (->|→) .*a\b.* (->|→) .*build\b|a\b.* (->|→) .*build\b.* (->|→) .*a\b",
    ),
    "a regex": (
        "[tasks.build]\ncommand = 'true'\n[tasks.build.persistent]\nready_when = '('\n",
        r"^vx\.toml:4: tasks\.build\.persistent\.ready_when\b",
    ),
    "a port": (
        "[tasks.build]\ncommand = 'true'\n[tasks.build.persistent]\nready_port = 70000\n",
        r"^vx\.toml:4: tasks\.build\.persistent\.ready_port\b",
    ),
}


@pytest.mark.parametrize("fault", _BROKEN)
def test_a_config_fault_names_file_line_and_field_and_runs_nothing(
    ws: Workspace, fault: str
) -> None:
    text, told = _BROKEN[fault]
    ws.write("vx.toml", text)
    done = ws.vx("run", "build")
    assert done.code == 2
    assert re.search(told, done.err, re.MULTILINE), done.err
    assert done.out == ""
    assert "Traceback" not in done.err


def test_all_faults_of_all_files_are_told_in_one_go(ws: Workspace) -> None:
    ws.write("package.json", '{"name": "root", "workspaces": ["packages/*"]}')
    ws.write("packages/a/package.json", '{"name": "a"}')
    ws.write("packages/a/vx.toml", "[tasks.build]\ncommand = 1\n")
    ws.write("vx.toml", "[tasks.build]\ncomand = 'x'\ncommand = 'true'\ngrace = '1'\n")
    done = ws.vx("run", "build")
    assert done.code == 2
    for place in ("vx.toml:2: ", "vx.toml:4: ", "packages/a/vx.toml:2: "):
        assert re.search(rf"^{re.escape(place)}", done.err, re.MULTILINE), done.err
