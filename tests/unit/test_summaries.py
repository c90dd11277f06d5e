"""Markdown and traces hold what happened, whatever the names are."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from vxwatch.events import Outcome, RunEnded, TaskEnded
from vxwatch.output.record import Record
from vxwatch.output.summaries import markdown, summary, trace


class Sink:
    """Takes events, and does nothing."""

    def __call__(self, event: object, /) -> None:
        pass


def record(*ended: tuple[Outcome, float]) -> Record:
    """A run whose tasks ended at these times."""
    now = [0.0]
    found = Record(lambda: now[0]).before(Sink())  # type: ignore[arg-type]
    for outcome, at in ended:
        now[0] = at
        found(TaskEnded(outcome))
    found(RunEnded(tuple(outcome for outcome, _ in ended), now[0], None))
    return found


def test_names_break_no_table() -> None:
    outcome = Outcome("a`|b#t", "failed", 1, 2.0, detail="<b> | `x` *y*\n[z](u)")
    text = markdown(summary(record((outcome, 3.0)), "vx run `t`|", 1))
    assert text.splitlines()[-1] == (
        "| `a'\\|b#t` | failed | 2.00 s |  | "
        "\\<b\\> \\| \\`x\\` \\*y\\*\\\\n\\[z\\]\\(u\\); exit code 1 |"
    )


def test_what_was_fresh_is_counted_and_no_more() -> None:
    text = markdown(summary(record((Outcome("a#t", "fresh"), 1.0)), "vx run t", 0))
    assert text == "### `vx run t`\n\n1 fresh in 1.00 s\n"


times = st.floats(0.001, 5, allow_nan=False)


@given(st.lists(st.tuples(times, times), max_size=8))
def test_what_shares_a_lane_does_not_overlap(spans: list[tuple[float, float]]) -> None:
    ended = [(Outcome(f"t#{n}", "ran", 0, took), at) for n, (took, at) in enumerate(spans)]
    events = trace(summary(record(*ended), "vx run t", 0))["traceEvents"]
    assert len(events) == len(spans)
    for one, two in combinations(events, 2):
        if one["tid"] == two["tid"]:
            first, second = sorted((one, two), key=lambda event: int(event["ts"]))
            assert first["ts"] + first["dur"] <= second["ts"] + 1  # rounded
