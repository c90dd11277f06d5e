"""When a burst counts as settled."""

from hypothesis import given
from hypothesis import strategies as st

from vxwatch.watch.debounce import Debounce

QUIET, BOUND = 0.015, 1.0


def test_nothing_is_due_before_something_happened() -> None:
    assert Debounce().due() is None


def test_one_event_is_due_after_the_quiet() -> None:
    debounce = Debounce(0.5, 2.0)
    debounce.event(10.0)
    assert debounce.due() == 10.5


def test_a_further_event_puts_it_off() -> None:
    debounce = Debounce(0.5, 2.0)
    debounce.event(10.0)
    debounce.event(10.4)
    assert debounce.due() == 10.9


def test_a_writer_that_never_pauses_is_cut_at_the_bound() -> None:
    debounce = Debounce(0.5, 2.0)
    for tenth in range(30):
        debounce.event(10.0 + tenth / 10)
    assert debounce.due() == 12.0


def test_a_quiet_longer_than_the_bound_is_waited_for() -> None:
    debounce = Debounce(3.0, 1.0)
    debounce.event(10.0)
    assert debounce.due() == 13.0


def test_what_was_taken_is_over() -> None:
    debounce = Debounce()
    debounce.event(1.0)
    debounce.clear()
    assert debounce.due() is None
    debounce.event(5.0)
    assert debounce.due() == 5.0 + QUIET


@given(st.lists(st.floats(0.0001, 0.5), min_size=1, max_size=200))
def test_every_event_is_taken_within_the_bounds(pauses: list[float]) -> None:
    debounce, now = Debounce(QUIET, BOUND), 0.0
    burst: list[float] = []
    taken: list[tuple[float, list[float]]] = []
    for pause in [*pauses, 10.0]:
        now += pause
        due = debounce.due()
        if due is not None and due <= now:
            taken.append((due, burst))
            burst = []
            debounce.clear()
        debounce.event(now)
        burst.append(now)
    assert [event for _, events in taken for event in events] == _times(pauses)
    for due, events in taken:
        assert due <= events[0] + BOUND
        assert due <= events[-1] + QUIET
        assert due == events[-1] + QUIET or due == events[0] + BOUND


def _times(pauses: list[float]) -> list[float]:
    now, times = 0.0, []
    for pause in pauses:
        now += pause
        times.append(now)
    return times
