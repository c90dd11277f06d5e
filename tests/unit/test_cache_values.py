"""Logs, lists of items and sizes are what they were when they come back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vxwatch.cache.log import Log, unpack
from vxwatch.durations import parse_age
from vxwatch.sizes import format_size, parse_size

CHUNKS = st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.binary(max_size=50)))


@given(CHUNKS)
def test_a_log_comes_back_as_it_was(chunks: list[tuple[str, bytes]]) -> None:
    log = Log()
    for stream, data in chunks:
        log.feed(stream, data)  # type: ignore[arg-type]
    found = unpack(log.pack())
    for name in ("stdout", "stderr"):
        expected = b"".join(data for stream, data in chunks if stream == name)
        assert b"".join(data for stream, data in found if stream == name) == expected
    assert b"".join(data for _, data in found) == b"".join(data for _, data in chunks)


@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1), st.integers(2, 60))
def test_of_a_long_log_both_ends_are_kept(chunks: list[bytes], most: int) -> None:
    log = Log(most)
    for data in chunks:
        log.feed("stdout", data)
    whole = b"".join(chunks)
    kept = b"".join(data for _, data in unpack(log.pack()))
    half = most // 2
    if len(whole) <= 2 * half:
        assert kept == whole
    else:
        missing = len(whole) - 2 * half
        line = b"\n[vx: %d bytes of the output were not kept]\n" % missing
        assert kept == whole[:half] + line + whole[-half:]


@pytest.mark.parametrize("data", [b"x", b"(\xb5/\xfd", b"(\xb5/\xfd\x04\x00)\x00\x00abcde"])
def test_what_is_no_log_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        unpack(data)


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("1K", 1024), ("1.5M", 1572864), ("10G", 10 << 30), ("2TiB", 2 << 40)],
)
def test_sizes_with_units(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["10", "-1G", "G", "1 G", "1X", "", None, True, "1e3M"])
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="expected a"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0"), (812, "812 B"), (1024, "1K"), (1500, "1.5K"), (10 << 30, "10G")]
)
def test_sizes_are_readable(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("text", "seconds"), [("30d", 2_592_000), ("2w", 1_209_600), ("12h", 43_200), ("0", 0)]
)
def test_ages_with_units(text: object, seconds: float) -> None:
    assert parse_age(text) == seconds


@pytest.mark.parametrize("text", ["30", "d", "-1d", "1y", None])
def test_what_is_no_age_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="expected an age"):
        parse_age(text)
