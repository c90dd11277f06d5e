"""What is said of files that appeared where a task may write, and that only a grant by name opens."""

import os
from collections.abc import Sequence

MOST_NAMED = 3
HINT = "remove it if you do not know it, or name it in sandbox.allow.write"


def appeared(root: str, paths: Sequence[str]) -> str:
    """The sentence about these absolute paths, of which there is one at least."""
    names = ", ".join(os.path.relpath(path, root) for path in paths[:MOST_NAMED])
    more = f" and {rest} more" if (rest := len(paths) - MOST_NAMED) > 0 else ""
    return f"{names}{more} appeared or changed, which only a grant that names it allows"
