"""Makes one synthetic workspace, the same for every tool: seeded graph, files, commands.

    python bench/workspace.py DIR --packages 100

The packages stand in layers; each depends on one to three packages of the layer before it.
Each has ten small files in src/, `build` (after the builds it depends on; copies src/ together
into dist/), `test` (after its own build; does nothing) and `lint` (after nothing; does nothing).
vx finds vx.toml files, turbo finds turbo.json and scripts, a bare watcher takes the list of
`sources`; `configs.py` writes what others need. The tree is committed.
"""

import json
import os
import random
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import measure

BUILD = "mkdir -p dist && cat src/* > dist/out.txt"
INPUTS = ["src/**", "package.json"]
FILES = 10
IGNORED = ["node_modules", "dist", ".turbo", ".vx", ".nx", ".wireit", ".moon/cache", ".moon/docker"]

Configure = Callable[[str, Mapping[str, Sequence[str]]], None]
"""Called with the root, and for each package what it depends on."""


@dataclass(frozen=True, slots=True)
class Made:
    """A workspace on disk. `leaf` is the directory of a package that nobody depends on."""

    root: str
    packages: tuple[str, ...]
    leaf: str

    @property
    def sources(self) -> list[str]:
        """The source directory of every package."""
        return [f"{package}/src" for package in self.packages]


def graph(packages: int, seed: int) -> dict[str, list[str]]:
    """Package name -> names it depends on; ten layers for a hundred packages, at most a hundred."""
    chance = random.Random(seed)
    layers = min(100, max(round(packages**0.5), packages // 10))
    size = max(1, packages // layers)
    names = [f"p{i:04}" for i in range(packages)]
    depends: dict[str, list[str]] = {}
    for i, name in enumerate(names):
        layer = i // size
        before = names[(layer - 1) * size : layer * size] if layer else []
        depends[name] = sorted(chance.sample(before, min(len(before), chance.randint(1, 3))))
    return depends


def make(
    root: str,
    packages: int,
    build: str = BUILD,
    grants: Sequence[str] | None = None,
    seed: int = 1,
    configure: Configure | None = None,
) -> Made:
    """Write the workspace into a new directory.

    `grants` are further directories that the build may write to when vx sandboxes the tasks;
    None leaves them unconfined. `configure` writes what another tool needs before the tree is
    committed.
    """
    depends = graph(packages, seed)
    for name, names in depends.items():
        _package(f"{root}/packages/{name}", name, names, build, grants)
    tasks = {
        "build": {"dependsOn": ["^build"], "inputs": INPUTS, "outputs": ["dist/**"]},
        "test": {"dependsOn": ["build"], "inputs": INPUTS, "outputs": []},
        "lint": {"inputs": INPUTS, "outputs": []},
    }
    manifest = {"name": "root", "private": True, "workspaces": ["packages/*"]}
    # turbo wants to know the package manager's version, and a lock file.
    write(f"{root}/package.json", json.dumps(manifest | {"packageManager": "npm@11.0.0"}))
    write(f"{root}/package-lock.json", json.dumps(_lock(manifest, depends)))
    write(f"{root}/turbo.json", json.dumps({"tasks": tasks}))
    write(f"{root}/.gitignore", "".join(f"{name}\n" for name in IGNORED))
    if configure is not None:
        configure(root, depends)
    commit(root)
    leaf = next(reversed(depends))
    return Made(
        root, tuple(f"{root}/packages/{name}" for name in depends), f"{root}/packages/{leaf}"
    )


def _package(
    directory: str, name: str, depends: Sequence[str], build: str, grants: Sequence[str] | None
) -> None:
    manifest = {
        "name": name,
        "version": "1.0.0",
        "private": True,
        "scripts": {"build": build, "test": "true", "lint": "true"},
        "dependencies": dict.fromkeys(depends, "*"),
    }
    write(f"{directory}/package.json", json.dumps(manifest))
    sandbox = ""
    if grants is not None:
        writable = json.dumps(["dist/", *grants])
        sandbox = f'sandbox = {{ allow = {{ read = ["."], write = {writable} }} }}\n'
    config = (
        _task("build", build, ["^build"], ["dist/**"])
        + sandbox
        + _task("test", "true", ["build"], [])
        + sandbox
        + _task("lint", "true", [], [])
        + sandbox
    )
    write(f"{directory}/vx.toml", config)
    chance = random.Random(name)
    for i in range(FILES):
        lines = [f"export const v{j} = {chance.randrange(1 << 30)};\n" for j in range(20)]
        write(f"{directory}/src/m{i}.js", "// 0\n" + "".join(lines))


def _task(name: str, command: str, after: list[str], outputs: list[str]) -> str:
    return (
        f"[tasks.{name}]\n"
        f"command = {json.dumps(command)}\n"
        f"depends_on = {json.dumps(after)}\n"
        f"cache = {{ inputs = {json.dumps(INPUTS)}, outputs = {json.dumps(outputs)} }}\n"
    )


def _lock(manifest: dict[str, object], depends: dict[str, list[str]]) -> dict[str, object]:
    entries: dict[str, object] = {"": manifest}
    for name, names in depends.items():
        entries[f"node_modules/{name}"] = {"resolved": f"packages/{name}", "link": True}
        entries[f"packages/{name}"] = {
            "version": "1.0.0",
            "dependencies": dict.fromkeys(names, "*"),
        }
    return {"name": "root", "lockfileVersion": 3, "requires": True, "packages": entries}


def commit(root: str) -> None:
    """Make the tree a git repository with one commit."""
    who = ["-c", "user.name=bench", "-c", "user.email=bench@example.invalid"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "a workspace"]):
        subprocess.run(["git", *who, *words], cwd=root, check=True)


def write(path: str, text: str) -> None:
    """Write a file, and make its directory."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf8") as file:
        file.write(text)


def main() -> None:
    parser = measure.arguments(__doc__)
    parser.add_argument("directory")
    parser.add_argument("--packages", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    made = make(given.directory, given.packages, seed=given.seed)
    print(f"{len(made.packages)} packages in {made.root}; nothing depends on {made.leaf}")


if __name__ == "__main__":
    main()
