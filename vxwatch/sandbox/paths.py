"""Absolute paths as text: what lies in what. Looks at no disk, follows no link."""

from collections.abc import Set as AbstractSet


def inside(path: str, directory: str) -> bool:
    """Whether the path is the directory or lies below it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def inside_any(path: str, directories: AbstractSet[str]) -> bool:
    """Whether the path is one of the directories or lies below one, however many there are."""
    while path not in directories:
        if path == "/":
            return False
        path = path.rpartition("/")[0] or "/"
    return True


def in_order(path: str) -> tuple[str, ...]:
    """A sort key that puts each directory right before what lies in it."""
    return tuple(path.split("/"))
