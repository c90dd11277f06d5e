"""What the files beside a project's sources say: manifests and where its config stands.

Reads `package.json`, `pyproject.toml`, `vx.toml` of one directory, and `pnpm-workspace.yaml`.
Takes from them names, needs and workspace members; never judges what only the package manager
has to understand, and evaluates no program.
"""

import json
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from vxwatch.config.faults import At
from vxwatch.config.load import Document, Reader
from vxwatch.globs import member_fault

CONFIG = "vx.toml"
SETTINGS = "vx.workspace.toml"
PROGRAM = "vx.config.py"
PROGRAM_SETTINGS = "vx.workspace.py"
LOCK = "vx.lock"
NPM = "package.json"
PYTHON = "pyproject.toml"
PNPM = "pnpm-workspace.yaml"

NAMES = frozenset({CONFIG, SETTINGS, PROGRAM, PROGRAM_SETTINGS, LOCK, NPM, PYTHON, PNPM})
"""Names under which a file can be a config or a manifest."""


class Place(NamedTuple):
    """A directory that is a project.

    `name` is None where no manifest gives one; `aliases` are other spellings of it. `package`
    and `pyproject` are the parsed manifests, empty where there is none. `members` are the
    workspace globs in them, None if they have none. `configs` holds no more
    than one document in a valid workspace; `program` is the file of a config that is one.
    """

    directory: str
    name: str | None
    aliases: tuple[str, ...]
    manifests: tuple[str, ...]
    package: Mapping[str, Any]
    pyproject: Mapping[str, Any]
    members: tuple[str, ...] | None
    configs: tuple[Document, ...]
    program: str | None = None

    @property
    def config(self) -> Document | None:
        """The config of the project."""
        return self.configs[0] if self.configs else None


def read_place(reader: Reader, directory: str) -> Place | None:
    """What a directory says, or None if nothing in it makes it a project."""
    prefix = f"{directory}/" if directory else ""
    before = len(reader.files)
    package = read_json(reader, prefix + NPM)
    pyproject = reader.toml(prefix + PYTHON, place_in(PYTHON))
    config = reader.toml(prefix + CONFIG)
    read = reader.files[before:]
    program = prefix + PROGRAM
    has_program = os.path.lexists(f"{reader.root}/{program}")
    if not read and not has_program:
        return None
    python: Mapping[str, Any] = pyproject.raw if pyproject else {}
    names = [_text(package.get("name")), _text(table(python, "project").get("name"))]
    own = pyproject if "vx" in table(python, "tool") else None
    return Place(
        directory=directory,
        name=names[0] or names[1],
        aliases=_spellings(names[1]) if names[1] and not names[0] else (),
        manifests=tuple(file for file in read if not file.endswith(CONFIG)),
        package=package,
        pyproject=python,
        members=_members(reader, prefix, package, python),
        configs=tuple(document for document in (config, own) if document),
        program=program if has_program else None,
    )


def read_members(reader: Reader) -> tuple[str, ...] | None:
    """The workspace globs in the root's manifests; None if they have none."""
    package = read_json(reader, NPM)
    pyproject = reader.toml(PYTHON, place_in(PYTHON))
    return _members(reader, "", package, pyproject.raw if pyproject else {})


def _spellings(name: str) -> tuple[str, ...]:
    from vxwatch.workspace.dependencies import normal  # noqa: PLC0415 - only Python projects have others

    return (normal(name),)


def place_in(file: str) -> At:
    """Where the config stands in a file of this name."""
    return ("tool", "vx") if file.endswith(PYTHON) else ()


def read_json(reader: Reader, file: str) -> Mapping[str, Any]:
    """A JSON object; empty if the file is not there or broken."""
    text = reader.text(file)
    if text is None:
        return {}
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        reader.problem(file, error.lineno, f"is not JSON: {error.msg}")
        return {}
    except RecursionError:
        reader.problem(file, 0, "is nested too deeply")
        return {}
    if not isinstance(content, dict):
        reader.problem(file, 1, "expected a JSON object")
        return {}
    return content


def read_pnpm(reader: Reader) -> tuple[str, ...] | None:
    """The member globs of the root's `pnpm-workspace.yaml`; None if it has none."""
    text = reader.text(PNPM)
    if text is None:
        return None
    from vxwatch.workspace.pnpm import read_packages  # noqa: PLC0415 - only pnpm pays for YAML

    try:
        packages = read_packages(text)
    except ValueError as error:
        line, reason = error.args
        reader.problem(PNPM, line, f"is not YAML: {reason}")
        return None
    return _globs(reader, PNPM, packages)


def table(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A table inside a document; empty if it is missing or no table."""
    value = raw.get(name)
    return value if isinstance(value, dict) else {}


def _members(
    reader: Reader, prefix: str, package: Mapping[str, Any], python: Mapping[str, Any]
) -> tuple[str, ...] | None:
    workspaces = package.get("workspaces")
    if isinstance(workspaces, dict):
        workspaces = workspaces.get("packages")
    npm = _globs(reader, prefix + NPM, workspaces)
    uv = table(table(table(python, "tool"), "uv"), "workspace")
    members = _globs(reader, prefix + PYTHON, uv.get("members"))
    excluded = _globs(reader, prefix + PYTHON, uv.get("exclude")) or ()
    if npm is None and members is None:
        return None
    return (*(members or ()), *(f"!{pattern}" for pattern in excluded), *(npm or ()))


def _globs(reader: Reader, file: str, value: object) -> tuple[str, ...] | None:
    """The texts of a list, cleaned of what package managers let pass."""
    if not isinstance(value, list):
        return None
    found = []
    for text in value:
        pattern = re.sub(r"^(!?)/+", r"\1", text) if isinstance(text, str) else "."
        reason = member_fault(pattern)
        if reason:
            reader.problem(file, 0, f'the workspace member "{pattern}": {reason}')
        else:
            found.append(pattern)
    return tuple(found)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None
