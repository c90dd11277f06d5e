"""What a user reads when a config is wrong: the whole text, as a golden file."""

import json
import os
import subprocess
from collections.abc import Mapping

from vxwatch.errors import UserError
from vxwatch.graph.tasks import plan
from vxwatch.output.diagnostics import lines
from vxwatch.workspace.discover import find_root, load_workspace
from vxwatch.workspace.ports import refuse_shared_ports
from vxwatch.workspace.select import select

GOLDEN = os.path.join(os.path.dirname(__file__), "../golden/config_diagnostics.txt")


def task(name: str, **fields: object) -> str:
    """A table of vx.toml; the command can be left out with None."""
    known = {"command": "make", **fields}
    body = "".join(f"{k} = {_toml(v)}\n" for k, v in known.items() if v is not None)
    return f"[tasks.{name}]\n{body}"


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)


def web(port: int) -> dict[str, object]:
    return {"persistent": {}, "sandbox": {"allow": {"local_binding": [port]}}}


CASES: Mapping[str, Mapping[str, str]] = {
    "an unknown key": {"vx.toml": task("all", cache={"outputz": ["dist/**"]})},
    "an unknown field of a server": {"vx.toml": task("all", persistent={"ready_wen": "x"})},
    "a dependency one letter off": {"vx.toml": task("build") + task("all", depends_on=["bulid"])},
    "a project that is not there": {"vx.toml": task("all", depends_on=["ui#build"])},
    "a cycle": {
        "vx.toml": task("all", depends_on=["a"])
        + task("a", depends_on=["b"])
        + task("b", depends_on=["c"])
        + task("c", depends_on=["a"])
    },
    "outputs that overlap": {
        "vx.toml": task("all", cache={"inputs": ["src/**"], "outputs": ["dist/**"]})
        + task("more", cache={"inputs": ["src/**"], "outputs": ["dist/sub/**"]})
    },
    "an output over tracked sources": {
        "vx.toml": task("all", cache={"inputs": ["src/**"], "outputs": ["src/**"]}),
        "src/a.ts": "",
    },
    "a port twice in one run": {
        "vx.toml": task("web", **web(5173)) + task("all", depends_on=["web"], **web(5173))
    },
    "a negative grace": {"vx.toml": task("all", grace=-1)},
    "a path that leaves the project": {"vx.toml": task("all", cache={"outputs": ["../x"]})},
    "a server with outputs": {
        "vx.toml": task("all", persistent={}, cache={"outputs": ["dist/**"]})
    },
    "a task that does nothing": {"vx.toml": task("all", command=None)},
    "a group with a sandbox": {
        "vx.toml": task("all", command=None, depends_on=["x"], sandbox={}) + task("x")
    },
    "no TOML": {"vx.toml": "[tasks.all]\ncommand = 'make\n"},
    "two configs": {"vx.toml": task("all"), "pyproject.toml": "[tool.vx]\n"},
    "two projects of one name": {
        "vx.toml": task("all"),
        "package.json": '{"name": "top", "workspaces": ["*"]}',
        "a/package.json": '{"name": "ui"}',
        "b/package.json": '{"name": "ui"}',
    },
    "faults in several files": {
        "vx.workspace.toml": 'member = ["a"]\nconcurrency = "many"\n',
        "vx.toml": task("all", timeout=30, env={"set": {"PORT": 80}}),
        "package.json": '{\n  "name": top\n}\n',
    },
    "a preset that is not there": {
        "vx.workspace.toml": "[presets.node]\ncommand = 'node'\n",
        "vx.toml": "[tasks.all]\nextends = 'nod'\n",
    },
    "a preset that does not fit": {
        "vx.workspace.toml": "[presets.node]\ncommand = 'node'\ncache.inputs = ['src/**']\n",
        "vx.toml": "[tasks.all]\nextends = 'node'\npersistent = {}\n",
    },
    "a preset whose dependency is not there": {
        "vx.workspace.toml": "[presets.node]\ncommand = 'node'\ndepends_on = ['bulid']\n",
        "vx.toml": "[tasks.all]\nextends = 'node'\n" + task("build"),
    },
    "a preset whose outputs overlap": {
        "vx.workspace.toml": "[presets.node]\ncommand = 'node'\ncache.outputs = ['dist/**']\n",
        "vx.toml": "[tasks.all]\nextends = 'node'\n[tasks.more]\nextends = 'node'\n",
    },
    "presets in a circle": {
        "vx.workspace.toml": "[presets.a]\nextends = 'b'\n[presets.b]\nextends = 'a'\n",
        "vx.toml": "[tasks.all]\nextends = 'a'\n",
    },
    "outputs that overlap in an order": {
        "vx.toml": task("all", cache={"outputs": ["dist/**"]}, depends_on=["more"])
        + task("more", cache={"outputs": ["dist/sub/**"]})
    },
    "an input that another task makes": {
        "vx.workspace.toml": "rules = { upfront_keys = true }\n",
        "vx.toml": task("all", cache={"inputs": ["src/**"]})
        + task("gen", cache={"inputs": ["schema/**"], "outputs": ["src/gen/**"]}),
    },
    "a name of a task that does not count": {
        "vx.toml": task("all", depends_on=["build"], cache={"inputs": {"tasks": ["biuld"]}})
        + task("build")
    },
    "a port twice in a run of programs and presets": {
        "vx.workspace.toml": "[presets.web]\ncommand = 'x'\npersistent = {}\n"
        "sandbox.allow.local_binding = [80]\n",
        "vx.config.py": "web = {'extends': 'web'}\nconfig = {\n"
        "  'tasks': {'web': web, 'all': {'extends': 'web', 'depends_on': ['web']}},\n}\n",
    },
    "a port twice in a run of a program": {
        "vx.config.py": "def web(port, *after):\n"
        "    return {'command': 'x', 'persistent': {'ready_port': port}, 'depends_on': after}\n"
        "config = {\n  'tasks': {\n    'web': web(80),\n    'all': web(80, 'web'),\n  },\n}\n",
    },
    "an error in a program": {"vx.config.py": "import nowhere\nconfig = {}\n"},
    "a fault in a program": {
        "vx.config.py": "config = {\n  'tasks': {\n    'all': {'comand': 'x'},\n  },\n}\n"
    },
    "a program beside data": {"vx.toml": task("all"), "vx.config.py": "config = {}\n"},
    "no such task": {"vx.toml": task("al")},
    "no config": {"package.json": "{}"},
}


