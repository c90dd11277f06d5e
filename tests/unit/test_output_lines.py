"""Lines out of arbitrary cuts: no byte is lost, none is added, none waits for ever."""

from hypothesis import given
from hypothesis import strategies as st

from vxwatch.output.lines import LONGEST, Lines


@given(st.lists(st.binary(max_size=40)))
def test_every_byte_comes_out_once_and_in_order(pieces: list[bytes]) -> None:
    lines = Lines()
    out = [lines.feed(piece) for piece in pieces]
    assert all(not piece or piece.endswith(b"\n") for piece in out)
    assert b"".join([*out, lines.end()]) == b"".join(pieces)


def test_a_line_without_end_is_passed_on_before_it_fills_memory() -> None:
    lines = Lines()
    assert lines.feed(b"x" * LONGEST) == b""
    assert len(lines.feed(b"x")) == LONGEST + 1
    assert lines.end() == b""
