"""`vx why` names what moved, and what happened the last time, and never a value."""

import os
import re

import pytest

from tests.harness.schemas import checked
from tests.harness.workspace import Workspace


@pytest.fixture
def two(ws: Workspace) -> Workspace:
    """A library and an application that builds on it."""
    ws.write("lib/a", "a")
    ws.write("app/b", "b")
    ws.write("vx.toml", CONFIG)
    return ws


CONFIG = """
[tasks.lib]
command = "cat lib/* > dist-lib"
cache = { inputs = ["lib/**"], outputs = ["dist-lib"] }
[tasks.all]
depends_on = ["lib"]
[tasks.app]
command = "cat dist-lib app/* > dist-app; test ! -e fail"
depends_on = ["all"]
cache = { inputs = { files = ["app/**"], env = ["MODE"] }, outputs = ["dist-app"] }
[tasks.both]
depends_on = ["lib", "app"]
[tasks.loose]
command = "true"
[tasks.on-loose]
command = "true"
depends_on = ["loose"]
cache = { inputs = [], outputs = [] }
"""


def why(ws: Workspace, *words: str) -> list[str]:
    """The answer, with its times taken out."""
    done = ws.vx("why", *words)
    assert done.code == 0, done.text
    text = re.sub(r", \d+ (s|min) ago", "", done.out)
    return re.sub(r" in [0-9.]+ m?s", "", text).splitlines()


def test_a_variable_a_command_and_a_file_are_named(two: Workspace) -> None:
    assert why(two, "app") == ["w#app would run: it never ran here"]
    two.vx("run", "app")
    two.environment["MODE"] = "b"
    two.vx("run", "app")
    ran = ["run 2: ran, because", "  env       MODE is set now"]
    assert why(two, "app") == ["w#app is fresh", "nothing moved since run 2", *ran]
    del two.environment["MODE"]
    assert why(two, "app") == [
        "w#app would be restored: what it made of this is kept, and is not what lies on disk",
        "since run 2:",
        "  env       MODE is not set any more",
        *ran,
    ]
    two.write("vx.toml", CONFIG.replace("dist-app;", "dist-app ;"))
    two.write("app/new", "")
    assert why(two, "app", "--run", "1")[:4] == [
        "w#app would run",
        "since run 1:",
        "  config    command changed",
        "  file      app/new is new",
    ]


def test_it_is_followed_through_what_it_builds_on(two: Workspace) -> None:
    two.vx("run", "app")
    two.write("lib/a", "other")
    told = [
        "  upstream  w#all changed, because",
        "    file      lib/a changed (w#lib)",
    ]
    assert why(two, "app")[:4] == ["w#app would run", "since run 1:", *told]
    two.vx("run", "app")
    assert why(two, "app")[2:] == ["run 2: ran, because", *told]


def test_a_failure_is_the_reason_and_then_it_is_flaky(two: Workspace) -> None:
    two.write("fail", "")
    two.vx("run", "app")
    assert why(two, "app") == [
        "w#app would run: it failed the last time",
        "nothing moved since run 1",
        "run 1: failed with exit code 1, because it had not run here before",
    ]
    os.unlink(two.file("fail"))
    done = two.vx("run", "app")
    assert "w#app is flaky: it failed and passed with the same inputs" in done.text
    assert why(two, "app")[-2:] == [
        "run 2: ran, because it had failed before",
        "w#app is flaky: it failed and passed with the same inputs",
    ]


@pytest.mark.parametrize("how", ["a file", "a link", "a link above", "a timeout", "a second try"])
def test_what_no_command_did_by_itself_makes_it_not_flaky(ws: Workspace, how: str) -> None:
    config = """
    [tasks.t]
    command = "mkdir -p out/in; test ! -e slow || sleep 30; cp a out/in/b"
    cache = { inputs = ["a"], outputs = ["out/in/**"] }
    """
    late = how in ("a timeout", "a second try")
    ws.write("vx.toml", config + ("timeout = '1s'" if late else ""))
    ws.write("a", "")
    if how == "a file":
        ws.write("out", "")
    elif how == "a link above":
        os.symlink(os.path.dirname(ws.path), ws.file("out"))
    elif how == "a link":
        os.mkdir(ws.file("out"))
        os.symlink(os.path.dirname(ws.path), ws.file("out/in"))
    else:
        ws.write("slow", "")
    if how == "a second try":
        slow = "{ rm slow; sleep 30; }"
        ws.write("vx.toml", ws.read("vx.toml").replace("sleep 30", slow) + "\nretries = 1")
    else:
        assert ws.vx("run", "t").code == (124 if late else 1)
        for path in ("slow", "out/in", "out"):
            if os.path.islink(ws.file(path)) or os.path.isfile(ws.file(path)):
                os.unlink(ws.file(path))
        ws.write("vx.toml", config)
    done = ws.vx("run", "t")
    assert (done.code, "flaky" in done.text) == (0, False), done.text
    assert "flaky" not in ws.vx("why", "t").text


