"""Durations: every accepted form, every refusal with its advice, and the way back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vxwatch.durations import LONGEST, format_duration, parse_duration


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("500ms", 0.5),
        ("30s", 30.0),
        ("1.5s", 1.5),
        ("2m", 120.0),
        ("1h", 3600.0),
        ("0", 0.0),
        (0, 0.0),
        ("0ms", 0.0),
        ("596h", LONGEST),
    ],
    ids=repr,
)
def test_accepts(written: object, seconds: float) -> None:
    assert parse_duration(written) == seconds


@pytest.mark.parametrize(
    ("written", "advice"),
    [
        ("30", 'expected a unit, as in "30s" or "30ms"'),
        (30, 'expected a unit, as in "30s" or "30ms"'),
        (1.5, 'expected a unit, as in "1.5s" or "1.5ms"'),
        (-1, "not negative"),
        ("-1s", "not negative"),
        ("-0.5", "not negative"),
        ("597h", "at most 596h"),
        ("9" * 400 + "s", "at most 596h"),
        ("soon", 'expected a duration: "500ms"'),
        ("1 s", "expected a duration"),
        (" 1s", "expected a duration"),
        ("1s\n", "expected a duration"),
        ("1S", "expected a duration"),
        ("1d", "expected a duration"),
        ("1m30s", "expected a duration"),
        ("\N{ARABIC-INDIC DIGIT ONE}s", "expected a duration"),
        ("", "expected a duration"),
        (True, "expected a duration"),
        (False, "expected a duration"),
        (float("nan"), "expected a duration"),
        (float("inf"), "expected a duration"),
        (None, "expected a duration"),
        (["1s"], "expected a duration"),
    ],
    ids=repr,
)
def test_refuses(written: object, advice: str) -> None:
    with pytest.raises(ValueError, match=advice):
        parse_duration(written)


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0, "0ms"),
        (0.25, "250ms"),
        (1.0, "1s"),
        (1.5, "1.5s"),
        (60.0, "1m"),
        (90.0, "90s"),
        (7200.0, "2h"),
    ],
)
def test_formats(seconds: float, written: str) -> None:
    assert format_duration(seconds) == written


@given(st.integers(min_value=0, max_value=int(LONGEST * 1000)))
def test_what_is_formatted_parses_to_the_same(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds / 1000)) == pytest.approx(
        milliseconds / 1000
    )
