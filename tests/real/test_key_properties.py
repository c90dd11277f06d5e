"""A key is equal exactly when what the task takes is: real trees, random edits, git and none.

What counts is told a second time here, from the tree alone, in the plainest way there is.
"""

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.soaking import soak, soaks
from vxwatch.session.knowledge import Knowledge
from vxwatch.session.planning import Options, make_plan

CONFIG = """
[tasks.t]
command = "true"
cache = { inputs = ["src/**", "!src/skip/**", ".env", "top*"], outputs = ["src/out/**"] }
"""
IGNORED = "*.log\n.env\n/src/hidden/\n/src/out/\n"
NEVER = ("node_modules", "__pycache__", ".git", ".vx")

Value = tuple[str, bool, bytes]
Edit = tuple[str, ...]

FILES = ("a", "b.log", "ü", "new\nline", "back\\slash", "-x", "*", "c.tsbuildinfo", "d", "skip")
DIRECTORIES = ("d", "skip", "hidden", "out", "node_modules", "e.log", "d/a")
PATHS = [
    *(f"src/{name}" for name in FILES),
    *(f"src/{directory}/{name}" for directory in DIRECTORIES for name in ("a", "ü", "b.log")),
    *("top", "top2", ".env", "other", "deep/top"),
]
TEXTS = ("one", "two", "longer than that", "")

THERE = ("src/a", "src/ü", "src/b.log", "src/d/a", "src/skip/a", "top", ".env", "other")

PATH = st.one_of(st.sampled_from(THERE), st.sampled_from(PATHS))
EDIT = st.one_of(
    st.tuples(st.just("write"), PATH, st.sampled_from(TEXTS)),
    st.tuples(
        st.sampled_from(["write", "disguise"]), st.sampled_from(THERE), st.sampled_from(TEXTS)
    ),
    st.tuples(st.just("disguise"), PATH, st.sampled_from(TEXTS)),
    st.tuples(st.just("chmod"), PATH, st.sampled_from(["644", "755", "600", "500"])),
    st.tuples(st.just("link"), PATH, st.sampled_from(["a", "nowhere", "d", "../other"])),
    st.tuples(st.just("rename"), PATH, PATH),
    st.tuples(st.just("remove"), PATH),
    st.tuples(st.just("remove"), st.sampled_from([f"src/{name}" for name in DIRECTORIES])),
    st.tuples(st.just("touch"), PATH),
    st.tuples(st.just("git"), st.sampled_from(["add -A", "commit -qam x --allow-empty", "reset"])),
)


def git(root: str, words: str) -> None:
    if os.path.isdir(f"{root}/.git"):
        author = ("-c", "user.name=t", "-c", "user.email=t@t.invalid")
        subprocess.run(("git", *author, *words.split()), cwd=root, check=True, capture_output=True)


def make_way(path: str) -> None:
    """Remove what is at the path, and have its directory there."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
    above = os.path.dirname(path)
    while not os.path.isdir(above) and not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above) or os.path.islink(above):
        os.unlink(above)
    os.makedirs(os.path.dirname(path), exist_ok=True)


def is_plain(path: str) -> bool:
    return os.path.isfile(path) and not os.path.islink(path)


def write(root: str, path: str, text: str) -> None:
    """In place, as a shell's `>` does."""
    if not is_plain(path):
        make_way(path)
    with open(path, "w") as file:
        file.write(text)


def disguise(root: str, path: str, text: str) -> None:
    """Other bytes, and the size and the time of modification as they were."""
    if is_plain(path):
        before = os.stat(path)
        with open(path, "r+") as file:
            file.write(text[: before.st_size])
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def chmod(root: str, path: str, mode: str) -> None:
    if is_plain(path):
        os.chmod(path, int(mode, 8))


def link(root: str, path: str, target: str) -> None:
    make_way(path)
    os.symlink(target, path)


def rename(root: str, path: str, to: str) -> None:
    target = f"{root}/{to}"
    nested = f"{path}/".startswith(f"{target}/") or f"{target}/".startswith(f"{path}/")
    if os.path.lexists(path) and not nested:
        make_way(target)
        if os.path.lexists(path):  # it did not lie on the way
            os.rename(path, target)


def remove(root: str, path: str) -> None:
    if os.path.lexists(path):
        make_way(path)


