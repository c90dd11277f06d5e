"""What the options of `vx run` choose: arguments, order, width, and what a failure stops."""

import json
import os

import pytest

from tests.harness.ports import is_open
from tests.harness.running import VX
from tests.harness.workspace import Box, Workspace


def test_arguments_after_the_dashes_reach_the_requested_task_alone(ws: Workspace) -> None:
    ws.task("dep", 'printf "dep:%s\\n"')
    ws.task("say", 'printf "<%s>\\n"', after=["dep"])
    done = ws.vx("run", "say", "--", "--all", "two words", "$HOME", "it's", "")
    assert done.code == 0, done.text
    assert done.out.splitlines()[:5] == ["<--all>", "<two words>", "<$HOME>", "<it's>", "<>"]


@pytest.mark.parametrize(
    ("mode", "ran"),
    [("never", {"bad"}), ("deps-ok", {"bad", "free"}), ("always", {"bad", "free", "above"})],
)
def test_what_still_runs_after_a_failure_is_chosen(ws: Workspace, mode: str, ran: set[str]) -> None:
    ws.task("bad", 'echo run >> "$LOGS/bad"; exit 3')
    ws.task("above", 'echo run >> "$LOGS/above"', after=["bad"])
    ws.task("free", 'echo run >> "$LOGS/free"')
    words = ["run", "bad", "above", "free", "--concurrency", "1", "--continue", mode]
    done = ws.vx(*words)
    assert done.code == 3
    assert {name for name in ("bad", "above", "free") if ws.runs(name)} == ran
    if mode != "always":
        assert "above skipped, because" in done.text


def test_no_more_tasks_run_at_once_than_asked_for(ws: Workspace) -> None:
    alone = 'mkdir "$LOGS/lock" || exit 9; sleep 0.1; rmdir "$LOGS/lock"'
    for name in ("a", "b", "c"):
        ws.task(name, alone)
    done = ws.vx("run", "a", "b", "c", "--concurrency", "1")
    assert done.code == 0, done.text


def test_eight_tasks_run_at_once_where_nobody_says_otherwise(ws: Workspace) -> None:
    names = "abcdefgh"
    there = '[ "$(ls -d "$LOGS"/at-* | wc -l)" -ge 8 ]'
    for name in names:
        wait = f"i=0; until {there}; do i=$((i + 1)); [ $i -lt 400 ] || exit 9; sleep 0.05; done"
        ws.task(name, f'mkdir "$LOGS/at-{name}"; {wait}')
    done = ws.vx("run", *names)
    assert done.code == 0, done.text


@pytest.fixture
def many(ws: Workspace) -> Workspace:
    """Three packages: app needs lib; tool has no build."""
    ws.write("package.json", json.dumps({"name": "root", "workspaces": ["packages/*"]}))
    for name, needs in (("app", {"lib": "*"}), ("lib", {}), ("tool", {})):
        manifest = {"name": name, "dependencies": needs}
        ws.write(f"packages/{name}/package.json", json.dumps(manifest))
        table = "test" if name == "tool" else "build"
        log = os.path.join(ws.logs, "order")
        ws.write(
            f"packages/{name}/vx.toml",
            f"[tasks.{table}]\ncommand = 'echo {name} >> {log}; echo out-of-{name}'\n"
            "depends_on = ['^build']\n",
        )
    return ws


def _order(ws: Workspace) -> list[str]:
    with open(os.path.join(ws.logs, "order")) as file:
        return file.read().split()


@pytest.mark.parametrize(
    ("words", "cwd", "order"),
    [
        (["build"], "packages/app", ["lib", "app"]),
        (["lib#build"], "packages/app", ["lib"]),
        (["build", "--all"], "", ["lib", "app"]),
        (["build", "--filter", "l*"], "", ["lib"]),
        (["build", "--filter", "./packages/app"], "", ["lib", "app"]),
        (["build", "test", "--all"], "packages/tool", ["lib", "app", "tool"]),
    ],
)
def test_projects_are_chosen_by_place_name_and_filter(
    many: Workspace, words: list[str], cwd: str, order: list[str]
) -> None:
    done = many.vx("run", *words, "--concurrency", "1", cwd=cwd)
    assert done.code == 0, done.text
    ran = _order(many)
    assert sorted(ran) == sorted(order)
    assert ran.index(order[0]) == 0


def test_a_broad_run_has_a_line_for_each_task_and_no_output_of_good_ones(many: Workspace) -> None:
    done = many.vx("run", "build", "--all")
    assert "lib#build ran" in done.out
    assert "app#build ran" in done.out
    assert "out-of-" not in done.out
    assert done.out.rstrip().splitlines()[-1].startswith("2 ran in ")


