"""Linked packages of the workspace: a cached task reads those whose changes run it again."""

import os
import shutil

import pytest

from tests.harness.workspace import Workspace

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.timeout(120),
    pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace"),
]

CONFIG = """
[tasks.build]
command = "cat node_modules/ui/own.js"
sandbox = {}
"""
CACHED = 'cache = { inputs = ["src/**"] }\n'
EDGE = 'depends_on = ["^build"]\n'


@pytest.fixture(autouse=True)
def _packages(ws: Workspace) -> None:
    ws.write("package.json", '{"name": "all", "workspaces": ["packages/*"]}')
    ws.write("packages/ui/package.json", '{"name": "ui"}')
    ws.write("packages/ui/own.js", "hello from ui\n")
    ws.write("packages/ui/vx.toml", '[tasks.build]\ncommand = "true"\n' + CACHED)
    ws.write("packages/app/package.json", '{"name": "app", "dependencies": {"ui": "*"}}')
    os.makedirs(ws.file("packages/app/node_modules"))
    os.symlink("../../ui", ws.file("packages/app/node_modules/ui"))


@pytest.mark.parametrize("extra", ["", CACHED + EDGE], ids=["uncached", "edge"])
def test_a_task_reads_what_runs_it_again(ws: Workspace, extra: str) -> None:
    ws.write("packages/app/vx.toml", CONFIG + extra)
    done = ws.vx("run", "build", cwd="packages/app")
    assert done.code == 0, done.text
    assert "hello from ui" in done.text


def test_a_package_whose_changes_would_go_unseen_is_withheld_and_the_edge_named(
    ws: Workspace,
) -> None:
    ws.write("packages/app/vx.toml", CONFIG + CACHED)
    done = ws.vx("run", "build", cwd="packages/app")
    assert done.code == 1, done.text
    assert "hello from ui" not in done.text
    assert "of the package ui, whose changes do not run it again" in done.text
    assert 'run it after a task of "ui": depends_on = ["^build"]' in done.text
