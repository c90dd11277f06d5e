"""The store keeps what was saved, whole or not at all, whatever happens to its files."""

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from vxwatch.cache.archive import DamagedError
from vxwatch.cache.database import NAME, CacheError
from vxwatch.cache.declared import Declared
from vxwatch.cache.log import Log
from vxwatch.cache.manifest import pack
from vxwatch.cache.outputs import Outputs
from vxwatch.cache.store import ARTIFACTS, TEMPORARY, Entry, Store, pack_presence, unpack_presence
from vxwatch.model import Globs, Project


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "w" / "dist").mkdir(parents=True)
    (tmp_path / "w" / "dist" / "a").write_text("a" * 5000)
    return str(tmp_path / "w")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(str(tmp_path / "cache")) as found:
        yield found


def outputs(root: str) -> Outputs:
    declared = Declared(Project("app", "", (), None, (), {}), Globs(("dist/**",)), ("",))
    return Outputs(root, declared, lambda _: (), time.time_ns)


def save(store: Store, root: str, key: str, text: bytes = b"said\n") -> Entry:
    log = Log()
    log.feed("stdout", text)
    with store.writing() as pending:
        items, presence, digest, size = outputs(root).capture(pending.file)
        entry = Entry(key, "app#build", 1, 2.0, digest, size, pack(items), log.pack())
        store.save(entry, root, presence, pending)
    return entry


def artifacts(store: Store) -> list[str]:
    return [
        os.path.join(directory, name)
        for directory, _, names in os.walk(f"{store.directory}/{ARTIFACTS}")
        for name in names
    ]


def test_what_was_saved_is_found(store: Store, root: str) -> None:
    entry = save(store, root, "k")
    assert store.entry("k") == entry
    assert store.entry("other") is None
    assert entry.chunks() == [("stdout", b"said\n")]
    with store.artifact(entry) as file:
        assert file is not None
    key, stamps = store.presences(root)["app#build"]
    presence = unpack_presence(stamps)
    assert key == "k"
    assert presence is not None
    assert {*presence.paths} == {"dist", "dist/a"}
    assert os.listdir(f"{store.directory}/{TEMPORARY}") == []


def test_what_is_on_disk_is_forgotten_and_noted(store: Store, root: str) -> None:
    save(store, root, "k")
    _, stamps = store.presences(root)["app#build"]
    presence = unpack_presence(stamps)
    assert presence is not None
    store.forget(root, "app#build")
    assert store.presences(root) == {}
    assert pack_presence(presence) == stamps
    store.note(root, "app#build", "k", stamps)
    assert store.presences(root) == {"app#build": ("k", stamps)}
    assert store.presences("/other") == {}


def test_a_block_that_fails_leaves_nothing(store: Store, root: str) -> None:
    def half() -> None:
        with store.writing() as pending:
            outputs(root).capture(pending.file)
            raise OSError(28, "No space left on device")

    with pytest.raises(CacheError, match="No space left"):
        half()
    assert os.listdir(f"{store.directory}/{TEMPORARY}") == []
    assert artifacts(store) == []


@pytest.mark.parametrize("how", ["cut", "flip", "gone", "empty"])
def test_a_damaged_artifact_is_told(store: Store, root: str, how: str) -> None:
    entry = save(store, root, "k")
    [path] = artifacts(store)
    content = Path(path).read_bytes()
    if how == "gone":
        os.unlink(path)
    else:
        changed = {"cut": content[:-1], "flip": content[:9] + b"!" + content[10:], "empty": b""}
        Path(path).write_bytes(changed[how])
    with pytest.raises(DamagedError), store.artifact(entry):
        pytest.fail("it was taken for whole")
    store.drop("k")
    assert store.entry("k") is None
    assert artifacts(store) == []


@pytest.mark.parametrize("column", ["items", "log", "artifact", "size", "task"])
def test_a_damaged_row_is_a_miss_and_goes(store: Store, root: str, column: str) -> None:
    save(store, root, "k")
    with store.changing() as connection:
        connection.execute(f"UPDATE entries SET {column} = 'damaged'")
    assert store.entry("k") is None
    with store.reading() as connection:
        assert connection.execute("SELECT count(*) FROM entries").fetchone() == (0,)


