"""What ends a command is told once, with the right code, and without a secret."""

import os

import pytest

from vxwatch.cli.failures import report
from vxwatch.errors import ConfigError, Problem, UserError
from vxwatch.masking import Masker

MASKER = Masker([b"tok-9f3b1c77d2"])


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        (
            UserError("x", "no tok-9f3b1c77d2", "try tok-9f3b1c77d2", 7),
            7,
            "vx: no ***\n  try ***\n",
        ),
        (
            ConfigError((Problem("a", 1, "b", "found tok-9f3b1c77d2"),)),
            2,
            "a:1: b: found ***\n",
        ),
        (
            ExceptionGroup("g", [UserError("x", "one"), UserError("y", "tok-9f3b1c77d2")]),
            2,
            "vx: one\nvx: ***\n",
        ),
    ],
)
def test_the_users_errors_are_a_line_or_two(
    fault: Exception, code: int, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert report(fault, MASKER) == code
    assert capfd.readouterr() == ("", said)


def test_a_fault_of_ours_has_its_stack(capfd: pytest.CaptureFixture[str]) -> None:
    value = "tok-" + "9f3b1c77d2"
    with pytest.raises(KeyError) as caught:
        os.environ[value]
    assert report(ExceptionGroup("g", [caught.value, UserError("x", "y")]), MASKER) == 70
    told = capfd.readouterr().err
    assert "vx: internal error" in told
    assert "test_failures.py" in told
    assert "KeyError: '***'" in told
    assert value not in told
