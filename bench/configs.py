"""What nx, moon and wireit need in a workspace of `workspace.py`: the same tasks in their own words."""

import json
from collections.abc import Mapping, Sequence

import workspace

OTHERS = {"test": "true", "lint": "true"}
Depends = Mapping[str, Sequence[str]]


def nx(root: str, depends: Depends, build: str = workspace.BUILD) -> None:
    """Targets of every package, with defaults at the root."""
    inputs = ["{projectRoot}/src/**/*", "{projectRoot}/package.json"]
    with_below = ["default", "^default"]
    outputs = ["{projectRoot}/dist"]
    _json(
        f"{root}/nx.json",
        {
            "namedInputs": {"default": inputs},
            "analytics": False,
            "neverConnectToCloud": True,
            "targetDefaults": {
                "build": {
                    "cache": True,
                    "dependsOn": ["^build"],
                    "inputs": with_below,
                    "outputs": outputs,
                },
                "test": {
                    "cache": True,
                    "dependsOn": ["build"],
                    "inputs": with_below,
                    "outputs": [],
                },
                "lint": {"cache": True, "inputs": ["default"], "outputs": []},
            },
        },
    )
    for name, names in depends.items():
        targets = {
            task: {"command": command, "options": {"cwd": "{projectRoot}"}}
            for task, command in {"build": build, **OTHERS}.items()
        }
        project = {"name": name, "root": f"packages/{name}", "implicitDependencies": [*names]}
        _json(f"{root}/packages/{name}/project.json", project | {"targets": targets})
        # Scripts would be targets of the same names, run through npm.
        _edit(f"{root}/packages/{name}/package.json", {"scripts": {}})


def moon(root: str, depends: Depends) -> None:
    """Tasks that all projects inherit."""
    vcs = "vcs:\n  client: 'git'\n  defaultBranch: 'main'\n"
    workspace.write(
        f"{root}/.moon/workspace.yml", f"projects:\n  - 'packages/*'\n{vcs}telemetry: false\n"
    )
    inputs = "    inputs: ['src/**/*', 'package.json']\n"
    workspace.write(
        f"{root}/.moon/tasks/all.yml",
        "tasks:\n"
        f"  build:\n    script: '{workspace.BUILD}'\n    deps: ['^:build']\n{inputs}    outputs: ['dist']\n"
        f"  test:\n    script: 'true'\n    deps: ['~:build']\n{inputs}"
        f"  lint:\n    script: 'true'\n{inputs}",
    )
    for name, names in depends.items():
        below = "dependsOn:\n" + "".join(f"  - '{one}'\n" for one in names) if names else ""
        workspace.write(f"{root}/packages/{name}/moon.yml", f"language: 'bash'\n{below}")


def wireit(root: str, depends: Depends, build: str = workspace.BUILD) -> None:
    """Scripts that wireit runs, and scripts at the root that depend on all of them."""
    files = workspace.INPUTS
    for name, names in depends.items():
        tasks = {
            "build": {
                "command": build,
                "dependencies": [f"../{one}:build" for one in names],
                "files": files,
                "output": ["dist/**"],
            },
            "test": {
                "command": OTHERS["test"],
                "dependencies": ["build"],
                "files": files,
                "output": [],
            },
            "lint": {"command": OTHERS["lint"], "files": files, "output": []},
        }
        scripts = dict.fromkeys(tasks, "wireit")
        _edit(f"{root}/packages/{name}/package.json", {"scripts": scripts, "wireit": tasks})
    all_of = {
        task: {"dependencies": [f"./packages/{name}:{task}" for name in depends]}
        for task in ("build", *OTHERS)
    }
    both = {"dependencies": ["build", "test"]}
    every = {"dependencies": ["build", "test", "lint"]}
    together = {**all_of, "build-test": both, "build-test-lint": every}
    scripts = dict.fromkeys(together, "wireit")
    _edit(f"{root}/package.json", {"scripts": scripts, "wireit": together})


def _json(path: str, value: object) -> None:
    workspace.write(path, json.dumps(value))


def _edit(path: str, fields: Mapping[str, object]) -> None:
    with open(path, encoding="utf8") as file:
        _json(path, json.load(file) | fields)
