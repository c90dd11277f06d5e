"""Whether a file that makes the workspace changed, while it is loaded and afterwards."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.waiting import wait_for
from vxwatch.session.configs import ConfigFiles

CONFIG = "packages/a/vx.toml"


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "packages/a").mkdir(parents=True)
    (tmp_path / CONFIG).write_text("one")
    return str(tmp_path)


def _later(root: str) -> int:
    """A time that the file system's clock has not reached for what is there."""

    def old() -> bool:
        return os.stat(root).st_ctime_ns < time.time_ns() - 50_000_000

    os.utime(root)
    wait_for(old, "the files are old enough")
    return time.time_ns()


def _rewrite(root: str) -> None:
    Path(root, CONFIG).write_text("two")


def _new_file(root: str) -> None:
    Path(root, "packages/a/package.json").write_text("{}")


def _new_member(root: str) -> None:
    Path(root, "packages/b").mkdir()


def _remove(root: str) -> None:
    Path(root, CONFIG).unlink()


@pytest.mark.parametrize("edit", [_rewrite, _new_file, _new_member, _remove])
def test_what_happened_while_the_workspace_was_loaded_is_seen(
    root: str, edit: Callable[[str], None]
) -> None:
    since = _later(root)
    edit(root)
    configs = ConfigFiles(root, [CONFIG])
    assert configs.stale(since, ["packages"])


def test_what_was_there_before_is_not_stale(root: str) -> None:
    since = _later(root)
    configs = ConfigFiles(root, [CONFIG])
    assert not configs.stale(since, ["packages"])
    assert not configs.replace([CONFIG], since)


def test_a_file_that_was_not_known_may_have_changed_since_it_was_read(root: str) -> None:
    configs = ConfigFiles(root, [])
    since = _later(root)
    _rewrite(root)
    assert configs.replace([CONFIG], since)
    assert not configs.replace([CONFIG], _later(root))
    assert configs.changed([CONFIG]) == frozenset()


def test_a_directory_that_is_hinted_at_stands_for_the_configs_in_it(root: str) -> None:
    configs = ConfigFiles(root, [CONFIG])
    assert configs.changed(["packages"]) == frozenset()
    _rewrite(root)
    assert configs.changed(["packages"]) == {CONFIG}
    assert configs.rescan("") == frozenset()


def test_a_file_that_was_away_only_while_the_workspace_was_loaded_is_seen(root: str) -> None:
    other = "vx.toml"
    Path(root, other).write_text("")
    configs = ConfigFiles(root, [CONFIG, other])
    since = _later(root)
    # It was taken away, the workspace was loaded without it, and it is here again as it was.
    assert configs.replace([other], since)
    assert not configs.replace([CONFIG, other], since)
    assert not configs.replace([other, CONFIG], since)


def test_a_file_that_does_not_count_any_more_is_asked_about_once(root: str) -> None:
    configs = ConfigFiles(root, [CONFIG, "vx.toml"])
    since = _later(root)
    assert configs.replace(["vx.toml"], since)
    for _ in range(2):
        assert not configs.replace(["vx.toml"], since)


def test_a_file_that_is_away_still_is_a_change_when_it_comes_back(root: str) -> None:
    configs = ConfigFiles(root, [CONFIG, "vx.toml"])
    since = _later(root)
    Path(root, CONFIG).unlink()
    assert not configs.replace(["vx.toml"], since)
    Path(root, CONFIG).write_text("one")
    assert configs.changed([CONFIG]) == {CONFIG}


def test_a_file_of_a_fault_that_was_mended_before_it_was_known_is_late(root: str) -> None:
    configs = ConfigFiles(root, [])
    since = _later(root)
    assert configs.late([CONFIG], since) == []
    other = ConfigFiles(root, [])
    _rewrite(root)
    assert other.late([CONFIG], since) == [CONFIG]
    assert other.late([CONFIG], since) == []


def test_a_file_of_a_fault_is_late_also_where_it_was_known_from_before(root: str) -> None:
    configs = ConfigFiles(root, [CONFIG])
    Path(root, CONFIG).unlink()
    configs.replace([], _later(root))  # it went, and may be anywhere by now
    Path(root, CONFIG).write_text("a fault")
    assert configs.changed([CONFIG]) == {CONFIG}
    since = _later(root)
    assert configs.late([CONFIG], since) == []  # it holds what was read
    _rewrite(root)
    assert configs.late([CONFIG], since) == [CONFIG]
    assert configs.late([CONFIG], since) == []
    Path(root, CONFIG).write_text("another")
    assert configs.late([CONFIG], since) == [CONFIG]
    Path(root, CONFIG).unlink()
    for expected in ([CONFIG], []):
        assert configs.late([CONFIG], since) == expected


@pytest.mark.parametrize("rename", [False, True])
def test_a_known_file_that_was_another_one_while_it_was_read_is_seen(
    root: str, rename: bool
) -> None:
    configs = ConfigFiles(root, [CONFIG])
    since = _later(root)
    assert not configs.replace([CONFIG], since)
    for text in ("", "one"):  # as who truncates what he writes
        if rename:
            Path(root, "beside").write_text(text)
            Path(root, "beside").rename(Path(root, CONFIG))
        else:
            Path(root, CONFIG).write_text(text)
    assert configs.replace([CONFIG], since) == {CONFIG}
    assert not configs.replace([CONFIG], _later(root))
    assert configs.changed([CONFIG]) == frozenset()


def test_so_is_one_that_was_another_one_before_the_reading_began(root: str) -> None:
    configs = ConfigFiles(root, [CONFIG])
    Path(root, CONFIG).write_text("")
    since = _later(root)
    assert configs.replace([CONFIG], since) == {CONFIG}  # it was read as it is
    Path(root, CONFIG).write_text("one")
    assert configs.changed([CONFIG]) == {CONFIG}
    since = _later(root)
    assert not configs.replace([CONFIG], since)
