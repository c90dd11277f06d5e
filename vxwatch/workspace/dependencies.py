"""Which projects of the workspace a manifest depends on. Pure: parsed manifests in, names out.

Over-approximates where a manifest leaves it open: a range that a published version would
satisfy as well counts as the workspace's project. Never reads a lockfile.
"""

import re
from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple

Raw = Mapping[str, Any]

_NPM_FIELDS = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")
_NPM_LOCAL = ("file:", "link:", "portal:", "workspace:")
_NPM_PATH = r"(?s)(?:file|link|portal|workspace):(\.{1,2}(?:/.*)?|/.*)"
_NPM_ALIAS = r"(?s)workspace:(@?[^@]+)@.+"
_NPM_ELSEWHERE = r"(?:npm|file|link|portal|https?|ssh|git(?:\+\w+)?|github|gitlab|bitbucket|gist|jsr|patch|exec):|[\w.-]+/"
_PYTHON_NAME = r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"


class Need(NamedTuple):
    """One dependency of a manifest: by name, or by a path relative to the manifest."""

    name: str | None = None
    path: str | None = None


def npm_needs(package: Raw, known: Container[str]) -> tuple[Need, ...]:
    """What a `package.json` needs of the workspace, whose projects have the `known` names."""
    found: dict[Need, None] = {}
    for field in _NPM_FIELDS:
        for name, spec in _table(package.get(field)).items():
            if isinstance(spec, str) and (name in known or spec.startswith(_NPM_LOCAL)):
                need = _npm_need(name, spec)
                if need:
                    found[need] = None
    return tuple(found)


def python_needs(pyproject: Raw) -> tuple[Need, ...]:
    """What a `pyproject.toml` needs and the workspace may have."""
    project = _table(pyproject.get("project"))
    uv = _table(_table(pyproject.get("tool")).get("uv"))
    lists = [
        project.get("dependencies"),
        *_table(project.get("optional-dependencies")).values(),
        *_table(pyproject.get("dependency-groups")).values(),
        uv.get("dev-dependencies"),
    ]
    sources = {normal(name): source for name, source in _table(uv.get("sources")).items()}
    found: dict[Need, None] = {}
    for requirements in lists:
        for text in requirements if isinstance(requirements, list) else ():
            match = re.match(_PYTHON_NAME, text) if isinstance(text, str) else None
            if match:
                name = normal(match[1])
                found.update(dict.fromkeys(_python_needs(name, sources.get(name))))
    return tuple(found)


def normal(name: str) -> str:
    """A Python package's name as indexes compare it (packaging.python.org, "Name normalization")."""
    return re.sub(r"[-_.]+", "-", name).lower()


def resolve(
    needs: Iterable[Need],
    directory: str,
    by_name: Mapping[str, str],
    by_directory: Mapping[str, str],
) -> tuple[str, ...]:
    """The names of the projects that satisfy the needs of the project in `directory`.

    `by_name` maps names (for Python projects also their normal form) and `by_directory`
    maps directories to the names of projects.
    """
    found: dict[str, None] = {}
    for need in needs:
        if need.path is not None:
            name = by_directory.get(joined(directory, need.path) or "/")
        else:
            name = by_name.get(need.name or "")
        if name is not None and name != by_directory.get(directory):
            found[name] = None
    return tuple(found)


def joined(directory: str, path: str) -> str | None:
    """A relative path seen from a directory of the workspace; None if it leaves the root."""
    parts = directory.split("/") if directory else []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return None if path.startswith("/") else "/".join(parts)


def _npm_need(name: str, spec: str) -> Need | None:
    path = re.fullmatch(_NPM_PATH, spec)
    if path:
        return Need(path=path[1])
    alias = re.fullmatch(_NPM_ALIAS, spec)
    if alias:
        return Need(name=alias[1])
    return None if re.match(_NPM_ELSEWHERE, spec) else Need(name=name)


def _python_needs(name: str, source: object) -> Iterable[Need]:
    """The need for a name with its `tool.uv.sources` entry, which may be a list by marker."""
    entries = [
        one for one in (source if isinstance(source, list) else [source]) if isinstance(one, dict)
    ]
    if not entries:
        yield Need(name=name)
    for entry in entries:
        if entry.get("workspace") is True:
            yield Need(name=name)
        elif isinstance(entry.get("path"), str):
            yield Need(path=entry["path"])


def _table(value: object) -> Raw:
    return value if isinstance(value, dict) else {}
