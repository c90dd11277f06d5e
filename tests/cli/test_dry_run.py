"""`vx run --dry` says what a run would do, and why, and does nothing of it."""

import os
import shutil

import pytest

from tests.harness.schemas import checked
from tests.harness.workspace import Workspace


@pytest.fixture
def two(ws: Workspace) -> Workspace:
    ws.write("lib/a", "a")
    ws.write("app/b", "b")
    ws.task("lib", "echo >> $LOGS/lib; cat lib/* > dist-lib", inputs=["lib/**"], outputs=["dist-*"])
    ws.task("all", after=["lib"])
    ws.task("app", "echo >> $LOGS/app", inputs=["app/**"], outputs=["out/**"], after=["all"])
    ws.task("loose", "echo >> $LOGS/loose")
    ws.server("web", "exec sleep 60", after=["app"])
    return ws


def dry(ws: Workspace, *words: str) -> list[str]:
    done = ws.vx("run", "--dry", *words)
    assert done.code == 0, done.text
    return [" ".join(line.split()) for line in done.out.splitlines()]


def test_it_says_what_a_run_then_does(two: Workspace) -> None:
    never = "run it never ran here"
    loose = "w#loose run it declares neither inputs nor outputs, so every run runs it"
    assert dry(two, "web", "loose") == [
        f"w#lib {never}",
        f"w#app {never}",
        "w#web start",
        loose,
    ]
    assert two.runs("lib") == 0
    two.vx("run", "app")
    assert dry(two, "app") == ["w#lib fresh", "w#app fresh"]
    two.write("app/new", "")
    os.unlink(two.file("dist-lib"))
    kept = "what it made of this is kept, and is not what lies on disk"
    for _ in range(2):
        assert dry(two, "app") == [f"w#lib restore {kept}", "w#app run app/new is new"]
    assert not os.path.exists(two.file("dist-lib"))
    assert "1 ran, 1 restored" in two.vx("run", "app").out
    assert (two.runs("lib"), two.runs("app")) == (1, 2)


def test_options_of_the_run_count(two: Workspace) -> None:
    two.vx("run", "app")
    forced = "run it was asked for with --force"
    assert dry(two, "app", "--force") == [f"w#lib {forced}", f"w#app {forced}"]
    off = "run the cache is not used"
    assert dry(two, "app", "--no-cache", "--exclude-dependencies") == [f"w#app {off}"]
    assert dry(two, "app", "--", "-x")[1] == "w#app run what was given after -- is new"
    shutil.rmtree(two.file(".vx"))
    assert dry(two, "app")[0] == "w#lib run it never ran here"


def test_the_json_form_is_that_of_its_schema(two: Workspace) -> None:
    two.vx("run", "app")
    two.write("lib/a", "b")
    value = checked(two.vx("run", "--dry=json", "app").out, "dry")
    assert [(one["task"], one["would"]) for one in value["tasks"]] == [
        ("w#lib", "run"),
        ("w#app", "run"),
    ]
    assert value["tasks"][0]["moved"][0]["name"] == "lib/a"


def test_the_graph_is_dot(two: Workspace) -> None:
    done = two.vx("run", "--graph", "app")
    assert done.out.splitlines() == [
        "digraph vx {",
        '  "w#lib";',
        '  "w#all";',
        '  "w#app" [style=bold];',
        '  "w#all" -> "w#lib";',
        '  "w#app" -> "w#all";',
        "}",
    ]
    assert two.runs("app") == 0


def test_a_word_after_an_option_without_its_value_is_a_task(two: Workspace) -> None:
    two.git("add", ".")
    two.git("commit", "-qm", "one")
    done = two.vx("run", "--affected", "app")
    assert done.code == 0, done.text
    assert two.vx("run", "--dry=yes", "app").code == 2
