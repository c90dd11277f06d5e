"""Which tasks run when a change, a filter or the lack of dependencies decides."""

import json

import pytest

from tests.harness.workspace import Workspace


@pytest.fixture
def many(ws: Workspace) -> Workspace:
    """app needs lib; tool needs nobody. Each logs its builds; all is committed."""
    ws.write("package.json", json.dumps({"name": "root", "workspaces": ["packages/*"]}))
    for name, needs in (("app", {"lib": "*"}), ("lib", {}), ("tool", {})):
        manifest = {"name": name, "dependencies": needs}
        ws.write(f"packages/{name}/package.json", json.dumps(manifest))
        ws.write(f"packages/{name}/src/a.txt", "a")
        ws.write(
            f"packages/{name}/vx.toml",
            f"tags = ['{name[0]}']\n"
            f"[tasks.build]\ncommand = 'echo run >> {ws.logs}/{name}'\ndepends_on = ['^build']\n"
            "cache = { inputs = ['src/**'] }\n",
        )
    ws.git("add", "-A")
    ws.git("commit", "-qm", "one")
    return ws


def ran(ws: Workspace, *words: str) -> list[str]:
    """The projects whose builds ran in a run of these words."""
    before = {name: ws.runs(name) for name in ("app", "lib", "tool")}
    done = ws.vx("run", "build", *words)
    assert done.code == 0, done.text
    return [name for name, count in before.items() if ws.runs(name) > count]


def test_only_what_a_change_reaches(many: Workspace) -> None:
    assert ran(many, "--affected") == []
    many.write("packages/lib/notes.md", "not an input")
    assert ran(many, "--affected") == []
    many.write("packages/lib/src/new.txt", "not committed")
    assert ran(many, "--affected") == ["app", "lib"]
    many.git("checkout", "-qb", "work")
    many.git("add", "-A")
    many.git("commit", "-qm", "two")
    assert ran(many, "--affected=main", "--filter", "app") == ["app", "lib"]
    assert ran(many, "--affected=main", "--filter", "tool") == []


def test_a_changed_config_reaches_its_tasks(many: Workspace) -> None:
    config = many.read("packages/tool/vx.toml")
    many.write("packages/tool/vx.toml", config + "# a remark\n")
    assert ran(many, "--affected") == ["tool"]
    many.write("vx.workspace.toml", "")
    assert ran(many, "--affected") == ["app", "lib", "tool"]


def test_a_commit_to_compare_with_can_be_set_for_all(many: Workspace) -> None:
    many.write("vx.workspace.toml", 'affected_base = "HEAD~1"\n')
    many.git("add", "-A")
    many.git("commit", "-qm", "settings")
    many.write("packages/tool/src/a.txt", "b")
    many.git("commit", "-qam", "tool")
    assert ran(many, "--affected") == ["tool"]
    assert ran(many, "--affected=main") == []


def test_filters_by_change_tag_and_graph(many: Workspace) -> None:
    many.write("packages/lib/src/a.txt", "b")
    assert ran(many, "--filter", "[main]") == ["lib"]
    assert ran(many, "--filter", "...[main]") == ["app", "lib"]
    assert ran(many, "--filter", "tag:t") == ["tool"]
    assert ran(many, "--all", "--filter", "!...lib") == ["tool"]


def test_dependencies_are_left_out(many: Workspace) -> None:
    assert ran(many, "--filter", "app", "--exclude-dependencies") == ["app"]
    assert ran(many, "--all", "--exclude-dependencies") == ["app", "lib", "tool"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--affected=nope"], 'git knows no commit "nope"'),
        (["--filter", "[nope]"], 'git knows no commit "nope"'),
        (["--filter", "{x"], '--filter "{x" is no filter'),
        (["--filter", "tag:x"], "the tags are a, l, t"),
    ],
)
def test_what_cannot_be_selected_is_said(many: Workspace, words: list[str], said: str) -> None:
    done = many.vx("run", "build", *words)
    assert done.code == 2
    assert said in done.err