def test_an_artifact_that_two_entries_share_stays_for_the_other(store: Store, root: str) -> None:
    save(store, root, "one")
    entry = save(store, root, "two")
    assert len(artifacts(store)) == 1
    store.drop("one")
    with store.artifact(entry) as file:
        assert file is not None
    store.drop("two")
    assert artifacts(store) == []


def test_a_database_that_is_none_is_made_anew(tmp_path: Path, root: str) -> None:
    with Store(str(tmp_path / "c")) as first:
        assert not first.renewed
        save(first, root, "k")
    (tmp_path / "c" / NAME).write_bytes(b"no database" * 1000)
    with Store(str(tmp_path / "c")) as second:
        assert second.renewed
        assert second.entry("k") is None
        save(second, root, "k")
    with Store(str(tmp_path / "c")) as third:
        assert not third.renewed
        assert third.entry("k") is not None


def test_damage_inside_the_database_is_trouble_once(tmp_path: Path, root: str) -> None:
    with Store(str(tmp_path / "c")) as store:
        for number in range(200):
            save(store, root, f"{number:032}")
    path = tmp_path / "c" / NAME
    content = bytearray(path.read_bytes())
    content[4096 * 2 :] = b"\xff" * (len(content) - 4096 * 2)
    path.write_bytes(content)
    store = Store(str(tmp_path / "c"))
    with pytest.raises(CacheError):
        store.entries([f"{number:032}" for number in range(200)])
    store.close()
    with Store(str(tmp_path / "c")) as after:
        save(after, root, "k")
        assert after.entry("k") is not None


def test_a_newer_database_is_left_alone(tmp_path: Path) -> None:
    Store(str(tmp_path / "c")).close()
    with sqlite3.connect(tmp_path / "c" / NAME) as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    before = (tmp_path / "c" / NAME).read_bytes()
    with pytest.raises(CacheError, match="newer vx"):
        Store(str(tmp_path / "c"))
    assert (tmp_path / "c" / NAME).read_bytes() == before


def test_an_older_database_is_made_anew(tmp_path: Path, root: str) -> None:
    (tmp_path / "c").mkdir()
    with sqlite3.connect(tmp_path / "c" / NAME) as connection:
        connection.execute("CREATE TABLE entries (strange)")
    connection.close()
    with Store(str(tmp_path / "c")) as store:
        save(store, root, "k")
        assert store.entry("k") is not None


def test_a_place_that_cannot_be_made_is_trouble(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheError, match="file"):
        Store(str(tmp_path / "file" / "cache"))


def test_git_does_not_see_the_cache(tmp_path: Path) -> None:
    Store(str(tmp_path / ".vx" / "cache")).close()
    Store(str(tmp_path / "elsewhere")).close()
    assert (tmp_path / ".vx" / ".gitignore").read_text() == "*\n"
    assert not (tmp_path / ".vx" / "cache" / ".gitignore").exists()
    assert (tmp_path / "elsewhere" / ".gitignore").read_text() == "*\n"


def test_what_a_crash_left_half_written_goes_with_the_first_that_is_written(store: Store) -> None:
    place = f"{store.directory}/{TEMPORARY}"
    os.makedirs(place)
    held, left = f"{place}/1.held", f"{place}/1.left"
    for path in (held, left):
        with open(path, "wb") as file:
            file.write(b"half")
    with open(held, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with store.writing() as pending:
            assert sorted(os.listdir(place)) == sorted(["1.held", os.path.basename(pending.path)])
        assert os.listdir(place) == ["1.held"]


def test_who_tidies_up_takes_no_file_from_who_begins_to_write(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody tidies up after the file was made, and before it was locked."""
    lock = fcntl.flock
    at_work: list[object] = []

    def late(file: object, how: int) -> None:
        if how == fcntl.LOCK_EX and not at_work:
            at_work.append(file)
            store.tidy()
        lock(file, how)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", late)
    with store.writing() as pending:
        assert at_work
        assert os.path.exists(pending.path)
