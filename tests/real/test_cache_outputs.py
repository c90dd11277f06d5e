"""What is captured of a task's outputs is what a restore gives back, whatever was there before."""

import io
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from vxwatch.cache.archive import verify
from vxwatch.cache.declared import Declared
from vxwatch.cache.manifest import Item
from vxwatch.cache.ondisk import Presence
from vxwatch.cache.outputs import Outputs
from vxwatch.model import Globs, Project

Saved = tuple[tuple[Item, ...], Presence, bytes, str, int]


def outputs(
    root: str, *patterns: str, tracked: Sequence[str] = (), nested: Sequence[str] = ()
) -> Outputs:
    project = Project("app", "", None, None, (), {})
    declared = Declared(project, Globs(patterns), ("", *nested))
    return Outputs(root, declared, lambda _: tracked, time.time_ns)


def capture(these: Outputs) -> Saved:
    file = io.BytesIO()
    items, presence, digest, size = these.capture(file)
    verify(io.BytesIO(file.getvalue()), digest, size)
    return items, presence, file.getvalue(), digest, size


def restore(these: Outputs, saved: Saved) -> bool:
    """Whether anything was written."""
    difference, _ = these.compare(saved[0])
    if difference:
        these.restore(saved[0], difference, io.BytesIO(saved[2]))
    return bool(difference)


def snapshot(root: str) -> dict[str, tuple[str, int, bytes]]:
    found: dict[str, tuple[str, int, bytes]] = {}
    for directory, names, files in os.walk(root):
        for name in (*names, *files):
            path = os.path.join(directory, name)
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                value = ("l", 0, os.fsencode(os.readlink(path)))
            elif stat.S_ISDIR(status.st_mode):
                value = ("d", stat.S_IMODE(status.st_mode), b"")
            else:
                with open(path, "rb") as file:
                    value = ("f", stat.S_IMODE(status.st_mode), file.read())
            found[os.path.relpath(path, root)] = value
    return found


def write(path: str, data: str | bytes = "x", mode: int = 0o644) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)
    os.chmod(path, mode)


NAMES = st.one_of(
    st.sampled_from(["a", "b", "c", "A", "node_modules", "__pycache__", "x.tsbuildinfo"]),
    st.sampled_from(["sp ace", "ü", "back\\slash", "new\nline", "-", "n" * 120, "*", "[a]"]),
    st.binary(min_size=1, max_size=8)
    .filter(lambda b: b not in (b".", b"..") and not {0, 47} & {*b})
    .map(os.fsdecode),
)
FILE_MODES = st.sampled_from([0o644, 0o755, 0o600, 0o444, 0o640, 0o777])
DIRECTORY_MODES = st.sampled_from([0o755, 0o700, 0o555, 0o777])
FILES = st.tuples(st.just("f"), FILE_MODES, st.binary(max_size=2000))
LINKS = st.tuples(st.just("l"), st.just(0), st.sampled_from([b"a", b"nowhere", b"/", b"../.."]))
TREES = st.recursive(
    st.dictionaries(NAMES, st.one_of(FILES, LINKS), max_size=4),
    lambda inner: st.dictionaries(
        NAMES, st.one_of(FILES, LINKS, st.tuples(st.just("d"), DIRECTORY_MODES, inner)), max_size=4
    ),
    max_leaves=12,
)


def build(place: str, tree: Mapping[str, tuple[str, int, object]]) -> None:
    os.makedirs(place, exist_ok=True)
    for name, (kind, mode, content) in tree.items():
        path = f"{place}/{name}"
        if kind == "f":
            assert isinstance(content, bytes)
            write(path, content, mode)
        elif kind == "l":
            assert isinstance(content, bytes)
            os.symlink(os.fsdecode(content), path)
        else:
            assert isinstance(content, Mapping)
            build(path, content)
            os.chmod(path, mode)


@given(TREES, TREES, st.booleans())
@settings(max_examples=60)
def test_a_restore_gives_back_what_was_captured(
    tree: Mapping[str, tuple[str, int, object]],
    other: Mapping[str, tuple[str, int, object]],
    above: bool,
) -> None:
    with tempfile.TemporaryDirectory() as root:
        write(f"{root}/dist-x/not-ours")
        place = f"{root}/dist/in" if above else f"{root}/dist"
        build(place, tree)
        these = outputs(root, "dist/")
        saved = capture(these)
        expected = snapshot(root)
        assert not restore(these, saved)
        os.rename(f"{root}/dist", f"{root}/gone")
        shutil.rmtree(f"{root}/gone")
        build(place, other)
        restore(these, saved)
        assert snapshot(root) == expected
        assert not restore(these, saved)
        assert capture(these)[2:] == saved[2:]
        for directory, names, _ in os.walk(root):
            for name in names:
                os.chmod(f"{directory}/{name}", 0o700) if not os.path.islink(
                    f"{directory}/{name}"
                ) else None
