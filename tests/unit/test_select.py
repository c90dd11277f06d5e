"""What task names of a command line mean, and what is said when they mean nothing."""

import pytest

from vxwatch.errors import UserError
from vxwatch.model import Project, Task, Workspace
from vxwatch.workspace.select import project_at, select


def workspace(root: bool = True) -> Workspace:
    def project(name: str, directory: str, *tasks: str) -> Project:
        return Project(name, directory, (), None, (), {t: Task(name, t, "x") for t in tasks})

    projects = [
        project("web", "apps/web", "build", "dev", "test"),
        project("admin", "apps/admin", "build"),
        project("@acme/ui", "packages/ui", "build", "test"),
        project("@acme/ui-icons", "packages/ui/icons", "build"),
        project("docs", "[docs]"),
    ]
    if root:
        projects.insert(0, project("acme", "", "setup"))
    return Workspace("/w", {p.name: p for p in projects}, "acme" if root else None, ())


def chosen(*names: str, directory: str = "apps/web", filters: tuple[str, ...] = ()) -> list[str]:
    found = select(workspace(), names, directory=directory, everywhere=False, filters=filters)
    return list(found.tasks)


def refused(*names: str, directory: str = "apps/web", filters: tuple[str, ...] = ()) -> str:
    with pytest.raises(UserError) as caught:
        chosen(*names, directory=directory, filters=filters)
    return f"{caught.value.slug}: {caught.value.message} [{caught.value.hint}]"


@pytest.mark.parametrize(
    ("directory", "task"),
    [
        ("apps/web", "web#build"),
        ("apps/web/src/deep", "web#build"),
        ("packages/ui", "@acme/ui#build"),
        ("packages/ui/src", "@acme/ui#build"),
        ("packages/ui/icons", "@acme/ui-icons#build"),
    ],
)
def test_a_plain_name_is_taken_in_the_innermost_project(directory: str, task: str) -> None:
    assert chosen("build", directory=directory) == [task]


def test_a_directory_outside_of_the_members_is_the_roots() -> None:
    assert chosen("setup", directory="scripts") == ["acme#setup"]
    found = project_at(workspace(), "apps/website")
    assert found is not None
    assert found.name == "acme"


def test_names_keep_their_order_and_stand_once() -> None:
    assert chosen("test", "build", "web#test", "//#setup") == [
        "web#test",
        "web#build",
        "acme#setup",
    ]


def test_full_names() -> None:
    assert chosen("@acme/ui#build", "//#setup") == ["@acme/ui#build", "acme#setup"]


def test_all_takes_every_project_that_has_the_task() -> None:
    found = select(workspace(), ["test"], directory="", everywhere=True, filters=())
    assert found.tasks == ("web#test", "@acme/ui#test")
    assert found.broad
    assert not select(workspace(), ["setup"], directory="", everywhere=False, filters=()).broad


@pytest.mark.parametrize(
    ("filters", "directory", "projects"),
    [
        (["web"], "", ["web"]),
        (["@acme/*"], "", ["@acme/ui", "@acme/ui-icons"]),
        (["*ui*"], "", ["@acme/ui", "@acme/ui-icons"]),
        (["*"], "", ["web", "admin", "@acme/ui", "@acme/ui-icons"]),
        (["admin", "web"], "", ["web", "admin"]),
        (["./apps/web"], "", ["web"]),
        (["./apps"], "", ["web", "admin"]),
        (["./apps/*"], "", ["web", "admin"]),
        (["{apps}"], "", ["web", "admin"]),
        (["{packages/**}"], "", ["@acme/ui", "@acme/ui-icons"]),
        (["./packages/*"], "", ["@acme/ui"]),
        (["."], "packages/ui", ["@acme/ui", "@acme/ui-icons"]),
        (["../admin"], "apps/web", ["admin"]),
        ([".."], "apps/web", ["web", "admin"]),
        (["./../../packages/"], "apps/web", ["@acme/ui", "@acme/ui-icons"]),
        (["."], "", ["web", "admin", "@acme/ui", "@acme/ui-icons"]),
    ],
    ids=str,
)
def test_filters(filters: list[str], directory: str, projects: list[str]) -> None:
    found = select(workspace(), ["build"], directory=directory, everywhere=False, filters=filters)
    assert [task.partition("#")[0] for task in found.tasks] == projects
    assert found.broad


def test_the_directory_of_a_filter_is_taken_literally() -> None:
    with pytest.raises(UserError, match='no task "build" in the selected projects'):
        select(workspace(), ["build"], directory="[docs]", everywhere=False, filters=["."])


def test_a_filter_leaves_full_names_alone() -> None:
    assert chosen("web#dev", "test", filters=("@acme/*",)) == ["web#dev", "@acme/ui#test"]


@pytest.mark.parametrize(
    ("names", "directory", "filters", "said"),
    [
        (
            ["buld"],
            "apps/web",
            [],
            'unknown-task: there is no task "buld" in web [did you mean build?]',
        ),
        (["dev"], "packages/ui", [], "[web has it: name it web#dev, or select"),
        (["test"], "", [], "[web and 1 more have it: name it web#test"),
        (["zzz"], "apps/web", [], "[the tasks are build, dev, test]"),
        (["zzz"], "[docs]", [], "[there are no tasks]"),
        (
            ["wep#build"],
            "",
            [],
            'unknown-project: wep#build: there is no project "wep" [did you mean web#build?]',
        ),
        (
            ["zzz#build"],
            "",
            [],
            "[the projects are @acme/ui, @acme/ui-icons, acme, admin and 2 more]",
        ),
        (["web#buld"], "", [], 'web#buld: web has no task "buld" [did you mean web#build?]'),
        (["web#zzz"], "", [], "[the tasks are build, dev, test]"),
        (["#build"], "", [], 'there is no project ""'),
        (["build"], "", ["zzz"], 'unknown-project: --filter "zzz" selects no project ['),
        (["build"], "", ["wep"], "[did you mean web?]"),
        (["build"], "", [""], 'bad-filter: --filter "" is no filter'),
        (["build"], "", ["../x"], 'unknown-project: --filter "../x" selects no project'),
        (["build"], "", ["web", "!zzz"], 'unknown-project: --filter "!zzz" selects no project'),
        (
            ["dev"],
            "",
            ["@acme/*"],
            'no task "dev" in the selected projects [the tasks are build, test]',
        ),
        (["buld"], "", ["*"], 'no task "buld" in any project [did you mean build?]'),
        (["build", "buld"], "apps/web", [], 'no task "buld"'),
    ],
    ids=str,
)
def test_refused(names: list[str], directory: str, filters: list[str], said: str) -> None:
    assert said in refused(*names, directory=directory, filters=tuple(filters))


def test_without_a_project_here() -> None:
    with pytest.raises(UserError, match="the root of the workspace belongs to no project") as here:
        select(workspace(root=False), ["build"], directory="", everywhere=False, filters=())
    assert here.value.slug == "no-project"
    assert "web and 3 more have it" in here.value.hint
    with pytest.raises(UserError, match="scripts belongs to no project") as there:
        select(workspace(root=False), ["zzz"], directory="scripts", everywhere=False, filters=())
    assert there.value.hint == "go into a project, or select projects with --all or --filter"
    with pytest.raises(UserError, match="the root of the workspace is no project"):
        select(workspace(root=False), ["//#setup"], directory="", everywhere=False, filters=())