def test_show_lists_tasks_and_resolves_one(many: Workspace) -> None:
    assert "app#build" in many.vx("show").out
    one = json.loads(many.vx("show", "build", "--format", "json", cwd="packages/app").out)
    assert one["id"] == "app#build"
    assert one["depends_on"] == ["lib#build"]
    everything = json.loads(many.vx("show", "--format", "json").out)
    assert {project["name"] for project in everything["projects"]} >= {"app", "lib", "tool"}


def test_info_tells_versions_and_whether_this_host_can_sandbox(many: Workspace) -> None:
    told = json.loads(many.vx("info", "--format", "json").out)
    assert told["workspace"] == os.path.realpath(many.path)
    assert set(told["programs"]) == {"bwrap", "git", "strace"}
    assert told["sandbox"]
    assert told["vx"]


def test_ci_frames_the_output_of_every_task(many: Workspace) -> None:
    many.environment = {**many.environment, "CI": "1"}
    done = many.vx("run", "build", cwd="packages/app")
    lines = done.out.splitlines()
    at = next(i for i, line in enumerate(lines) if "lib#build ran" in line)
    assert lines[at + 1] == "out-of-lib"
    assert "\x1b" not in done.out


@pytest.mark.parametrize("value", ["x", "-1s", "5"])
def test_a_bad_grace_is_one_line_with_what_is_expected(ws: Workspace, value: str) -> None:
    ws.task("ok", "true")
    ws.environment = {**ws.environment, "VX_KILL_GRACE": value}
    done = ws.vx("run", "ok")
    assert done.code == 2
    assert done.err.startswith("vx: VX_KILL_GRACE: expected")


@pytest.mark.parametrize("boxed", [(True, True), (True, False), (False, False)])
def test_two_servers_of_one_run_that_want_one_host_port_are_refused(
    ws: Workspace, boxed: tuple[bool, bool]
) -> None:
    port = ws.port()
    for name, box in zip(("one", "two"), boxed, strict=True):
        grants = Box(ports=(port,)) if box else None
        ws.server(name, ws.serve(name, port), ready_port=port, box=grants)
    for verb in ("run", "watch"):
        done = ws.vx(verb, "one", "two")
        assert done.code == 2, done.text
        assert f"one takes port {port} too" in done.err
    assert ws.runs("one") == ws.runs("two") == 0


def test_a_group_stands_for_its_tasks_on_the_command_line(ws: Workspace) -> None:
    ws.task("dep", "echo silent")
    ws.task("a", 'echo "a got"', after=["dep"])
    ws.task("b", 'echo "b got"')
    ws.task("inner", after=["b"])
    ws.task("check", after=["a", "inner"])
    done = ws.vx("run", "check", "--", "x y")
    assert done.code == 0
    assert "a got x y\n" in done.out
    assert "b got x y\n" in done.out
    assert "silent" not in done.out
    assert done.out.splitlines()[-1].startswith("3 ran in ")


@pytest.mark.slow
def test_a_group_of_servers_stays_in_the_foreground(ws: Workspace) -> None:
    ports = ws.port(), ws.port()
    for name, port in zip(("api", "web"), ports, strict=True):
        ws.server(name, ws.serve(name, port), ready_line="READY")
    ws.task("dev", after=["api", "web"])
    vx = ws.start("run", "dev")
    for port in ports:
        ws.wait_open(port)
    vx.wait_says("web ready")
    ws.settle()
    assert vx.running
    assert all(map(is_open, ports))
    assert vx.stop() == 130
    ws.nothing_left()


@pytest.mark.parametrize("verb", ["run", "watch"])
def test_a_task_may_not_call_vx_on_its_own_workspace(ws: Workspace, verb: str) -> None:
    ws.task("again", f'echo run >> "$LOGS/again"; {VX} {verb} again')
    done = ws.vx("run", "again")
    assert done.code == 2
    assert "vx: w#again calls vx on the workspace that it is part of\n" in done.err
    assert ws.runs("again") == 1


def test_a_task_may_call_vx_on_another_workspace(ws: Workspace) -> None:
    ws.write("other/vx.toml", "[tasks.build]\ncommand = 'echo built'\n")
    ws.task("outer", f"cd other && {VX} run build")
    done = ws.vx("run", "outer")
    assert (done.code, done.out.splitlines()[0]) == (0, "built"), done.text
    ws.nothing_left()