def test_what_runs_each_time_says_so(two: Workspace) -> None:
    two.vx("run", "on-loose")
    always = "it declares neither inputs nor outputs, so every run runs it"
    assert why(two, "loose")[0] == f"w#loose would run: {always}"
    reason = "it builds on w#loose, which declares neither inputs nor outputs"
    assert why(two, "on-loose")[0] == f"w#on-loose would run: {reason}"


def test_files_that_only_a_watch_looked_at_are_not_gone_for_a_run(two: Workspace) -> None:
    vx = two.watch("loose")
    vx.wait_says("^cycle 1: 1 ran")
    assert vx.stop() == 0
    two.vx("run", "loose")
    always = "w#loose would run: it declares neither inputs nor outputs, so every run runs it"
    assert why(two, "loose") == [always, "nothing moved since run 2", "run 2: ran"]


def test_arguments_count(two: Workspace) -> None:
    two.vx("run", "lib", "--", "lib/a")
    assert why(two, "lib", "--", "lib/a")[0] == "w#lib is fresh"
    assert why(two, "lib")[2] == "  arguments what was given after -- is gone"


def test_a_project_that_was_moved_is_another_one_though_it_takes_the_same(ws: Workspace) -> None:
    ws.write("vx.workspace.toml", 'members = ["*/*"]')
    ws.write("shared/a", "a")
    takes = 'inputs = { workspace_files = ["shared/**"] }'
    ws.write(
        "libs/q/vx.toml",
        f"""
        [tasks.check]
        command = "test ! -e ../../apps"
        cache = {{ {takes}, outputs = [] }}
        [tasks.build]
        command = "pwd > out"
        cache = {{ {takes}, outputs = ["out"] }}
        [tasks.on]
        depends_on = ["build"]
        command = "true"
        cache = {{ {takes}, outputs = [] }}
        """,
    )
    assert ws.vx("run", "check", "on", "--all").code == 0
    os.makedirs(ws.file("apps"))
    os.rename(ws.file("libs/q"), ws.file("apps/q"))
    told = "  directory where its project lies changed"
    assert why(ws, "q#check")[:3] == ["q#check would run", "since run 1:", told]
    assert f"  {told} (q#build)" in why(ws, "q#on")
    done = ws.vx("run", "build", "--all")
    assert (done.code, done.text.count("damaged")) == (0, 0)
    assert ws.read("apps/q/out").strip() == ws.file("apps/q")
    assert ws.vx("run", "check", "--all").code == 1
    os.rename(ws.file("apps/q"), ws.file("libs/q"))
    assert "restored" in ws.vx("run", "build", "--all").text


def test_an_interrupted_run_does_not_hide_the_last_real_one(two: Workspace) -> None:
    two.vx("run", "app")
    two.write("vx.toml", CONFIG.replace("test ! -e fail", "echo >> began; exec sleep 60"))
    vx = two.start("run", "app")
    two.wait(lambda: two.holds("began", "\n"), "the task runs")
    assert vx.stop() == 130
    assert why(two, "app")[:2] == ["w#app would run", "since run 1:"]
    assert "run 1: ran, because it had not run here before" in why(two, "app")


def test_the_json_form_says_the_same_and_no_value(two: Workspace) -> None:
    two.write("vx.toml", CONFIG.replace("cat dist-lib", "echo hunter22; cat dist-lib"))
    text = two.read("vx.toml").replace(
        'depends_on = ["all"]', 'depends_on = ["all"]\nenv = { secret = ["PASS"] }'
    )
    two.write("vx.toml", text)
    two.environment["PASS"] = "hunter22"
    two.vx("run", "app")
    two.environment |= {"PASS": "hunter33", "MODE": "visible"}
    done = two.vx("why", "app", "--format", "json")
    value = checked(done.out, "why")
    assert [(m["kind"], m["name"], m["way"]) for m in value["moved"]] == [
        ("env", "MODE", "added"),
        ("env", "PASS", "changed"),
    ]
    assert value["would"] == "run"
    assert value["since"] == 1
    assert not any(word in done.text for word in ("hunter22", "hunter33", "visible"))


