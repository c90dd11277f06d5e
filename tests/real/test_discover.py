"""Workspaces as people have them: npm, pnpm, yarn, bun, uv, a single project, and broken ones."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping

import pytest

from vxwatch.errors import ConfigError, UserError
from vxwatch.model import Rules, Workspace
from vxwatch.workspace.discover import find_root, load_workspace
from vxwatch.workspace.members import Members, find_members

TASK = '[tasks.build]\ncommand = "x"\n'
Make = Callable[[Mapping[str, object]], str]


@pytest.fixture
def make(tmp_path: os.PathLike[str]) -> Make:
    """Makes a directory tree from paths and contents; what is no text is written as JSON."""

    def make(files: Mapping[str, object]) -> str:
        root = os.path.realpath(f"{tmp_path}/place")
        os.makedirs(root, exist_ok=True)
        for path, content in files.items():
            os.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
            if not path.endswith("/"):
                text = content if isinstance(content, str) else json.dumps(content)
                with open(f"{root}/{path}", "w") as file:
                    file.write(text)
        return root

    return make


def projects(workspace: Workspace) -> dict[str, str]:
    return {name: project.dir for name, project in workspace.projects.items()}


def problems(root: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_workspace(root)
    return [f"{p.file}:{p.line}: {p.field}: {p.message} [{p.hint}]" for p in caught.value.problems]


MEMBERS: Mapping[str, object] = {
    "apps/web/package.json": {"name": "web", "dependencies": {"ui": "*"}},
    "apps/web/vx.toml": TASK,
    "apps/web/src/": "",
    "packages/ui/package.json": {"name": "ui"},
    "packages/ui/vx.toml": TASK,
    "packages/bare/package.json": {"name": "bare"},
    "packages/empty/": "",
    "packages/node_modules/x/package.json": {"name": "x"},
    "packages/.hidden/package.json": {"name": "hidden"},
    "examples/old/package.json": {"name": "old"},
}
GLOBS = ["apps/*", "packages/*"]


@pytest.mark.parametrize(
    "files",
    [
        {"package.json": {"name": "top", "workspaces": GLOBS}},
        {"package.json": {"name": "top", "workspaces": {"packages": ["./apps/*", "packages/**"]}}},
        {"package.json": {"name": "top", "workspaces": ["{apps,packages}/*/"]}},
        {"package.json": {"name": "top", "workspaces": ["**", "!examples/*"]}},
        {
            "package.json": {"name": "top"},
            "pnpm-workspace.yaml": "packages:\n  - apps/*\n  - 'packages/*'\n  - '!packages/x'\n  - .\n",
        },
        {"package.json": {"name": "top"}, "vx.workspace.toml": f"members = {json.dumps(GLOBS)}"},
        {
            "package.json": {"name": "top", "workspaces": ["examples/*"]},
            "vx.workspace.toml": "members = ['apps/web', 'packages/*', '!examples/*']",
        },
        {
            "pyproject.toml": '[project]\nname = "top"\n[tool.uv.workspace]\n'
            'members = ["apps/*", "packages/*", "examples/*"]\nexclude = ["examples/old"]\n'
        },
    ],
    ids=["npm", "yarn", "braces", "everything", "pnpm", "vx", "vx wins", "uv"],
)
@pytest.mark.parametrize("start", ["", "apps/web", "apps/web/src", "packages"])
def test_workspaces_of_package_managers(files: dict[str, object], start: str, make: Make) -> None:
    root = make({**MEMBERS, **files})
    assert find_root(f"{root}/{start}") == root
    workspace = load_workspace(root)
    assert workspace.root == root
    assert workspace.root_project == "top"
    assert projects(workspace) == {
        "top": "",
        "web": "apps/web",
        "bare": "packages/bare",
        "ui": "packages/ui",
    }
    assert workspace.projects["web"].dependencies == ("ui",)
    assert workspace.projects["web"].config == "apps/web/vx.toml"
    assert workspace.projects["bare"].manifests == ("packages/bare/package.json",)
    assert workspace.projects["bare"].tasks == {}
    assert workspace.task("ui#build").command == "x"


def test_globs_that_lead_to_the_same_place(make: Make) -> None:
    root = make({**MEMBERS, "package.json": {"workspaces": ["apps/*", "**/web", "apps/*"]}})
    assert list(projects(load_workspace(root))) == ["place", "web"]


def test_a_directory_that_cannot_be_listed_has_no_members(tmp_path: os.PathLike[str]) -> None:
    assert find_members(f"{tmp_path}/gone", ["*"]) == Members((), ("",))


def test_a_polyglot_workspace(make: Make) -> None:
    root = make(
        {
            "package.json": {"workspaces": ["apps/*"]},
            "pyproject.toml": '[tool.uv.workspace]\nmembers = ["py/*"]',
            "vx.toml": TASK,
            "apps/web/package.json": {},
            "py/api/pyproject.toml": '[project]\nname = "My_Api"\ndependencies = ["lib-x"]\n'
            '[tool.vx.tasks.dev]\ncommand = "uvicorn"\n',
            "py/lib/pyproject.toml": '[project]\nname = "Lib.X"\n',
        }
    )
    workspace = load_workspace(find_root(f"{root}/py/lib"))
    assert projects(workspace) == {
        "place": "",
        "web": "apps/web",
        "My_Api": "py/api",
        "Lib.X": "py/lib",
    }
    assert workspace.projects["My_Api"].dependencies == ("Lib.X",)
    assert workspace.projects["My_Api"].config == "py/api/pyproject.toml"
    assert workspace.task("My_Api#dev").command == "uvicorn"


def test_a_package_of_both_kinds_is_one_project(make: Make) -> None:
    root = make({"package.json": {"name": "js"}, "pyproject.toml": "[project]\nname = 'py'"})
    workspace = load_workspace(root)
    assert projects(workspace) == {"js": ""}
    assert workspace.projects["js"].manifests == ("package.json", "pyproject.toml")
    assert workspace.config_files == ("package.json", "pyproject.toml")


def test_a_plain_folder_is_a_project(make: Make) -> None:
    root = make({"vx.toml": TASK, "src/deep/": ""})
    assert find_root(f"{root}/src/deep") == root
    workspace = load_workspace(root)
    assert projects(workspace) == {"place": ""}
    assert workspace.root_project == "place"
    assert workspace.projects["place"].manifests == ()
    assert workspace.config_files == ("vx.toml",)
    assert workspace.member_parents == ()
    assert workspace.concurrency is None


def test_the_root_is_a_real_path(make: Make, tmp_path: os.PathLike[str]) -> None:
    root = make({"vx.toml": TASK, "src/": ""})
    os.symlink(f"{root}/src", f"{tmp_path}/link")
    assert find_root(f"{tmp_path}/link") == root


def test_a_project_outside_of_the_workspace_around_it_stands_alone(make: Make) -> None:
    root = make(
        {
            **MEMBERS,
            "package.json": {"workspaces": GLOBS},
            "examples/old/vx.toml": TASK,
            "examples/old/src/": "",
        }
    )
    assert find_root(f"{root}/examples/old/src") == f"{root}/examples/old"
    assert find_root(f"{root}/examples") == root


def test_a_manifest_inside_a_member_does_not_hide_it(make: Make) -> None:
    root = make({**MEMBERS, "package.json": {"workspaces": GLOBS}, "apps/web/esm/package.json": {}})
    assert find_root(f"{root}/apps/web/esm") == root


def test_the_nearest_settings_decide(make: Make) -> None:
    root = make(
        {
            "vx.workspace.toml": "",
            "inner/vx.workspace.toml": "",
            "inner/vx.toml": TASK,
            "other/vx.toml": TASK,
        }
    )
    assert find_root(f"{root}/inner") == f"{root}/inner"
    assert find_root(f"{root}/other") == root


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[tool.vx]", True),
        ("tool = { vx = {} }", True),
        ("[tool.vx", True),  # broken, but surely meant
        ("# vx", False),
        ("[tool.other]\nname = 'vx'", False),
        ("[broken vx", False),
    ],
)
def test_which_manifests_are_configs(text: str, found: bool, make: Make) -> None:
    root = make({"vx.toml": "", "in/pyproject.toml": text})
    assert find_root(f"{root}/in") == (f"{root}/in" if found else root)


def test_no_workspace(make: Make) -> None:
    root = make({"package.json": {"name": "x"}})
    with pytest.raises(UserError, match=r"no vx.toml, \[tool.vx\] or vx.workspace.toml in ") as e:
        find_root(root)
    assert e.value.slug == "no-workspace"
    assert "create a vx.toml" in e.value.hint


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("package.json", '{\n"workspaces": [', "package.json:2: is not JSON"),
        ("pnpm-workspace.yaml", "packages:\n  - [", "pnpm-workspace.yaml:3: is not YAML"),
        ("pyproject.toml", "[tool.uv.workspace]\nmembers = ", "pyproject.toml:2: is not TOML"),
    ],
)
def test_a_broken_workspace_manifest_does_not_make_members_stand_alone(
    file: str, text: str, said: str, make: Make
) -> None:
    root = make({**MEMBERS, file: text})
    with pytest.raises(ConfigError) as caught:
        find_root(f"{root}/apps/web")
    problem = caught.value.problems[0]
    assert f"{problem.file}:{problem.line}: {problem.message}".startswith(said)


def test_a_broken_manifest_that_has_nothing_to_say_is_passed_over(make: Make) -> None:
    root = make({"package.json": "{", "in/vx.toml": TASK})
    assert find_root(f"{root}/in") == f"{root}/in"


def test_settings_arrive(make: Make) -> None:
    root = make({"vx.workspace.toml": "concurrency = '100%'\ntimeout = '1m'", "vx.toml": TASK})
    workspace = load_workspace(root)
    assert workspace.concurrency == len(os.sched_getaffinity(0))
    assert workspace.timeout == 60.0
    assert load_workspace(make({"vx.workspace.toml": "concurrency = 3"})).concurrency == 3


def test_files_and_places_that_a_watch_has_to_know(make: Make) -> None:
    root = make(
        {
            **MEMBERS,
            "vx.workspace.toml": "members = ['apps/*', 'packages/ui', 'deep/**']",
            "deep/a/b/": "",
            "deep/node_modules/x/": "",
        }
    )
    workspace = load_workspace(root)
    assert workspace.config_files == (
        "vx.workspace.toml",
        "apps/web/package.json",
        "apps/web/vx.toml",
        "packages/ui/package.json",
        "packages/ui/vx.toml",
    )
    assert workspace.member_parents == ("", "apps", "deep", "deep/a", "deep/a/b", "packages")
    assert workspace.root_project is None


def test_outputs_may_overlap_in_an_order_where_the_rules_say_so(make: Make) -> None:
    text = (
        "[tasks.a]\ncommand = 'x'\ncache.outputs = ['dist/**']\n"
        "[tasks.b]\ncommand = 'x'\ncache.outputs = ['dist/sub/**']\ndepends_on = ['a']\n"
    )
    assert len(problems(make({"vx.toml": text}))) == 1
    rules = "rules.exclusive_outputs = false\n"
    assert load_workspace(make({"vx.toml": text, "vx.workspace.toml": rules})).rules == Rules(
        exclusive_outputs=False
    )


def test_links_are_no_members(make: Make, tmp_path: os.PathLike[str]) -> None:
    root = make({"package.json": {"name": "top", "workspaces": ["*", "link"]}, "a/vx.toml": TASK})
    os.symlink(f"{root}/a", f"{root}/link")
    os.symlink(root, f"{root}/a/loop")
    assert projects(load_workspace(root)) == {"top": "", "a": "a"}


def test_all_faults_of_all_files_are_reported_at_once(make: Make) -> None:
    root = make(
        {
            "package.json": {"workspaces": ["packages/*"]},
            "packages/a/vx.toml": "[tasks.build]\ncommand = 1\ndepends_on = ['tset']\n[tasks.test]\n",
            "packages/b/vx.toml": "[tasks.build]\ncommand = 'x'\ndepends_on = [\n  'a#biuld',\n]\n",
            "packages/c/vx.toml": "[tasks.x]\ncommand = 'x'\nzzz = 1\n",
        }
    )
    assert problems(root) == [
        "packages/a/vx.toml:2: tasks.build.command: expected a shell command, found 1 []",
        'packages/a/vx.toml:3: tasks.build.depends_on: no task "tset" in a [did you mean test?]',
        "packages/a/vx.toml:4: tasks.test: a task needs a command, or depends_on to be a group []",
        'packages/b/vx.toml:3: tasks.build.depends_on: no task "biuld" in a [did you mean a#build?]',
        (
            "packages/c/vx.toml:3: tasks.x.zzz: unknown field [expected command, description, "
            "extends, depends_on, timeout, retries, grace, resources, env, cache, interactive, "
            "persistent or sandbox]"
        ),
    ]


def test_a_file_that_cannot_be_parsed_is_not_blamed_on_others(make: Make) -> None:
    root = make(
        {
            "package.json": {"workspaces": ["packages/*"]},
            "packages/a/vx.toml": "[tasks.build\n",
            "packages/b/vx.toml": "[tasks.build]\ncommand = 'x'\ndepends_on = ['a#build']\n",
            "packages/c/package.json": '{\n"name": c\n}',
            "packages/d/package.json": "[]",
            "packages/e/package.json": "[" * 100_000,
        }
    )
    found = problems(root)
    assert [problem.split(" ")[0] for problem in found] == [
        "packages/a/vx.toml:1:",
        "packages/c/package.json:2:",
        "packages/d/package.json:1:",
        "packages/e/package.json:0:",
    ]
    assert "is not TOML: Expected ']' at the end of a table declaration" in found[0]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[tasks]\n\xff = 1", "vx.toml:2: : is not UTF-8"),
        (b"a = 1\na = 2\n", "vx.toml:2: : is not TOML: Cannot overwrite a value"),
        (b"[tasks.a]\ncommand = 'x", "vx.toml:2: : is not TOML"),
        (b"a = 1\n\nb =\n\n\n", "vx.toml:3: : is not TOML: Invalid value"),
        (b"a = " + b"[" * 100_000, "vx.toml:0: : is nested too deeply"),
        (b"a = " + b"9" * 5000, "vx.toml:0: : is not TOML: Exceeds the limit"),
    ],
    ids=["bytes", "twice", "cut", "end", "deep", "long"],
)
def test_files_that_are_no_toml(content: bytes, said: str, make: Make) -> None:
    root = make({})
    with open(f"{root}/vx.toml", "wb") as file:
        file.write(content)
    found = problems(root)
    assert len(found) == 1
    assert found[0].startswith(said)


def test_a_byte_order_mark_is_passed_over(make: Make) -> None:
    root = make({"vx.toml": "\ufeff" + TASK, "package.json": '\ufeff{"name": "x"}'})
    assert projects(load_workspace(root)) == {"x": ""}


def test_a_config_that_cannot_be_read_is_no_empty_config(make: Make) -> None:
    root = make({"vx.toml/": "", "package.json": {}})
    assert problems(root) == ["vx.toml:0: : cannot be read: not a regular file []"]
    os.rmdir(f"{root}/vx.toml")
    os.mkfifo(f"{root}/vx.toml")
    assert problems(root) == ["vx.toml:0: : cannot be read: not a regular file []"]


def test_two_configs_of_one_project(make: Make) -> None:
    root = make({"vx.toml": TASK, "pyproject.toml": "[project]\nname = 'x'\n[tool.vx.tasks]\n"})
    assert problems(root) == [
        "pyproject.toml:3: tool.vx: vx.toml configures this project too [keep one of the two]"
    ]


def test_faults_in_a_manifest_have_their_line_there(make: Make) -> None:
    root = make(
        {
            "pyproject.toml": "[project]\nname = 'x'\n[tool.vx.tasks.a]\ncommand = 'x'\ndepends_on=['b']"
        }
    )
    assert problems(root) == ['pyproject.toml:5: tool.vx.tasks.a.depends_on: no task "b" in x []']


def test_two_projects_of_one_name(make: Make) -> None:
    root = make(
        {
            "package.json": {"workspaces": ["*"]},
            "a/package.json": {"name": "same"},
            "b/vx.toml": TASK,
            "b/package.json": {"name": "same"},
            "c/pyproject.toml": "[project]\nname = 'same'",
        }
    )
    assert problems(root) == [
        (
            'b/package.json:0: : two projects are named "same": a and b '
            "[give one of them another name in its manifest]"
        ),
        (
            'c/pyproject.toml:0: : two projects are named "same": a and c '
            "[give one of them another name in its manifest]"
        ),
    ]


@pytest.mark.parametrize("has_tasks", [True, False])
def test_a_root_without_tasks_gives_way_to_a_member_of_its_name(
    has_tasks: bool, make: Make
) -> None:
    files: dict[str, object] = {
        "package.json": {"name": "ui", "workspaces": ["*"]},
        "ui/package.json": {"name": "ui"},
    }
    if has_tasks:
        assert len(problems(make({**files, "vx.toml": TASK}))) == 1
    else:
        workspace = load_workspace(make(files))
        assert projects(workspace) == {"ui": "ui"}
        assert workspace.root_project is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "members = ['apps/wep']",
            'vx.workspace.toml:1: members[0]: "apps/wep": no such directory',
        ),
        ("members = ['apps/*',\n 'none/']", 'vx.workspace.toml:2: members[1]: "none/": no such'),
        (
            "concurency = 1",
            "vx.workspace.toml:1: concurency: unknown field [did you mean concurrency?]",
        ),
    ],
)
def test_faults_in_the_settings(text: str, said: str, make: Make) -> None:
    root = make({**MEMBERS, "vx.workspace.toml": text})
    found = problems(root)
    assert len(found) == 1
    assert found[0].startswith(said)


def test_a_glob_may_find_nothing_yet(make: Make) -> None:
    members = "members = ['apps/*', '!old', '{some,other}/place']"
    root = make({"vx.workspace.toml": members, "vx.toml": TASK})
    assert load_workspace(root).member_parents == ("",)


def test_members_outside_of_the_workspace(make: Make) -> None:
    root = make({"package.json": {"workspaces": ["../x", "/apps/*"]}, "apps/web/vx.toml": TASK})
    assert problems(root) == [
        (
            'package.json:0: : the workspace member "../x": a pattern stays inside its directory, '
            '".." leaves it []'
        )
    ]


def test_member_globs_that_explode(make: Make) -> None:
    root = make({"pnpm-workspace.yaml": "packages: ['{1..100000}', 7]", "vx.toml": TASK})
    said = 'pnpm-workspace.yaml:0: : the workspace member "{1..100000}": its braces stand for more'
    assert problems(root)[0].startswith(said)
    with pytest.raises(ConfigError):
        find_root(root)


def test_cycles_and_outputs_are_refused_with_their_line(make: Make) -> None:
    config = "[tasks.{}]\ncommand = 'x'\ndepends_on = ['{}']\n"
    root = make({"vx.toml": "".join(config.format(*pair) for pair in ("ab", "bc", "ca"))})
    assert problems(root) == [
        (
            "vx.toml:3: tasks.a.depends_on: depends on itself: place#a -> place#b -> place#c -> place#a "
            "[take one of these out of depends_on]"
        )
    ]
    output = "[tasks.{0}]\ncommand = 'x'\ncache.inputs = ['src/**']\ncache.outputs = ['{1}']\n"
    root = make({"vx.toml": output.format("a", "dist/**") + output.format("b", "dist/sub/**")})
    assert problems(root)[0].startswith('vx.toml:8: tasks.b.cache.outputs: "dist/sub/**" overlaps')


def test_an_output_over_tracked_sources_is_refused(make: Make) -> None:
    text = "[tasks.a]\ncommand = 'x'\n[tasks.a.cache]\ninputs = ['src/**']\noutputs.files = ['src/**']\n"
    root = make({"vx.toml": text, "src/a": ""})
    assert load_workspace(root).task("place#a").outputs
    assert os.system(f"cd {root} && git init -q --template= && git add src") == 0
    assert problems(root) == [
        (
            "vx.toml:5: tasks.a.cache.outputs.files: covers src/a, which git tracks and the task itself "
            "reads [name only what the task makes; one that rewrites sources has outputs = []]"
        )
    ]


def test_only_what_a_workspace_needs_is_imported(make: Make) -> None:
    root = make({**MEMBERS, "package.json": {"workspaces": GLOBS}})
    heavy = {"asyncio", "bracex", "pathspec", "psutil", "rich", "watchfiles", "wcmatch", "yaml"}
    program = (
        "import sys; from vxwatch.workspace.discover import load_workspace; "
        f"load_workspace({root!r}); print(*sorted(sys.modules))"
    )
    environment = {"PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
    )
    assert heavy.isdisjoint(done.stdout.split())
