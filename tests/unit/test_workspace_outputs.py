"""Outputs that would destroy something: another task's, or sources that git tracks."""

from collections.abc import Sequence

import pytest

from tests.harness.workspaces import Patterns, files_task, nested
from vxwatch.model import Globs, Project, Rules, Task, Workspace
from vxwatch.workspace.outputs import check_outputs


def task(
    name: str,
    outputs: Patterns = None,
    inputs: Patterns = ("src/**",),
    after: Sequence[str] = (),
    project: str = "app",
) -> Task:
    return files_task(name, inputs=inputs, outputs=outputs, after=after, project=project)


def check(
    *tasks: Task, tracked: Sequence[str] = (), rules: Rules | None = None
) -> list[tuple[str, str, str]]:
    return [fault[:3] for fault in check_outputs(nested(tasks, rules), lambda _: tracked)]


def test_overlap_without_order() -> None:
    faults = check(task("a", ["dist/**"]), task("b", ["build/**", "dist/sub/**"]))
    said = '"dist/sub/**" overlaps "dist/**" of app#a, and neither runs after the other'
    assert faults == [("app#b", "files", said)]


@pytest.mark.parametrize(
    "tasks",
    [
        (task("a", ["dist/**"]), task("b", ["dist/sub/**"], after=["a"])),
        (task("a", ["dist/**"], after=["m"]), task("m", after=["b"]), task("b", ["dist/sub/**"])),
    ],
    ids=["after", "far after"],
)
def test_overlap_in_order(tasks: tuple[Task, ...]) -> None:
    said = '"dist/sub/**" overlaps "dist/**" of app#a: each begins by removing what the other made'
    assert check(*tasks) == [("app#b", "files", said)]
    assert check(*tasks, rules=Rules(exclusive_outputs=False)) == []


def test_overlap_without_order_is_always_refused() -> None:
    tasks = task("a", ["dist/**"]), task("b", ["dist/sub/**"])
    assert check(*tasks, rules=Rules(exclusive_outputs=False)) == check(*tasks) != []


@pytest.mark.parametrize(
    "tasks",
    [
        (task("a", ["dist/**"]), task("b", ["build/**"])),
        (task("a", ["dist/**"]), task("b", ["dist/**"], project="lib")),
        (task("a", ["dist/**", "!dist/sub/**"]), task("b", ["dist/sub/**"])),
        (task("a", []), task("b", ["dist/**"])),
        (task("a", Globs(("dist/**",), ("apps/app/dist/**",))),),
        (task("a", Globs((), ("apps/app/dist/**",))), task("b", ["build/**"])),
    ],
    ids=[
        "apart",
        "another project",
        "taken back",
        "none",
        "itself",
        "wide apart",
    ],
)
def test_no_overlap(tasks: tuple[Task, ...]) -> None:
    assert check(*tasks) == []


@pytest.mark.parametrize("wide_in", ["root", "lib"])
def test_overlap_across_projects(wide_in: str) -> None:
    wide = task("a", Globs((), ("apps/app/dist/**",)), project=wide_in)
    faults = check(wide, task("b", ["dist/x"]))
    assert len(faults) == 1
    assert '"dist/x"' in faults[0][2]
    assert '"apps/app/dist/**"' in faults[0][2]


def test_two_wide_outputs_overlap_once() -> None:
    one = task("a", Globs((), ("reports/**",)))
    other = task("b", Globs((), ("reports/x",)), project="lib")
    assert [fault[:2] for fault in check(one, other)] == [("lib#b", "workspace_files")]


def test_output_over_tracked_sources() -> None:
    faults = check(task("gen", ["src/gen/**"]), tracked=["apps/app/src/gen/a.ts"])
    said = "covers apps/app/src/gen/a.ts, which git tracks and the task itself reads"
    assert faults == [("app#gen", "files", said)]


@pytest.mark.parametrize(
    ("one", "tracked"),
    [
        (task("a", ["src/**"], inputs=["schema/**"]), "apps/app/src/a.ts"),
        (task("a", ["src/**", "!src/a.ts"]), "apps/app/src/a.ts"),
        (task("a", ["src/gen/**"], inputs=["src/**", "!src/gen/**"]), "apps/app/src/gen/a"),
        (task("a", ["lib/**"], inputs=None), "apps/app/lib/a.ts"),
        (task("a", ["dist/**"], inputs=None), "apps/app/distant/a"),
        (task("a", ["dist/**"], inputs=None), "apps/app2/dist/a"),
        (task("a", [], inputs=None), "apps/app/src/a.ts"),
        (task("a", None, inputs=None), "apps/app/src/a.ts"),
    ],
    ids=["unread", "taken back", "not input", "nested project", "near", "near project", "[]", "-"],
)
def test_output_beside_sources(one: Task, tracked: str) -> None:
    assert check(one, tracked=[tracked]) == []


@pytest.mark.parametrize(
    "one",
    [
        task("a", ["src/**"], inputs=None),
        task("a", ["**/*.ts"], inputs=["src/**"]),
        task("a", Globs((), ("apps/app/src/**",))),
        task("a", ["src/**"], inputs=Globs((), ("apps/**",))),
    ],
    ids=["all is input", "glob", "wide output", "wide input"],
)
def test_output_over_sources(one: Task) -> None:
    assert len(check(one, tracked=["apps/app/src/a.ts", "apps/app/src/b.ts"])) == 1


def test_git_is_asked_only_when_a_task_may_read_what_it_writes() -> None:
    asked: list[Sequence[str]] = []

    def tracked(roots: Sequence[str]) -> Sequence[str]:
        asked.append(roots)
        return ()

    def run(one: Task) -> None:
        project = Project("app", "apps/app", (), None, (), {one.name: one})
        list(check_outputs(Workspace("/w", {"app": project}, None, ()), tracked))

    run(task("a", ["dist/**"]))
    assert asked == []
    run(task("a", ["dist/*.js", "x"], inputs=None))
    assert asked == [["apps/app/dist", "apps/app/x"]]