def test_of_a_lockfile_the_part_is_named_and_of_a_command_what_it_prints(ws: Workspace) -> None:
    def install(version: str) -> None:
        entry = f'{{"version": "{version}", "resolved": "https://r/{version}", "integrity": "i"}}'
        root = '"": {"name": "w", "dependencies": {"left": "1"}}'
        packages = f'{{{root}, "node_modules/left": {entry}}}'
        ws.write("package-lock.json", f'{{"lockfileVersion": 3, "packages": {packages}}}')

    ws.write("package.json", '{"name": "w", "dependencies": {"left": "1"}}')
    install("1.0.0")
    inputs = 'inputs = { files = ["src/**"], runtime = ["cat version"] }'
    ws.write("vx.toml", f'[tasks.t]\ncommand = "true"\ncache = {{ {inputs}, outputs = [] }}\n')
    ws.write("version", "1")
    ws.vx("run", "t")
    ws.write("version", "2")
    install("1.0.1")
    assert why(ws, "t")[:4] == [
        "w#t would run",
        "since run 1:",
        '  runtime   what "cat version" prints changed',
        "  file      package-lock.json, in the part that concerns w, changed",
    ]


def test_a_group_of_one_task_is_that_task(two: Workspace) -> None:
    assert why(two, "all")[0] == "w#lib would run: it never ran here"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("app", "--run", "7"), "no run 7 is known here"),
        (("ap",), 'there is no task "ap"'),
        (("both",), "both is a group, and stands for 2 tasks"),
    ],
)
def test_what_cannot_be_answered_is_refused(
    two: Workspace, words: tuple[str, ...], message: str
) -> None:
    done = two.vx("why", *words)
    assert done.code == 2
    assert message in done.err


def test_the_last_cycle_of_a_watch_is_explained_while_it_lasts(two: Workspace) -> None:
    vx = two.watch("both", "loose")
    vx.wait_says("^cycle 1: 3 ran")
    first = "cycle 1 of run 1:"
    assert why(two, "lib")[-2:] == [first, "  ran: the first cycle looks at everything"]
    two.write("app/b", "c")
    vx.wait_says("^cycle 2: ")
    second = "cycle 2 of run 1, after app/b:"
    untouched = "  did not look at w#lib, because it does not take that, nor builds on what does"
    assert why(two, "lib")[-2:] == [second, untouched]
    assert why(two, "app")[-4:] == [
        "run 1: ran, because",
        "  file      app/b changed",
        second,
        "  ran, because it takes app/b",
    ]
    two.write("lib/a", "b")
    vx.wait_says("^cycle 3: ")
    third = "cycle 3 of run 1, after lib/a:"
    assert why(two, "lib")[-2:] == [third, "  ran, because it takes lib/a"]
    assert why(two, "app")[-2:] == [third, "  ran, because of what it depends on"]
    done = two.vx("why", "app", "--format", "json")
    cycle = checked(done.out, "why")["cycle"]
    assert (cycle["number"], cycle["paths"], cycle["takes"]) == (3, ["lib/a"], [])
    assert vx.stop() == 0
    two.vx("run", "lib", "--force")
    assert not any(line.startswith("cycle") for line in why(two, "lib"))


def test_a_task_that_a_cycle_skipped_says_for_want_of_what(two: Workspace) -> None:
    two.write("vx.toml", CONFIG.replace("> dist-lib", "> dist-lib; test ! -e lib/bad"))
    vx = two.watch("app")
    vx.wait_says("^cycle 1: 2 ran")
    two.write("lib/bad", "")
    vx.wait_says("^cycle 2: .*1 skipped")
    assert why(two, "app")[-1] == "  skipped, because w#lib did not succeed"
    assert vx.stop() == 0


def test_what_a_watch_found_on_disk_is_known_beside_it(two: Workspace) -> None:
    two.write(
        "vx.toml",
        CONFIG.replace(
            "> dist-lib", "> dist-lib.new; test ! -e lib/bad && mv dist-lib.new dist-lib"
        ),
    )
    vx = two.watch("lib")
    vx.wait_says("^cycle 1: 1 ran")
    two.write("lib/bad", "")
    vx.wait_says("^cycle 2: .*1 failed")
    os.unlink(two.file("lib/bad"))
    vx.wait_says("^cycle 3: ")
    assert why(two, "lib")[0] == "w#lib is fresh"
    assert vx.stop() == 0
