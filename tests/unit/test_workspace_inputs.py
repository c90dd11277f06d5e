"""Inputs that another task makes, on which theirs does not depend."""

from collections.abc import Collection

import pytest

from tests.harness.workspaces import files_task as task
from tests.harness.workspaces import nested
from vxwatch.model import Globs, Task
from vxwatch.workspace.inputs import check_inputs


def check(*tasks: Task, ignored: Collection[str] = ()) -> list[tuple[str, str, str]]:
    return list(check_inputs(nested(tasks), lambda paths: {*paths}.intersection(ignored)))


GEN = task("gen", ["schema/**"], ["src/gen/**"])


def test_one_that_takes_in_what_it_does_not_depend_on() -> None:
    assert check(GEN, task("lint", ["src/**"])) == [
        (
            "app#lint",
            '"apps/app/src/**" takes in "apps/app/src/gen/**" of app#gen, on which it does not depend',
            'add "gen" to depends_on, or "!src/gen/**" to the inputs',
        )
    ]


@pytest.mark.parametrize(
    "tasks",
    [
        (GEN, task("lint", ["src/**"], after=["gen"])),
        (GEN, task("lint", ["src/**"], after=["mid"]), task("mid", after=["gen"])),
        (GEN, task("lint", ["src/**", "!src/gen/**"])),
        (GEN, task("lint", ["lib/**"])),
        (GEN, task("lint")),
        (task("fmt", ["src/**"], []),),
        (task("own", ["src/**"], ["src/own/**"]),),
        (GEN, task("lint", ["src/**"], project="lib")),
    ],
    ids=["after", "far after", "taken back", "apart", "all", "none", "its own", "nested project"],
)
def test_others(tasks: tuple[Task, ...]) -> None:
    assert check(*tasks) == []


def test_one_that_runs_before_it_does_not_depend_on_it() -> None:
    tasks = task("gen", ["schema/**"], ["src/gen/**"], after=["lint"]), task("lint", ["src/**"])
    assert [fault[0] for fault in check(*tasks)] == ["app#lint"]


def test_across_projects() -> None:
    wide = task("lint", Globs((), ("apps/**",)), project="root")
    (fault,) = check(GEN, wide)
    assert fault[2] == 'add "app#gen" to depends_on, or "!apps/app/src/gen/**" to the inputs'


@pytest.mark.parametrize("ignored", ["apps/app/dist", "apps/app/dist/x"])
def test_what_git_ignores_is_no_input_unless_it_is_spelled_out(ignored: str) -> None:
    build = task("build", ["src/**"], ["dist/**"])
    assert check(build, task("all", ["**"]), ignored=[ignored]) == []
    assert check(build, task("all", ["**"])) != []
    assert check(build, task("all", ["dist/manifest.json"]), ignored=[ignored]) != []
