"""Reads `pnpm-workspace.yaml`. A module of its own, so that only pnpm workspaces load YAML."""

import yaml

try:
    from yaml import CSafeLoader as SafeLoader
except ImportError:
    from yaml import SafeLoader  # type: ignore[assignment]


def read_packages(text: str) -> object:
    """What the file says under `packages`; None if it does not.

    Raises `ValueError` with the line (0 if unknown) and what is wrong.
    """
    try:
        content = yaml.load(text, Loader=SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 0
        raise ValueError(line, getattr(error, "problem", None) or "cannot be parsed") from error
    return content.get("packages") if isinstance(content, dict) else None
