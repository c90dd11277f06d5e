"""What is captured of a task's outputs is what a restore gives back, whatever was there before."""

import io
import os
import shutil
import socket
import stat
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.owner import as_an_owner
from tests.harness.soaking import soak, soaks
from vxwatch.cache.archive import DamagedError, read, verify
from vxwatch.cache.declared import Declared
from vxwatch.cache.manifest import Item, UnsoundError, unpack
from vxwatch.cache.ondisk import Presence
from vxwatch.cache.outputs import CannotRestoreError, CannotSaveError, Outputs
from vxwatch.cache.places import LinkedPlaceError, Places
from vxwatch.model import Globs, Project

Saved = tuple[tuple[Item, ...], Presence, bytes, str, int]


def outputs(
    root: str, *patterns: str, tracked: Sequence[str] = (), nested: Sequence[str] = ()
) -> Outputs:
    project = Project("app", "", (), None, (), {})
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


@pytest.mark.soak
@soaks()
def test_a_restore_gives_back_what_was_captured() -> None:
    soak(check_restores)


@given(TREES, TREES, st.booleans())
@settings(max_examples=60)
def check_restores(
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


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "w").mkdir()
    return str(tmp_path / "w")


def test_what_is_right_already_is_not_touched(root: str) -> None:
    write(f"{root}/dist/a", "a")
    write(f"{root}/dist/b", "b")
    these = outputs(root, "dist/**")
    saved = capture(these)
    before = os.lstat(f"{root}/dist/a")
    write(f"{root}/dist/b", "other")
    write(f"{root}/dist/stray/deep/c")
    assert restore(these, saved)
    assert os.lstat(f"{root}/dist/a") == before
    assert {*snapshot(f"{root}/dist")} == {"a", "b"}


def test_files_that_no_pattern_matches_stay(root: str) -> None:
    write(f"{root}/dist/app.js")
    write(f"{root}/dist/notes.txt")
    write(f"{root}/dist/kept/by-hand.js")
    write(f"{root}/src/main.js")
    these = outputs(root, "dist/**/*.js", "!dist/kept/**")
    saved = capture(these)
    assert [item.path for item in saved[0]] == ["dist/app.js"]
    these.clean()
    assert {*snapshot(root)} == {
        *("dist", "dist/notes.txt", "dist/kept", "dist/kept/by-hand.js", "src", "src/main.js")
    }
    restore(these, saved)
    assert os.path.exists(f"{root}/dist/app.js")


def test_a_pattern_that_looks_for_names_does_not_enter_installed_packages(root: str) -> None:
    write(f"{root}/node_modules/x/index.js")
    write(f"{root}/lib/node_modules/x/index.js")
    write(f"{root}/lib/main.js")
    write(f"{root}/out/node_modules/x/index.js")
    these = outputs(root, "**/*.js", "!out", "out/**")
    assert {path for path in these.find().items if path.endswith(".js")} == {
        "lib/main.js",
        "out/node_modules/x/index.js",
    }


def test_patterns_of_a_project_stop_at_the_projects_in_it(root: str) -> None:
    write(f"{root}/packages/ui/dist/a")
    write(f"{root}/dist/a")
    these = outputs(root, "**/dist/*", nested=["packages/ui"])
    assert [*these.find().items] == ["dist", "dist/a"]


def test_what_git_tracks_is_left_alone(root: str) -> None:
    write(f"{root}/dist/made", "made")
    write(f"{root}/dist/tracked", "by hand")
    these = outputs(root, "dist/**", tracked=["dist/tracked", "src/other"])
    saved = capture(these)
    assert [item.path for item in saved[0]] == ["dist", "dist/made"]
    assert these.clean().tracked == ["dist/tracked"]
    assert snapshot(f"{root}/dist") == {"tracked": ("f", 0o644, b"by hand")}
    assert restore(these, saved)
    assert not restore(these, saved)


def test_what_git_tracks_by_now_is_not_restored_over(root: str) -> None:
    write(f"{root}/dist/a", "saved")
    saved = capture(outputs(root, "dist/**"))
    write(f"{root}/dist/a", "by hand")
    now = outputs(root, "dist/**", tracked=["dist/a"])
    assert not restore(now, saved)
    assert snapshot(f"{root}/dist")["a"][2] == b"by hand"


@pytest.mark.parametrize("what", ["fifo", "socket", "repository"])
def test_what_no_archive_can_hold_is_told(root: str, what: str) -> None:
    os.makedirs(f"{root}/dist/inner")
    if what == "fifo":
        os.mkfifo(f"{root}/dist/it")
    elif what == "socket":
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(os.path.relpath(f"{root}/dist/it"))
    else:
        write(f"{root}/dist/inner/.git/HEAD")
        write(f"{root}/dist/inner/work")
    these = outputs(root, "dist/**")
    with pytest.raises(CannotSaveError, match=what):
        capture(these)
    these.clean()
    assert os.path.exists(f"{root}/dist/inner/work") is (what == "repository")
    assert not os.path.lexists(f"{root}/dist/it")


