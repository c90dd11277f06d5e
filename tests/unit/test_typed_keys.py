"""Which of the bytes that came at once are keys."""

import pytest

from vxwatch.process.keyboard import typed


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"r", "r"),
        (b"R", "r"),
        (b"s2", "s2"),
        (b"\x1b[A", ""),
        (b"\x1bOq", ""),
        (b"r\x1bOq", "r"),
        ("é".encode(), ""),
        (b"\xff", ""),
        (b"q" * 17, ""),
        (b"a text with q in it\n", ""),
    ],
)
def test_only_what_a_person_typed_counts(data: bytes, keys: str) -> None:
    assert typed(data) == keys
