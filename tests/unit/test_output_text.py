"""The words for durations, outcomes and cycles."""

import pytest

from vxwatch.events import Outcome
from vxwatch.output import text


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 ms"),
        (0.0484, "48 ms"),
        (0.9996, "1.00 s"),
        (1.239, "1.24 s"),
        (59.9999, "1 m 00 s"),
        (185, "3 m 05 s"),
    ],
)
def test_a_duration_reads_as_a_person_says_it(seconds: float, said: str) -> None:
    assert text.duration(seconds) == said


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (Outcome("a#b", "ran", 0), "a#b ran"),
        (Outcome("a#b", "failed", 3), "a#b failed - exit code 3"),
        (Outcome("a#b", "failed", 137), "a#b failed - exit code 137 (SIGKILL)"),
        (
            Outcome("a#b", "failed", 124, detail="timed out after 1s"),
            "a#b failed - timed out after 1s - exit code 124",
        ),
        (Outcome("a#b", "skipped", blocked_by="c#d"), "a#b skipped, because c#d did not succeed"),
    ],
)
def test_an_outcome_names_the_task_the_cause_and_the_code(result: Outcome, line: str) -> None:
    assert text.outcome(result) == line


def test_a_cycle_counts_what_ran_and_names_what_changed() -> None:
    outcomes = [
        Outcome("a#b", "ran", 0),
        Outcome("a#c", "failed", 1),
        Outcome("a#d", "skipped", blocked_by="a#c"),
    ]
    line = text.cycle(12, outcomes, 31, 0.048, ["src/app.ts"])
    assert line == "cycle 12: 1 ran, 1 failed, 1 skipped, 31 kept, 48 ms - src/app.ts"
    back = Outcome("a#e", "restored")
    assert text.cycle(2, [back], 1, 0.0, ()) == "cycle 2: 0 ran, 0 failed, 1 restored, 1 kept, 0 ms"
    assert text.cycle(1, [], 2, 0.0, ()) == "cycle 1: 0 ran, 0 failed, 2 kept, 0 ms"


def test_many_changed_paths_are_counted_after_the_first_few() -> None:
    assert text.changed(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def test_a_file_name_cannot_move_the_cursor() -> None:
    shown = text.printable("a\x1b[2Jb\nc\udcff")
    assert "\x1b" not in shown
    assert "\n" not in shown
    assert shown.encode()