@pytest.mark.parametrize("pattern", ["dist/**", "dist/in/**", "dist/in/a"])
@pytest.mark.parametrize("action", ["clean", "capture", "restore"])
def test_a_link_on_the_way_stops_everything(root: str, pattern: str, action: str) -> None:
    write(f"{root}/dist/in/a", "a")
    saved = capture(outputs(root, pattern))
    os.rename(f"{root}/dist", f"{root}/elsewhere")
    write(f"{root}/elsewhere/precious")
    os.symlink("elsewhere", f"{root}/dist")
    before = snapshot(root)
    these = outputs(root, pattern)
    actions: dict[str, Callable[[], object]] = {
        "clean": these.clean,
        "capture": lambda: capture(these),
        "restore": lambda: restore(these, saved),
    }
    with pytest.raises(LinkedPlaceError, match="dist"):
        actions[action]()
    assert snapshot(root) == before


def test_a_link_among_the_outputs_is_replaced_and_never_written_through(root: str) -> None:
    write(f"{root}/dist/sub/a", "a")
    write(f"{root}/precious/a", "precious")
    these = outputs(root, "dist/**")
    saved = capture(these)
    shutil.rmtree(f"{root}/dist/sub")
    os.symlink(f"{root}/precious", f"{root}/dist/sub")
    assert restore(these, saved)
    assert snapshot(f"{root}/precious") == {"a": ("f", 0o644, b"precious")}
    assert not os.path.islink(f"{root}/dist/sub")


def test_an_output_is_not_written_through_a_hard_link(root: str) -> None:
    write(f"{root}/dist/a", "a")
    these = outputs(root, "dist/**")
    saved = capture(these)
    write(f"{root}/store/a", "shared")
    os.unlink(f"{root}/dist/a")
    os.link(f"{root}/store/a", f"{root}/dist/a")
    assert restore(these, saved)
    assert snapshot(f"{root}/store") == {"a": ("f", 0o644, b"shared")}


def test_stamps_prove_what_is_there_and_any_change_breaks_them(root: str) -> None:
    write(f"{root}/dist/a", "a")
    os.makedirs(f"{root}/dist/empty")
    these = outputs(root, "dist/**", "other/**")
    _, young, *_ = capture(these)
    assert not young.stands(root)  # written just now: the clock may not have moved since
    presence = settled(these)
    assert presence.stands(root)
    changes: list[Callable[[], object]] = [
        lambda: os.utime(f"{root}/dist/a"),
        lambda: write(f"{root}/dist/new"),
        lambda: os.unlink(f"{root}/dist/new"),
        lambda: os.rmdir(f"{root}/dist/empty"),
        lambda: os.chmod(f"{root}/dist/a", 0o600),
        lambda: write(f"{root}/other/a"),
        lambda: shutil.rmtree(f"{root}/dist"),
    ]
    for change in changes:
        change()
        assert not presence.stands(root)
        presence = settled(these)
        assert presence.stands(root)


def settled(these: Outputs) -> Presence:
    """What is there, once its stamps are old enough to prove it."""
    items = capture(these)[0]
    deadline = time.monotonic() + 10
    while True:
        difference, presence = these.compare(items)
        assert not difference
        if presence.stands(these._root):
            return presence
        assert time.monotonic() < deadline


def test_a_restore_that_somebody_disturbs_fails(root: str) -> None:
    write(f"{root}/dist/a", "a")
    these = outputs(root, "dist/**")
    saved = capture(these)
    os.unlink(f"{root}/dist/a")
    difference, _ = these.compare(saved[0])
    write(f"{root}/dist/strange")
    with pytest.raises(CannotRestoreError):
        these.restore(saved[0], difference, io.BytesIO(saved[2]))


def test_a_read_only_tree_of_our_own_is_cleaned_and_restored() -> None:
    with as_an_owner() as root:
        write(f"{root}/dist/sub/a", "a", 0o444)
        os.chmod(f"{root}/dist/sub", 0o555)
        os.chmod(f"{root}/dist", 0o555)
        these = outputs(root, "dist/**")
        saved = capture(these)
        expected = snapshot(root)
        os.chmod(f"{root}/dist/sub", 0o755)
        write(f"{root}/dist/sub/stray")
        os.chmod(f"{root}/dist/sub", 0o555)
        assert restore(these, saved)
        assert snapshot(root) == expected
        these.clean()
        assert os.listdir(f"{root}/dist") == []
        assert restore(these, saved)
        assert snapshot(root) == expected
        os.chmod(f"{root}/dist", 0o755)
        os.chmod(f"{root}/dist/sub", 0o755)


