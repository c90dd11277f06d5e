"""What a summary repeats of what a server printed."""

from vxwatch.output.lastwords import LONGEST, MOST, LastWords


def test_the_last_lines_are_kept_however_they_came() -> None:
    words = LastWords()
    for number in range(30):
        words.add("a", b"%d\n" % number)
    words.add("a", b"x\n\ny\n")
    words.add("b", b"later\n")
    assert words.of("a").split(b"\n")[-4:] == [b"x", b"", b"y", b""]
    assert len(words.of("a").splitlines()) == MOST


def test_a_flood_is_cut() -> None:
    words = LastWords()
    words.add("a", b"\n".join([b"z" * 9999] * 99) + b"\n")
    words.add("b", b"later\n")
    assert words.of("a") == (b"z" * LONGEST + b"\n") * MOST


def test_nothing_is_repeated_right_after_it_was_said() -> None:
    words = LastWords()
    words.add("b", b"earlier\n")
    words.add("a", b"last\n")
    assert (words.of("a"), words.of("c")) == (b"", b"")
    assert words.of("b") == b"earlier\n"
