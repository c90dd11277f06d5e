"""Reads YAML. A module of its own, so that only workspaces that have some load the library."""

import yaml

SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The safe loader, in C where libyaml is there."""


def read_packages(text: str) -> object:
    """What a `pnpm-workspace.yaml` says under `packages`; None if it does not.

    Raises `ValueError` with the line (0 if unknown) and what is wrong.
    """
    content = read_yaml(text)
    return content.get("packages") if isinstance(content, dict) else None


def read_yaml(text: str) -> object:
    """The document. Raises `ValueError` with the line (0 if unknown) and what is wrong."""
    try:
        return yaml.load(text, Loader=SafeLoader)  # noqa: S506 - it is the safe one
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 0
        raise ValueError(line, getattr(error, "problem", None) or "cannot be parsed") from error
