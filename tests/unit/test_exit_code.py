"""The exit code of a run."""

import pytest

from vxwatch.events import Outcome
from vxwatch.session.result import exit_code

GOOD = Outcome("p#a", "ran", 0)


@pytest.mark.parametrize(
    ("outcomes", "signal", "code"),
    [
        ([], None, 0),
        ([GOOD, Outcome("p#b", "fresh"), Outcome("p#c", "ready")], None, 0),
        ([GOOD, Outcome("p#b", "failed", 3)], None, 3),
        ([Outcome("p#b", "failed", 137), Outcome("p#c", "skipped", blocked_by="p#b")], None, 137),
        ([Outcome("p#b", "failed", 3), Outcome("p#c", "failed", 4)], None, 1),
        ([Outcome("p#b", "failed")], None, 1),
        ([Outcome("p#b", "failed", 3)], 2, 130),
        ([GOOD], 15, 143),
        ([GOOD], 1, 129),
    ],
)
def test_the_exit_code_follows_from_outcomes_and_signal(
    outcomes: list[Outcome], signal: int | None, code: int
) -> None:
    assert exit_code(outcomes, signal) == code
