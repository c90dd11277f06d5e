"""snapshot.py TREE FILE [WORD]  writes all that a tree holds into a file, as JSON.

Maps each file's path to what it is: a link's target, or the executable bit and the content.
WORD stands beside it. `dist` and `vx.toml` are left out at the top. What goes while it looks is left out.
"""

import json
import os
import sys


def content(path: str) -> str | None:
    """What a file or link is; None if it is neither, or gone."""
    try:
        if os.path.islink(path):
            return f"link {os.readlink(path)}"
        if not os.path.isfile(path):
            return None
        bit = os.stat(path).st_mode & 0o100
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return f"{'x' if bit else '-'} {file.read()}"
    except OSError:
        return None


def snapshot(tree: str) -> dict[str, str]:
    """All that a tree holds, by path relative to it; links are not followed."""
    found = {}
    for directory, inner, names in os.walk(tree):
        if directory == tree:
            inner[:] = [name for name in inner if name not in ("dist", ".git")]
            names[:] = [name for name in names if name != "vx.toml"]
        links = [name for name in inner if os.path.islink(os.path.join(directory, name))]
        for path in (os.path.join(directory, name) for name in (*names, *links)):
            what = content(path)
            if what is not None:
                found[os.path.relpath(path, tree)] = what
    return found


def main(tree: str, path: str, word: str = "") -> None:
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(f"{path}.{os.getpid()}", "w") as file:
        json.dump({"word": word, "files": snapshot(tree)}, file)
    os.rename(f"{path}.{os.getpid()}", path)


if __name__ == "__main__":
    main(*sys.argv[1:])
