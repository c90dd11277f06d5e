"""Reads `pnpm-workspace.yaml`. A module of its own, so that only pnpm workspaces load YAML."""

import yaml

SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The safe loader, in C where libyaml is there."""


def read_packages(text: str) -> object:
    """What the file says under `packages`; None if it does not.

    Raises `ValueError` with the line (0 if unknown) and what is wrong.
    """
    try:
        content = yaml.load(text, Loader=SafeLoader)  # noqa: S506 - it is the safe one
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 0
        raise ValueError(line, getattr(error, "problem", None) or "cannot be parsed") from error
    return content.get("packages") if isinstance(content, dict) else None
