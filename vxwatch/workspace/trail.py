"""What a path goes through: while none of it moves, it leads to the same file in the same state."""

import os
from collections.abc import Iterable, Iterator

_MOST_LINKS = 40  # path_resolution(7)


def trail(path: str) -> Iterator[str]:
    """Every link on the way of an absolute path, and what it ends at, there or not.

    None of them has a link above it. A path that leads in circles has no end.
    """
    ahead = path.split("/")[::-1]
    place = ""
    links = 0
    while ahead:
        name = ahead.pop()
        if name == "..":
            if not os.path.lexists(place):
                yield place
            place = place.rpartition("/")[0]
        elif name not in ("", "."):
            step = f"{place}/{name}"
            target = _target(step)
            if target is None:
                place = step
                continue
            yield step
            links += 1
            if links > _MOST_LINKS:
                return
            place = "" if target.startswith("/") else place
            ahead += target.split("/")[::-1]
    yield place or "/"


def led_through(root: str, paths: Iterable[str]) -> set[str]:
    """What those of the paths go through that a link is on the way of: each link, and the end.

    `root` is absolute and real, the paths are relative to it, or absolute; so is what it gives.
    """
    straight: dict[str, bool] = {}
    steps: set[str] = set()
    for path in paths:
        full = os.path.normpath(os.path.join(root, path))
        above = os.path.dirname(full)
        if above not in straight:
            straight[above] = os.path.realpath(above) == above
        if os.path.islink(full) or not straight[above]:
            steps.update(trail(full))
    inside = root.rstrip("/") + "/"
    return {"" if step == root else step.removeprefix(inside) for step in steps}


def _target(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None
