"""What one path is taken to be, also while others change it."""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import xxhash

from vxwatch.cache.content import UNREAD, UNREADABLE, Seen, glance, look

NOW = time.time_ns


def later() -> int:
    return time.time_ns() + 10**10


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    return path


def seen(path: Path, before: Seen | None = None, clock: Callable[[], int] = later) -> Seen:
    found = look(str(path), before, clock)
    assert found is not None
    return found


def while_opening(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], times: int) -> None:
    """Let `act` happen before each of the first openings."""
    real, left = os.open, [times]

    def opening(path: str, flags: int) -> int:
        if left[0]:
            left[0] -= 1
            act()
        return real(path, flags)

    monkeypatch.setattr(os, "open", opening)


@pytest.mark.parametrize("size", [0, 1, 4096, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3_000_000])
def test_the_digest_is_that_of_all_bytes(file: Path, size: int) -> None:
    data = os.urandom(size)
    file.write_bytes(data)
    assert seen(file).digest == "-" + xxhash.xxh3_128_hexdigest(data)


def test_a_glance_reads_nothing(file: Path, tmp_path: Path) -> None:
    found = glance(str(file))
    assert found is not None
    assert (found.digest, found.settled) == (UNREAD, False)
    assert glance(str(tmp_path)) is None
    assert glance(str(tmp_path / "none")) is None
    assert glance(str(file / "below")) is None


def test_stamps_older_than_the_reading_spare_another(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = seen(file)
    assert first.settled
    monkeypatch.setattr(os, "open", pytest.fail)
    assert seen(file, first) is first


def test_stamps_as_young_as_the_reading_prove_nothing(file: Path) -> None:
    first = seen(file, clock=lambda: file.stat().st_ctime_ns)
    assert not first.settled
    forged = Seen(first.stamp, "-other", settled=False)
    assert seen(file, forged).digest == first.digest


def test_whole_seconds_are_trusted_two_seconds_later(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = 10**9
    status = os.lstat(file)
    fields = list(status)
    coarse = os.stat_result(
        fields,
        {"st_mtime_ns": 1000 * second, "st_ctime_ns": 1000 * second, "st_atime_ns": 0},
    )
    monkeypatch.setattr(os, "lstat", lambda _: coarse)
    monkeypatch.setattr(os, "fstat", lambda _: coarse)
    assert not seen(file, clock=lambda: 1001 * second).settled
    assert seen(file, clock=lambda: 1003 * second).settled


def test_a_file_that_vanishes_while_it_is_opened_is_gone(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    while_opening(monkeypatch, lambda: file.unlink(missing_ok=True), 9)
    assert look(str(file), None, NOW) is None


def test_a_file_replaced_while_it_is_read_is_read_again(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"two!")
    while_opening(monkeypatch, lambda: os.replace(other, file), 1)
    found = seen(file)
    assert found.digest == "-" + xxhash.xxh3_128_hexdigest(b"two!")
    assert found.settled


def test_a_file_that_becomes_a_link_or_a_pipe_while_it_is_opened(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def become_link() -> None:
        file.unlink()
        file.symlink_to("elsewhere")

    while_opening(monkeypatch, become_link, 1)
    assert seen(file).digest == "l" + xxhash.xxh3_128_hexdigest(b"elsewhere")

    def become_pipe() -> None:
        file.unlink()
        os.mkfifo(file)

    file.unlink()
    file.write_bytes(b"again")
    while_opening(monkeypatch, become_pipe, 1)
    assert look(str(file), None, NOW) is None


def test_a_file_that_never_rests_is_never_settled(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def grow() -> None:
        with file.open("ab") as stream:
            stream.write(b"+")

    while_opening(monkeypatch, grow, 99)
    assert not seen(file).settled


@pytest.mark.parametrize("refused", [errno.EACCES, errno.EIO])
def test_what_cannot_be_read_moves_with_its_stamps(
    file: Path, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    def opening(path: str, flags: int) -> int:
        raise OSError(refused, os.strerror(refused))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", opening)
        first = seen(file)
        assert first.digest.startswith(UNREADABLE)
        assert not first.settled
        assert seen(file, first) == first
        file.write_bytes(b"more")
        assert seen(file, first).digest != first.digest
    assert seen(file).digest.startswith("-")


def test_a_path_that_may_not_be_looked_at_is_unreadable(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> os.stat_result:
        raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(os, "lstat", refuse)
    assert seen(file).digest.startswith(UNREADABLE)


@pytest.mark.parametrize("target", ["d", "../d", "e"])
def test_nothing_lies_behind_a_link_that_leads_to_itself(tmp_path: Path, target: str) -> None:
    (tmp_path / "d").symlink_to(target.replace("..", f"../{tmp_path.name}"))
    (tmp_path / "e").symlink_to("d")
    below = str(tmp_path / "d" / "file")
    assert glance(below) is None
    assert look(below, None, later) is None
    assert glance(str(tmp_path / "d")) is not None


def test_a_pipe_is_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(os, "open", pytest.fail)
    assert look(str(tmp_path / "pipe"), None, NOW) is None
