"""Which tasks a path touches, which files are part of a key, and which changes are no edits."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.workspaces import project, workspace
from vxwatch.graph.affected import LOCKFILES, Affected
from vxwatch.graph.changed import changed_tasks
from vxwatch.graph.tasks import plan
from vxwatch.model import Globs, Persistent, Workspace


def cached(*files: str, wide: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    return {"inputs": Globs(files, wide), **fields}


def writes(*files: str, wide: tuple[str, ...] = ()) -> Globs:
    return Globs(files, wide)


def server(*restart_on: str, **fields: Any) -> dict[str, Any]:
    return {"persistent": Persistent(restart_on=restart_on), **fields}


def shop() -> Workspace:
    """A root project, `ui` that is built, `web` with every kind of task, `web/docs` in it."""
    return workspace(
        project("shop", {"lint": cached("**"), "tidy": {}}, at=""),
        project("ui", {"build": cached("src/**", outputs=writes("dist/**"))}, at="packages/ui"),
        project(
            "web",
            {
                "gen": cached("schema/*.json", outputs=writes("src/gen/**")),
                "build": cached(
                    "src/**",
                    ".env",
                    wide=("base/*.json", "packages/*/dist/*.js"),
                    depends_on=("gen", "^build"),
                    outputs=writes("dist/**", wide=("public/web/**",)),
                ),
                "size": cached("dist/**", depends_on=("build",)),
                "audit": cached("**/*.ts", "!**/*.test.ts"),
                "e2e": {"depends_on": ("dev",)},
                "dev": server("vite.config.*", "src/server.ts", ".env.local"),
                "all": {"command": None, "depends_on": ("build", "audit")},
            },
            needs=("ui",),
            at="packages/web",
        ),
        project("docs", {"spell": {}}, at="packages/web/docs"),
    )


def affected(*requested: str) -> Affected:
    space = shop()
    every = [task.id for each in space.projects.values() for task in each.tasks.values()]
    return Affected(space, plan(space, requested or every))


@pytest.mark.parametrize(
    ("path", "inputs", "uncached", "restarts"),
    [
        ("packages/ui/src/a.ts", "ui#build", "", ""),
        ("packages/ui/readme.md", "", "", ""),
        ("packages/ui/package.json", "ui#build", "", ""),
        ("packages/ui/vx.toml", "", "", ""),
        ("packages/web/src/a.ts", "web#build web#audit", "web#e2e", ""),
        ("packages/web/src/a.test.ts", "web#build", "web#e2e", ""),
        ("packages/web/readme.md", "", "web#e2e", ""),
        ("packages/web/vx.toml", "", "", ""),
        ("packages/web/vite.config.mjs", "", "", "web#dev"),
        ("packages/web/vite.config.ts", "web#audit", "web#e2e", "web#dev"),
        ("packages/web/src/server.ts", "web#build web#audit", "web#e2e", "web#dev"),
        ("packages/web/.env", "web#build", "web#e2e", ""),
        ("packages/web/docs/a.ts", "", "docs#spell", ""),
        ("packages/web/docs/package.json", "", "docs#spell", ""),
        ("packages/web/src/gen/a.ts", "web#audit", "", ""),
        ("packages/web/dist/a.ts", "web#audit", "", ""),
        ("packages/web/dist/a.js", "", "", ""),
        ("packages/ui/dist/a.js", "", "", ""),
        ("base/ts.json", "shop#lint web#build", "shop#tidy", ""),
        ("public/web/a.js", "shop#lint", "", ""),
        ("packages/loose.txt", "shop#lint", "shop#tidy", ""),
        ("packages/ui/node_modules/x/src/a.ts", "", "", ""),
        ("packages/web/src/app.tsbuildinfo", "", "", ""),
        ("packages", "shop#lint", "shop#tidy", ""),
    ],
)
def test_a_path_touches(path: str, inputs: str, uncached: str, restarts: str) -> None:
    touched = affected().touched([path])
    assert touched.inputs == set(inputs.split())
    assert touched.uncached == set(uncached.split())
    assert touched.restarts == set(restarts.split())


def test_a_lockfile_touches_every_task_with_declared_inputs() -> None:
    touched = affected().touched(["pnpm-lock.yaml"])
    declared = {"shop#lint", "ui#build", "web#gen", "web#build", "web#size", "web#audit"}
    assert touched.inputs == declared
    assert touched.uncached == {"shop#tidy"}
    assert affected().touched(["packages/ui/pnpm-lock.yaml"]).inputs == set()


def test_a_lockfile_touches_who_is_saved_by_outputs_alone() -> None:
    tasks: dict[str, dict[str, Any]] = {
        "pack": {"outputs": writes("dist/**")},
        "lock": {"outputs": writes(wide=("uv.lock",)), "depends_on": ("pack",)},
        "sync": {"outputs": writes("env/**"), "depends_on": ("lock",)},
        "try": {},
        "serve": server("any", outputs=writes()),
    }
    space = workspace(project("app", tasks))
    found = Affected(space, plan(space, [f"app#{name}" for name in tasks]))
    saved = {"app#pack", "app#lock", "app#sync"}
    assert found.touched(["yarn.lock"], ["yarn.lock"]).uncached == saved
    assert found.touched(["uv.lock"]).uncached == {"app#pack"}
    assert not found.generated("uv.lock")


def test_several_paths_touch_what_each_of_them_touches() -> None:
    touched = affected().touched(["packages/ui/src/a", "packages/web/readme.md"])
    assert touched.inputs == {"ui#build"}
    assert touched.uncached == {"web#e2e"}


def test_only_tasks_of_the_graph_are_touched() -> None:
    touched = affected("web#audit").touched(["packages/web/src/server.ts", "packages/ui/src/a"])
    assert touched.inputs == {"web#audit"}
    assert touched.uncached == touched.restarts == set()


def test_without_the_server_in_the_graph_its_restart_files_are_like_others() -> None:
    space = workspace(project("p", {"test": {}, "dev": server("conf.ini")}))
    alone = Affected(space, plan(space, ["p#test"]))
    assert alone.touched(["p/conf.ini"]).uncached == {"p#test"}
    both = Affected(space, plan(space, ["p#test", "p#dev"]))
    assert both.touched(["p/conf.ini"]).uncached == set()


def test_what_is_saved_is_made_of_the_same_files_whatever_servers_run_beside_it() -> None:
    saved = {"outputs": Globs(("dist/**",))}
    space = workspace(project("p", {"build": saved, "dev": server("src/**")}))
    for asked in (["p#build"], ["p#build", "p#dev"]):
        assert "p#build" in Affected(space, plan(space, asked)).touched(["p/src/a"]).uncached


@pytest.mark.parametrize(
    ("path", "takers"),
    [
        ("packages/web/.env", "web#build"),
        ("packages/web/.env.local", "web#dev"),
        ("packages/web/src/a.ts", ""),
        ("packages/web/src/server.ts", "web#dev"),
        ("packages/web/sub/.env", ""),
        ("packages/web/package.json", "web#gen web#build web#size web#audit"),
    ],
)
def test_a_file_that_git_ignores_is_taken_only_by_name(path: str, takers: str) -> None:
    found = affected()
    assert {task.id for task in found.takers(path, ignored=True)} == set(takers.split())
    assert found.named(path) == bool(takers)
    touched = found.touched([path], ignored={path})
    assert touched.inputs | touched.restarts == set(takers.split())
    assert touched.uncached == set()


@pytest.mark.parametrize(
    ("path", "generated"),
    [
        ("packages/ui/dist/a.js", True),
        ("packages/web/dist/a.js", True),
        ("public/web/a.js", False),  # the root's lint takes it and does not wait for the writer
        ("packages/web/src/gen/a.js", True),
        ("packages/web/src/gen/a.ts", False),  # audit takes it and does not wait for gen
        ("packages/web/src/a.ts", False),
        ("packages/web/docs/dist/a.js", False),
    ],
)
def test_an_output_is_no_edit_unless_a_task_takes_it_that_does_not_wait_for_its_writer(
    path: str, generated: bool
) -> None:
    assert affected().generated(path) is generated


@pytest.mark.parametrize(
    ("directory", "requested", "closed"),
    [
        ("packages/ui/dist", "", True),
        ("packages/ui/dist/deep", "", True),
        ("packages/ui", "", False),
        ("packages/ui/src", "", False),
        ("packages/web/dist", "web#size", True),  # size waits for the writer
        ("packages/web/dist", "", False),  # audit takes every .ts there and waits for nothing
        ("packages/web/dist", "ui#build", True),
        ("public/web", "web#size", True),
        ("public/web", "", False),  # the root's lint takes all
        ("public", "web#size", False),
        ("packages/web/src/gen", "web#build", True),
        ("packages/web/docs/dist", "", False),
    ],
)
def test_a_directory_is_closed_where_tasks_write_all_of_it_and_nobody_else_looks(
    directory: str, requested: str, closed: bool
) -> None:
    assert affected(*requested.split()).closed(directory) is closed


def test_a_directory_in_which_a_server_watches_is_not_closed() -> None:
    tasks = {"build": cached("src", outputs=writes("out/**")), "dev": server("out/*.js")}
    space = workspace(project("p", tasks))
    assert not Affected(space, plan(space, ["p#build", "p#dev"])).closed("p/out")
    tasks["dev"] |= {"depends_on": ("build",)}
    space = workspace(project("p", tasks))
    assert Affected(space, plan(space, ["p#dev"])).closed("p/out")


def test_outputs_by_ending_close_nothing() -> None:
    space = workspace(project("p", {"build": cached("src", outputs=writes("out/*.js", "gen/*"))}))
    found = Affected(space, plan(space, ["p#build"]))
    assert not found.closed("p/out")
    assert not found.closed("p/gen")


def test_an_output_of_a_task_that_is_not_planned_is_an_input_where_it_is_declared() -> None:
    space = workspace(
        project("p", {"build": cached("src", outputs=writes("out")), "pack": cached("out")})
    )
    found = Affected(space, plan(space, ["p#pack"]))
    assert not found.generated("p/out/a")
    assert found.touched(["p/out/a"]).inputs == {"p#pack"}


def test_what_a_far_dependency_writes_comes_in_by_key() -> None:
    tasks = {"one": cached("a", outputs=writes("gen/**"))}
    tasks |= {"two": {"depends_on": ("one",)}, "three": cached("**", depends_on=("two",))}
    space = workspace(project("p", tasks))
    found = Affected(space, plan(space, ["p#three"]))
    assert not found.takes("p#three", "p/gen/x")
    assert found.takes("p#three", "p/src/x")
    assert found.generated("p/gen/x")


def test_a_server_takes_what_its_dependency_writes_but_that_is_no_edit() -> None:
    tasks = {
        "build": cached("src/**", outputs=writes("out/**")),
        "dev": server("out/main.js", depends_on=("build",)),
        "other": server("out/main.js"),
    }
    space = workspace(project("p", tasks))
    after = Affected(space, plan(space, ["p#dev"]))
    assert after.takes("p#dev", "p/out/main.js")
    assert after.generated("p/out/main.js")
    assert not Affected(space, plan(space, ["p#dev", "p#other"])).generated("p/out/main.js")


class Tracks:
    """A git that tracks these files."""

    def __init__(self, *paths: str) -> None:
        self.paths = paths

    def holds(self, place: str) -> bool:
        return any(path == place or path.startswith(f"{place}/") for path in self.paths)

    def renew(self) -> bool:
        return False


@pytest.mark.parametrize("pattern", ["out/by-hand", "out/**"])
def test_what_git_tracks_is_taken_though_a_dependency_declares_it(pattern: str) -> None:
    tasks = {"build": cached("src/**", outputs=writes("out/**"))}
    tasks |= {"pack": cached(pattern, depends_on=("build",)), "check": {}}
    space = workspace(project("p", tasks))
    every = plan(space, ["p#pack", "p#check"])
    found = Affected(space, every, Tracks("p/out/by-hand"))
    touched = found.touched(["p/out/by-hand"])
    assert touched.inputs == {"p#pack"}
    assert touched.uncached == {"p#check"}
    assert not found.generated("p/out/by-hand")
    assert not found.closed("p/out")
    assert found.generated("p/out/made")
    assert not found.takes("p#pack", "p/out/made")
    assert changed_tasks(
        space, every, ["p/out/by-hand"], shared=(), tracked=Tracks("p/out/by-hand")
    ) == {"p#pack", "p#check"}
    assert Affected(space, every).closed("p/out")


def test_what_git_tracks_and_nobody_takes_is_no_edit() -> None:
    tasks = {"build": cached("src/**", outputs=writes("out/**"))}
    space = workspace(project("p", tasks))
    found = Affected(space, plan(space, ["p#build"]), Tracks("p/out/by-hand"))
    assert found.generated("p/out/by-hand")
    assert found.closed("p/out")


def test_a_manifest_that_holds_the_config_still_counts_as_manifest() -> None:
    space = workspace(project("p", {"test": {}}))
    own = space.projects["p"]
    manifests = ("p/package.json", "p/pyproject.toml")
    space = workspace(own._replace(manifests=manifests, config="p/pyproject.toml"))
    found = Affected(space, plan(space, ["p#test"]))
    assert found.touched(["p/pyproject.toml"]).uncached == {"p#test"}


def test_each_manifest_of_a_project_is_an_input() -> None:
    own = project("p", {"test": cached("src/**")})
    space = workspace(own._replace(manifests=("p/package.json", "p/pyproject.toml")))
    found = Affected(space, plan(space, ["p#test"]))
    for manifest in ("p/package.json", "p/pyproject.toml"):
        assert found.touched([manifest], [manifest]).inputs == {"p#test"}
        assert manifest in found.literals()


def test_the_places_to_list_hold_every_file_a_task_may_take() -> None:
    assert affected().directories() == ("",)
    assert affected("web#build").directories() == (
        "base",
        "packages",
    )
    assert affected("ui#build", "docs#spell").directories() == (
        "packages/ui",
        "packages/web/docs",
    )


def test_what_no_task_may_take_is_of_no_concern() -> None:
    found = affected("web#audit", "docs#spell")
    assert found.concerns("packages/web/any")
    assert found.concerns("packages/web/docs/any")
    assert found.concerns("yarn.lock")
    assert not found.concerns("packages/ui/src/a.ts")
    assert not found.concerns("readme.md")
    assert affected("web#build").concerns("base/ts.json")
    assert not affected("web#build").concerns("base/ts.txt")


@pytest.mark.parametrize(
    ("directory", "reached"),
    [
        ("", True),
        ("packages", True),
        ("packages/ui/dist", True),  # web's build takes files of any package
        ("packages/new/dist", True),
        ("packages/web/docs", True),
        ("base", True),
        ("tools", False),
    ],
)
def test_a_directory_is_reached_by_whoever_may_take_a_file_in_it(
    directory: str, reached: bool
) -> None:
    assert affected("web#build").reaches(directory) is reached
    assert affected("ui#build").reaches(directory) is (
        directory in ("", "packages", "packages/ui/dist")
    )


def test_the_roots_of_a_task_are_where_its_files_lie() -> None:
    found = affected()
    own, wide = found.roots("web#build")
    assert set(own) == {"packages/web/src", "packages/web/.env", "packages/web/package.json"}
    assert set(wide) == {"base", "packages"}
    assert found.roots("web#e2e") == (("packages/web",), ())
    assert found.roots("web#all") == ((), ())
    assert set(found.roots("web#dev")[0]) == {
        "packages/web",
        "packages/web/src/server.ts",
        "packages/web/.env.local",
    }


def test_names_that_count_though_ignored_are_known_beforehand() -> None:
    space = workspace(
        project("p", {"a": cached("**/.env", "conf/x.ini", "!conf/.env"), "s": server(".rc")}),
        project("q", {"b": cached("src/**", wide=("shared/key.pem",))}),
    )
    found = Affected(space, plan(space, ["p#a", "p#s", "q#b"]))
    assert found.literals() - LOCKFILES == {
        "p/conf/x.ini",
        "p/.rc",
        "p/package.json",
        "q/package.json",
        "shared/key.pem",
    }
    assert found.scattered() == {"p"}


PARTS = st.sampled_from(["packages", "web", "ui", "docs", "src", "gen", "dist", "base", "public"])
NAMES = st.sampled_from(["a.ts", "a.test.ts", ".env", "vite.config.ts", "ts.json", "package.json"])


@given(st.lists(PARTS, max_size=5), NAMES, st.booleans())
def test_touched_is_the_same_rule_as_takes(parts: list[str], name: str, ignored: bool) -> None:
    found = affected()
    path = "/".join([*parts, name])
    touched = found.touched([path], ignored={path} if ignored else ())
    space = shop()
    every = [task.id for each in space.projects.values() for task in each.tasks.values()]
    took = {task for task in every if found.takes(task, path, ignored=ignored)}
    assert touched.inputs | touched.uncached | touched.restarts == took
    assert not took or found.concerns(path)
