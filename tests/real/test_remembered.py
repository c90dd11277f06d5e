"""What an earlier run read of the files is taken up exactly as far as stamps vouch for it."""

import os
import time
from pathlib import Path

import pytest

from tests.harness.workspaces import project, workspace
from vxwatch.cache.files import FileIndex
from vxwatch.cache.remembered import PLACE, Remembered
from vxwatch.graph.affected import Affected
from vxwatch.graph.tasks import plan
from vxwatch.model import Globs
from vxwatch.workspace.git import Git, Ignores

STAMP = (3, 10, 11, 12, 0o100644)


@pytest.fixture
def root(tmp_path: Path) -> str:
    """A workspace with one file that was written a while ago."""
    source = tmp_path / "p/src/a.txt"
    source.parent.mkdir(parents=True)
    source.write_text("one")
    return str(tmp_path)


def later() -> int:
    """A clock by which every file of the test was written long ago."""
    return time.time_ns() + 10**10


def opened(root: str) -> FileIndex:
    """The index of a workspace in a run of its own."""
    space = workspace(project("p", {"t": {"inputs": Globs(("**",))}}), root=root)
    affected = Affected(space, plan(space, ["p#t"]))
    listed = Git(root).tracked_and_untracked
    return FileIndex(root, affected, Ignores(root), listed, later, Remembered.load(root))


def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on no file can be read."""

    def refuse(*_: object) -> str:
        raise AssertionError("a file was read")

    monkeypatch.setattr("vxwatch.cache.content._digest", refuse)


def test_a_file_is_not_read_again(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = opened(root)
    inputs = first.inputs("p#t")
    first.remember()
    unread(monkeypatch)
    assert opened(root).inputs("p#t") == inputs


def test_a_file_that_moved_is(root: str) -> None:
    first = opened(root)
    inputs = first.inputs("p#t")
    first.remember()
    Path(root, "p/src/a.txt").write_text("two")
    again = opened(root).inputs("p#t")
    assert again.keys() == inputs.keys()
    assert again != inputs


def test_what_moved_just_now_is_not_remembered(root: str) -> None:
    space = workspace(project("p", {"t": {"inputs": Globs(("**",))}}), root=root)
    affected = Affected(space, plan(space, ["p#t"]))
    index = FileIndex(root, affected, Ignores(root), Git(root).tracked_and_untracked)
    os.utime(f"{root}/p/src/a.txt")
    index.inputs("p#t")
    index.remember()
    status = os.lstat(f"{root}/p/src/a.txt")
    stamp = (
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
        status.st_mode,
    )
    assert Remembered.load(root).digest("p/src/a.txt", stamp) is None


def test_a_few_small_files_are_read_again_rather_than_all_written_down(root: str) -> None:
    for number in range(300):
        Path(root, f"p/src/{number}.txt").write_text("x")
    first = opened(root)
    first.inputs("p#t")
    first.remember()
    for name, text, kept in (("1", "small", False), ("2", "x" * (1 << 20), True)):
        before = Path(root, PLACE).read_bytes()
        Path(root, f"p/src/{name}.txt").write_text(text)
        index = opened(root)
        index.inputs("p#t")
        index.remember()
        assert (Path(root, PLACE).read_bytes() != before) == kept


def test_other_files_stay_remembered_while_they_exist(root: str) -> None:
    Path(root, "b").write_text("b")
    Remembered().save(root, [("b", STAMP, "-b"), ("gone", STAMP, "-g")])
    Remembered.load(root).save(root, [("a", STAMP, "-a")])
    found = Remembered.load(root)
    assert [found.digest(path, STAMP) for path in ("a", "b", "gone")] == ["-a", "-b", None]


def test_names_of_any_bytes(root: str) -> None:
    odd = os.fsdecode(b"p/\xff\n 1 \xc3\xa9")
    Remembered().save(root, [(odd, STAMP, "-a"), ("b", STAMP, "-b")])
    assert Remembered.load(root).digest(odd, STAMP) == "-a"
    assert Remembered.load(root).digest("b", STAMP) == "-b"


@pytest.mark.parametrize("at", range(-40, 80, 3))
def test_a_damaged_record_is_an_empty_one(root: str, at: int) -> None:
    Remembered().save(root, [("p/src/a.txt", STAMP, "-a"), ("b", STAMP, "-b")])
    place = Path(root, PLACE)
    content = bytearray(place.read_bytes())
    content[at % len(content)] ^= 1
    place.write_bytes(bytes(content))
    assert Remembered.load(root).digest("p/src/a.txt", STAMP) is None


@pytest.mark.parametrize("length", [0, 5, 30, 60])
def test_so_is_a_cut_one(root: str, length: int) -> None:
    Remembered().save(root, [("p/src/a.txt", STAMP, "-a")])
    place = Path(root, PLACE)
    place.write_bytes(place.read_bytes()[:length])
    assert Remembered.load(root).digest("p/src/a.txt", STAMP) is None


def test_a_record_that_cannot_be_written_leaves_the_old_one(root: str) -> None:
    Remembered().save(root, [("b", STAMP, "-b")])
    before = Path(root, PLACE).read_bytes()
    with pytest.raises(ValueError, match="surrogates"):
        Remembered().save(root, [("\ud800", STAMP, "-x")])
    assert Path(root, PLACE).read_bytes() == before
    assert os.listdir(os.path.dirname(f"{root}/{PLACE}")) == ["files"]