def touch(root: str, path: str) -> None:
    if os.path.lexists(path):
        os.utime(path, follow_symlinks=False)


EDITS: Mapping[str, Callable[..., None]] = {
    made.__name__: made for made in (write, disguise, chmod, link, rename, remove, touch)
}


def edit(root: str, kind: str, name: str, *more: str) -> None:
    if kind == "git":
        git(root, name)
    else:
        EDITS[kind](root, f"{root}/{name}", *more)


def counts(path: str) -> bool:
    """Whether the task takes a file of this path."""
    parts = path.split("/")
    if any(part in NEVER or part.endswith(".tsbuildinfo") for part in parts):
        return False
    if path == ".env":
        return True
    if any(part.endswith(".log") for part in parts) or path.startswith("src/hidden/"):
        return False
    if parts[0] == "src":
        return len(parts) > 1 and not path.startswith(("src/skip/", "src/out/"))
    return len(parts) == 1 and path.startswith("top")


def tree(root: str, inside: str = "") -> Iterator[tuple[str, Value]]:
    for entry in os.scandir(f"{root}/{inside}"):
        path = f"{inside}/{entry.name}" if inside else entry.name
        if entry.is_symlink():
            yield path, ("link", False, os.fsencode(os.readlink(entry.path)))
        elif entry.is_dir():
            if entry.name not in NEVER:
                yield from tree(root, path)
        else:
            with open(entry.path, "rb") as file:
                mode = entry.stat(follow_symlinks=False).st_mode
                yield path, ("file", bool(mode & stat.S_IXUSR), file.read())


def taken(root: str) -> Mapping[str, Value]:
    return {path: value for path, value in tree(root) if counts(path)}


class Looker:
    """Whoever makes keys of the workspace: anew each time, or from what it knows already."""

    def __init__(self, root: str) -> None:
        self._options = Options("run", ("t",), root)
        self._plan = make_plan(self._options)
        self._known = Knowledge(self._plan, self._options, {})

    def __enter__(self) -> Callable[[set[str]], str]:
        self._known.learn()
        return self._key

    def __exit__(self, *_: object) -> None:
        self._known.close()

    def _key(self, touched: set[str]) -> str:
        [task] = self._plan.requested
        self._known.index.refresh(touched)
        self._known.keys.forget([task])
        return self._known.keys.key(task)


def places(root: str) -> set[str]:
    """Every path of the tree, directories too."""
    found = set()
    for directory, names, files in os.walk(root):
        inside = os.path.relpath(directory, root)
        names[:] = [name for name in names if name not in NEVER]
        found |= {os.path.normpath(f"{inside}/{name}") for name in (*names, *files)}
    return found


def prepare(root: str, *, in_git: bool) -> None:
    os.makedirs(f"{root}/src")
    for name, text in (
        ("package.json", '{"name": "p"}'),
        ("vx.toml", CONFIG),
        (".gitignore", IGNORED),
        *((path, "one") for path in THERE),
    ):
        edit(root, "write", name, text)
    if in_git:
        subprocess.run(("git", "init", "-q", "--template=", "-b", "main"), cwd=root, check=True)
        git(root, "add -A")


class Known:
    """Keys, and what the task took when it had them."""

    def __init__(self) -> None:
        self._taken: dict[str, Mapping[str, Value]] = {}

    def check(self, key: str, taken: Mapping[str, Value]) -> None:
        assert self._taken.setdefault(key, taken) == taken
        assert sum(known == taken for known in self._taken.values()) == 1


@pytest.mark.soak
@soaks()
def test_a_key_is_equal_exactly_when_what_the_task_takes_is() -> None:
    soak(check_keys)


@given(st.booleans(), st.lists(st.lists(EDIT, min_size=1, max_size=6), min_size=1, max_size=6))
@settings(max_examples=40)
def check_keys(in_git: bool, steps: list[list[Edit]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = os.path.realpath(place)
        prepare(root, in_git=in_git)
        known = Known()
        with Looker(root) as again:
            for step in steps:
                for one in step:
                    before = places(root)
                    edit(root, *one)  # within the tick of the clock in which it was last looked at
                    key = again(before | places(root))
                    known.check(key, taken(root))
                with Looker(root) as anew:
                    assert anew(set()) == again(set())