def said(directory: str, files: Mapping[str, str]) -> list[str]:
    """What is said when `all` is asked for in a repository of these files."""
    for path, text in files.items():
        os.makedirs(os.path.dirname(f"{directory}/{path}"), exist_ok=True)
        with open(f"{directory}/{path}", "w") as file:
            file.write(text)
    for words in (["init", "-q", "--template="], ["add", "."]):
        subprocess.run(["git", *words], cwd=directory, check=True)
    try:
        workspace = load_workspace(find_root(directory))
        chosen = select(workspace, ["all"], directory="", everywhere=False, filters=())
        refuse_shared_ports(workspace, plan(workspace, chosen.tasks).order)
    except UserError as error:
        return [line.replace(directory, "/path") for line in lines(error)]
    return ["nothing"]


def test_the_text_of_config_errors(tmp_path: os.PathLike[str]) -> None:
    text = ""
    for number, (name, files) in enumerate(CASES.items()):
        directory = os.path.realpath(f"{tmp_path}/{number}/app")
        os.makedirs(directory)
        text += f"-- {name}\n" + "".join(f"{line}\n" for line in said(directory, files)) + "\n"
    with open(GOLDEN) as file:
        golden = file.read()
    if text != golden:
        with open(f"{GOLDEN}.actual", "w") as file:
            file.write(text)
    assert text == golden, f"see {GOLDEN}.actual"


def test_every_fault_is_told_in_two_lines(tmp_path: os.PathLike[str]) -> None:
    with open(GOLDEN) as file:
        blocks = file.read().split("\n\n")
    for block in blocks:
        message = [line for line in block.splitlines() if line.startswith("  ")]
        problems = [line for line in block.splitlines() if not line.startswith(("  ", "--"))]
        assert len(message) <= len(problems), block
