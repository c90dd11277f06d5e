"""When output says that a server is ready."""

import pytest

from vxwatch.session.ready import ReadyLine


@pytest.mark.parametrize(
    ("pattern", "pieces", "at"),
    [
        ("READY", [b"starting\n", b"READY 1\n"], 1),
        ("READY", [b"REA", b"DY"], 1),
        ("Local:", [b"\x1b[32m  Lo\x1b[1mcal\x1b[22m:  http\x1b[39m"], 0),
        (r"^ready$", [b"not ready\n", b"ready\r\n"], 1),
        ("ok", [b"o\n", b"k\n"], None),
        ("ok", [b"\xff\xfe ok"], 0),
    ],
)
def test_the_pattern_is_found_where_it_is_printed(
    pattern: str, pieces: list[bytes], at: int | None
) -> None:
    line = ReadyLine(pattern)
    found = [line.feed("stdout", piece) for piece in pieces]
    assert (found.index(True) if True in found else None) == at


def test_the_two_streams_are_not_mixed_into_one_line() -> None:
    line = ReadyLine("READY")
    assert not line.feed("stdout", b"REA")
    assert not line.feed("stderr", b"DY")
    assert line.feed("stdout", b"DY")
