"""A bump in a lockfile reaches whoever it concerns: nobody is told to be fresh who is not."""

import json
import os
from collections.abc import Mapping
from typing import Any

import pytest

from tests.cli.test_cache import run
from tests.harness.workspace import Workspace

LOCK = "package-lock.json"
PEEK = "mkdir -p dist; cat package-lock.json ../../package-lock.json > dist/out 2> /dev/null; true"


def pins(root: Mapping[str, Any], version: str) -> str:
    """npm's lockfile of a root and the projects a, that depends on x, and b, that does not."""
    return json.dumps(
        {
            "lockfileVersion": 3,
            "packages": {
                "": {"workspaces": ["packages/*"], **root},
                "packages/a": {"name": "a", "dependencies": {"x": "1"}},
                "packages/b": {"name": "b"},
                "node_modules/a": {"link": True, "resolved": "packages/a"},
                "node_modules/b": {"link": True, "resolved": "packages/b"},
                "node_modules/x": {"version": version},
            },
        }
    )


@pytest.fixture
def tree(ws: Workspace) -> Workspace:
    ws.write("package.json", '{"name": "top", "workspaces": ["packages/*"]}')
    ws.write("packages/a/package.json", '{"name": "a", "dependencies": {"x": "1"}}')
    ws.write("packages/b/package.json", '{"name": "b"}')
    ws.write(LOCK, pins({"name": "top"}, "1.0.0"))
    return ws


def peeks(cache: str) -> str:
    return f"[tasks.build]\ncommand = '{PEEK}'\ncache = {{ {cache} }}\n"


def says_after_bump(ws: Workspace) -> str:
    """What a run says to another version of x."""
    assert run(ws, "build", "--all").endswith("ran")
    assert run(ws, "build", "--all").endswith("fresh")
    ws.write(LOCK, pins({"name": "top"}, "1.0.1"))
    return run(ws, "build", "--all")


def test_who_declares_outputs_alone_goes_by_his_part(tree: Workspace) -> None:
    for name in "ab":
        tree.write(f"packages/{name}/vx.toml", peeks('outputs = ["dist/**"]'))
    assert says_after_bump(tree) == "1 ran, 1 fresh"


def test_a_watch_runs_who_declares_outputs_alone(tree: Workspace) -> None:
    log = 'echo run >> "$LOGS/build"'
    tree.write(
        "packages/a/vx.toml",
        f"[tasks.build]\ncommand = '{log}'\ncache = {{ outputs = [] }}\n"
        f'env.set.LOGS = "{tree.logs}"\n',
    )
    tree.watch("build", "--all")
    tree.wait_runs("build", 1)
    tree.write(LOCK, pins({"name": "top"}, "1.0.1"))
    tree.wait_runs("build", 2)


@pytest.mark.parametrize(
    ("cache", "says"),
    [
        ('inputs = ["package-lock.json"], outputs = ["dist/**"]', "1 ran"),
        ('inputs = ["*.json"], outputs = ["dist/**"]', "1 ran"),
        ('inputs = ["**/*"], outputs = ["dist/**"]', "1 ran"),
        ('outputs = ["dist/**"]', "1 ran"),
        ('inputs = { workspace_files = ["package-*.json"] }, outputs = ["dist/**"]', "1 ran"),
        ('inputs = ["src/**"], outputs = ["dist/**"]', "1 fresh"),
        ('inputs = ["*.json", "!package-lock.json"], outputs = ["dist/**"]', "1 fresh"),
    ],
)
def test_the_root_takes_the_whole_lockfile_if_it_asks_for_it(
    tree: Workspace, cache: str, says: str
) -> None:
    tree.write("vx.toml", peeks(cache))
    assert says_after_bump(tree) == says


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ('{ workspace_files = ["package-*.json"] }', "1 ran"),
        ('{ workspace_files = ["package-lock.json"] }', "1 ran"),
        ('["**/*"]', "1 fresh"),
        ('["package-lock.json"]', "1 fresh"),
    ],
)
def test_a_member_takes_the_whole_lockfile_by_workspace_files(
    tree: Workspace, inputs: str, says: str
) -> None:
    tree.write("packages/b/vx.toml", peeks(f'inputs = {inputs}, outputs = ["dist/**"]'))
    assert says_after_bump(tree) == says


NPM = {
    "name": LOCK,
    "text": """{"lockfileVersion": 3, "packages": {
"": {"devDependencies": {"x": "1"}}, "packages/a": {"name": "a"},
"node_modules/a": {"link": true, "resolved": "packages/a"}, "node_modules/x": {"version": "VERSION"}
}}""",
}
PNPM = {
    "name": "pnpm-lock.yaml",
    "text": """lockfileVersion: '9.0'
importers:
  .:
    devDependencies:
      x: {specifier: '1', version: VERSION}
  packages/a: {}
packages:
  x@VERSION:
    resolution: {integrity: VERSION}
snapshots:
  x@VERSION: {}
""",
}
YARN = {"name": "yarn.lock", "text": '# yarn lockfile v1\n\n\nx@1:\n  version "VERSION"\n'}


@pytest.mark.parametrize("lock", [NPM, PNPM, YARN], ids=["npm", "pnpm", "yarn"])
@pytest.mark.parametrize("name", ["top", "a", None])
def test_a_bump_of_what_the_root_needs_reaches_all(
    ws: Workspace, lock: Mapping[str, str], name: str | None
) -> None:
    """Also if the root gives way to a member: by its own name, or by that of its directory."""
    member = "a" if name else os.path.basename(ws.path)
    root = {"workspaces": ["packages/*"], "devDependencies": {"x": "1"}}
    ws.write("package.json", json.dumps({"name": name, **root} if name else root))
    ws.write("pnpm-workspace.yaml", "packages: ['packages/*']\n")
    ws.write("packages/a/package.json", json.dumps({"name": member}))
    ws.write("packages/a/vx.toml", peeks('inputs = ["src/**"], outputs = ["dist/**"]'))
    ws.write(lock["name"], lock["text"].replace("VERSION", "1.0.0"))
    assert run(ws, "build", "--all") == "1 ran"
    assert run(ws, "build", "--all") == "1 fresh"
    ws.write(lock["name"], lock["text"].replace("VERSION", "1.0.1"))
    assert run(ws, "build", "--all") == "1 ran"
