"""The last output of a server: what is kept, and where."""

from hypothesis import given
from hypothesis import strategies as st

from vxwatch.session.tail import KEPT, Tail

PIECES = st.lists(
    st.one_of(
        st.binary(max_size=40),
        st.builds(lambda line, count: line * count, st.binary(max_size=9), st.integers(0, KEPT)),
    ),
    max_size=6,
)


@given(PIECES)
def test_what_is_kept_is_the_end_of_what_was_written(pieces: list[bytes]) -> None:
    tail, whole = Tail(), b""
    for piece in pieces:
        tail.add(piece)
        whole += piece
        assert tail.end == len(whole)
        assert tail.read(tail.start, len(whole)) == whole[tail.start :]
        kept = tail.end - tail.start
        assert min(len(whole), KEPT) <= kept <= 2 * KEPT


@given(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r\n"]), max_size=12), st.integers(0, 6))
def test_the_last_lines_are_those_that_a_reader_counts(parts: list[bytes], lines: int) -> None:
    tail, whole = Tail(), b"".join(parts)
    tail.add(whole)
    expected = whole.split(b"\n")
    expected = [line + b"\n" for line in expected[:-1]] + expected[-1:] * bool(expected[-1])
    start = max(0, len(expected) - lines)
    assert tail.read(tail.last(lines), len(whole)) == b"".join(expected[start:])


def test_who_waits_is_called_for_each_piece() -> None:
    tail, calls = Tail(), []
    tail.heard.add(lambda: calls.append(tail.end))
    tail.add(b"ab")
    tail.add(b"c")
    assert calls == [2, 3]