def test_an_output_that_cannot_be_read_is_told() -> None:
    with as_an_owner() as root:
        write(f"{root}/dist/a", "a", 0o000)
        with pytest.raises(CannotSaveError, match=r"dist/a cannot be read: Permission denied"):
            capture(outputs(root, "dist/**"))


HOSTILE = {
    "absolute": [("/etc/x", "f", 0o644, 1, "d")],
    "upward": [("dist/../../x", "f", 0o644, 1, "d")],
    "a dot": [("dist/./x", "f", 0o644, 1, "d")],
    "an empty part": [("dist//x", "f", 0o644, 1, "d")],
    "git": [("dist/.git/config", "f", 0o644, 1, "d")],
    "elsewhere": [("src/main.c", "f", 0o644, 1, "d")],
    "twice": [("dist/x", "f", 0o644, 1, "d"), ("dist/x", "f", 0o644, 1, "d")],
    "through a link": [("dist/x", "l", 0, 0, "/etc"), ("dist/x/y", "f", 0o644, 1, "d")],
    "below a file": [("dist/x", "f", 0o644, 1, "d"), ("dist/x/y", "f", 0o644, 1, "d")],
    "setuid": [("dist/x", "f", 0o4755, 1, "d")],
    "a device": [("dist/x", "b", 0o644, 1, "d")],
    "a negative size": [("dist/x", "f", 0o644, -1, "d")],
    "a link with bytes": [("dist/x", "l", 0, 7, "t")],
    "out of order": [("dist/y", "f", 0o644, 1, "d"), ("dist/x", "f", 0o644, 1, "d")],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_list_is_refused_whole(name: str) -> None:
    rows = [f"{p}\0{k}\0{m:o}\0{s}\0{c}" for p, k, m, s, c in HOSTILE[name]]
    declared = Declared(Project("app", "", (), None, (), {}), Globs(("dist/**",)), ("",))
    with pytest.raises(UnsoundError):
        unpack("\0".join(rows).encode(), declared.covers)
    assert unpack(b"dist/x\0f\x00644\x001\0d", declared.covers)


def test_an_archive_of_something_else_is_refused(root: str) -> None:
    """Whatever it holds, also when its digest is right: a name, a size, a kind, a bomb."""
    write(f"{root}/dist/a", b"\0" * 5000)
    these = outputs(root, "dist/**")
    items, _, archive, _, _ = capture(these)
    changes: list[dict[str, Any]] = [
        {"path": "dist/b"},
        {"size": 4999},
        {"size": 5001},
        {"mode": 0o600},
        {"kind": "l", "size": 0},
    ]
    for change in changes:
        wrong = [items[0], items[1]._replace(**change)]
        with pytest.raises(DamagedError):
            read(io.BytesIO(archive), wrong, lambda _: nullcontext())
    with pytest.raises(DamagedError):
        read(io.BytesIO(archive), items[:1], lambda _: nullcontext())
    with pytest.raises(DamagedError):
        read(io.BytesIO(archive[:-20]), items, lambda _: nullcontext())
    read(io.BytesIO(archive), items, lambda _: nullcontext())


def test_other_tools_read_the_archives(root: str) -> None:
    long = "n" * 60
    write(f"{root}/dist/{long}/{long}/file", "content", 0o755)
    os.symlink("t" * 150, f"{root}/dist/link")
    archive = capture(outputs(root, "dist/**"))[2]
    data = zstandard.ZstdDecompressor().stream_reader(archive).read()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        members = {member.name: member for member in tar}
        file = members[f"dist/{long}/{long}/file"]
        assert (file.mode, file.uid, file.mtime) == (0o755, 0, 0)
        content = tar.extractfile(file)
        assert content is not None
        assert content.read() == b"content"
        assert members["dist/link"].linkname == "t" * 150


class Disturbing(io.BytesIO):
    """What is written into it makes the output grow."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def write(self, data: Any, /) -> int:
        with open(self._path, "ab") as file:
            file.write(b"more")
        return super().write(data)


def test_an_output_that_still_changes_is_not_saved(root: str) -> None:
    write(f"{root}/dist/a", os.urandom(3_000_000))
    with pytest.raises(CannotSaveError, match="dist/a changed while it was saved"):
        outputs(root, "dist/**").capture(Disturbing(f"{root}/dist/a"))


def test_nothing_is_written_over_what_is_there(root: str) -> None:
    write(f"{root}/store/a", "shared")
    os.makedirs(f"{root}/dist")
    os.link(f"{root}/store/a", f"{root}/dist/a")
    with Places(root) as places, pytest.raises(FileExistsError), places.creating("dist/a"):
        pytest.fail("it was opened")
    assert Path(root, "store", "a").read_text() == "shared"
