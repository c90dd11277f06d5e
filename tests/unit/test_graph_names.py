"""What a string of `depends_on` means, and what is wrong with one that means nothing."""

import pytest

from tests.harness.workspaces import project, workspace
from vxwatch.graph.names import counts
from vxwatch.graph.tasks import check, plan
from vxwatch.model import Task, Workspace


def after(*names: str) -> dict[str, tuple[str, ...]]:
    return {"depends_on": names}


def shop(*names: str) -> Workspace:
    """`web` needs `ui` and `api`, `ui` needs `base` through `tools`, which declares nothing."""
    return workspace(
        project("shop", {"check": {}}, at=""),
        project("web", {"build": {}, "it": after(*names)}, needs=("ui", "api")),
        project(
            "ui", {"build": {}, "test.unit": {}, "test.dom": {}, "tests": {}}, needs=("tools",)
        ),
        project("tools", {"lint": {}}, needs=("base", "api")),
        project("base", {"build": {}, "gen": {}, "test.unit": {}}),
        project("api", {"build": {}, "gen": {}}, needs=("base",)),
    )


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("build", ["web#build"]),
        ("ui#build", ["ui#build"]),
        ("//#check", ["shop#check"]),
        ("^build", ["ui#build", "api#build"]),
        ("^gen", ["base#gen", "api#gen"]),
        ("^lint", ["tools#lint"]),
        ("^nowhere", []),
        ("ui#test.*", ["ui#test.unit", "ui#test.dom"]),
        ("^test.*", ["ui#test.unit", "ui#test.dom", "base#test.unit"]),
    ],
)
def test_a_name_means(text: str, meant: list[str]) -> None:
    assert list(plan(shop(text), ["web#it"]).dependencies["web#it"]) == meant
    assert check(shop(text)) == ()


def test_names_that_mean_the_same_task_count_once() -> None:
    graph = plan(shop("build", "web#build", "^build", "ui#build"), ["web#it"])
    assert graph.dependencies["web#it"] == ("web#build", "ui#build", "api#build")


def test_a_pattern_does_not_mean_the_task_that_holds_it() -> None:
    tasks = {"ci.all": after("ci.*"), "ci.lint": {}, "ci.test": {}}
    graph = plan(workspace(project("a", tasks)), ["a#ci.all"])
    assert graph.dependencies["a#ci.all"] == ("a#ci.lint", "a#ci.test")


def test_projects_that_need_one_another_pass_names_through() -> None:
    space = workspace(
        project("a", {"build": after("^build", "^gen")}, needs=("b",)),
        project("b", {"gen": {}, "use": after("^build")}, needs=("c",)),
        project("c", {"use": after("^build", "^gen")}, needs=("a",)),
    )
    assert check(space) == ()
    graph = plan(space, ["a#build", "b#use", "c#use"])
    assert graph.dependencies["a#build"] == ("b#gen",)
    assert graph.dependencies["b#use"] == ("a#build",)
    assert graph.dependencies["c#use"] == ("a#build", "b#gen")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("biuld", 'no task "biuld" in web', "did you mean build?"),
        ("quite-else", 'no task "quite-else" in web', ""),
        ("ui#biuld", 'no task "biuld" in ui', "did you mean ui#build?"),
        ("tool#lint", 'no project "tool" in the workspace', "did you mean tools#lint?"),
        ("//#chek", 'no task "chek" in shop', "did you mean //#check?"),
        ("test.*", 'no other task "test.*" in web', ""),
        ("it.*", 'no other task "it.*" in web', ""),
        ("^ui#build", '"^ui#build": ^ stands before the plain name of a task', ""),
        ("^^build", '"^^build": ^ stands before the plain name of a task', ""),
        ("b*d", '"b*d": the only pattern is name.*', ""),
        ("^*", '"^*": the only pattern is name.*', ""),
        ("ui#", '"ui#": names no task', ""),
        ("^", '"^": names no task', ""),
    ],
)
def test_a_name_that_means_nothing_is_refused(text: str, message: str, hint: str) -> None:
    (problem,) = check(shop(text))
    assert (problem.message, problem.hint) == (message, hint)
    assert (problem.file, problem.field) == ("web/vx.toml", "tasks.it.depends_on")


def test_a_root_that_is_no_project_is_said() -> None:
    (problem,) = check(workspace(project("a", {"b": after("//#x")})))
    assert problem.message == '"//#x": the workspace has no root project'


def test_all_faults_are_found_at_once() -> None:
    space = workspace(
        project("a", {"x": after("none", "y"), "y": after("x")}),
        project("b", {"x": after("^x", "a#z")}, needs=("a",)),
    )
    assert [problem.message for problem in check(space)] == [
        'no task "none" in a',
        'no task "z" in a',
        "depends on itself: a#x -> a#y -> a#x",
    ]


def test_a_circle_is_shown_as_a_path() -> None:
    space = workspace(
        project("lib", {"a": after("b"), "b": after("c"), "c": after("a"), "d": after("a")})
    )
    (problem,) = check(space)
    assert problem.message == "depends on itself: lib#a -> lib#b -> lib#c -> lib#a"
    assert problem.field == "tasks.a.depends_on"
    assert problem.hint == "take one of these out of depends_on"


def test_a_circle_through_manifests_names_the_other_remedy() -> None:
    space = workspace(
        project("a", {"build": after("^build")}, needs=("b",)),
        project("b", {"build": after("^build")}, needs=("a",)),
    )
    (problem,) = check(space)
    assert problem.message == "depends on itself: a#build -> b#build -> a#build"
    assert "manifest" in problem.hint


def test_a_task_may_not_wait_for_itself() -> None:
    (problem,) = check(workspace(project("a", {"x": after("x")})))
    assert problem.message == "depends on itself: a#x -> a#x"


@pytest.mark.parametrize(
    ("patterns", "other", "said"),
    [
        (None, "lib#build", True),
        (("*", "^*"), "lib#build", True),
        (("*", "^*"), "app#gen", True),
        (("*",), "lib#build", False),
        (("*",), "app#gen", True),
        (("^*",), "app#gen", False),
        (("^build",), "lib#build", True),
        (("^build",), "lib#lint", False),
        (("lib#build",), "lib#build", True),
        (("lib#*",), "lib#lint", True),
        (("lib#*",), "app#gen", False),
        (("gen.*",), "app#gen.css", True),
        ((), "lib#build", False),
    ],
    ids=str,
)
def test_whose_keys_count(patterns: tuple[str, ...] | None, other: str, said: bool) -> None:
    assert counts(Task("app", "build", "x", input_tasks=patterns), other) is said
