"""How soon a task may be started anew within a cycle."""

from hypothesis import given
from hypothesis import strategies as st

from vxwatch.session.again import CALM, PAUSE, Again


def test_the_first_time_is_free_and_each_other_one_waits_for_twice_as_long() -> None:
    again, now = Again(), 100.0
    for pause in (0.0, PAUSE, 2 * PAUSE, 4 * PAUSE):
        now += pause
        if pause:
            assert not again.may(["p#a"], now - 0.01)
        assert again.may(["p#a"], now)
        assert again.may(["p#b"], now)
        again.count(["p#a"], now)
    assert not again.may(["p#b", "p#a"], now)


def test_after_a_calm_the_first_time_is_free_again() -> None:
    again = Again()
    again.count(["p#a"], 0.0)
    again.count(["p#a"], 1.0)
    again.count(["p#a"], 1.1 + CALM)
    assert again.may(["p#a"], 1.1 + CALM + PAUSE)


def test_what_has_to_wait_while_it_runs_waits_for_quiet() -> None:
    again = Again()
    again.put_off(["p#a"], 0.0)
    assert again.may(["p#a"], 0.0)
    again.count(["p#a"], 0.0)
    for now in (0.5, 1.2, 2.1):
        again.put_off(["p#a"], now)
        assert not again.may(["p#a"], now)
    assert again.may(["p#a"], 2.1 + PAUSE)
    again.put_off(["p#a"], 2.1 + PAUSE)
    assert again.may(["p#a"], 2.1 + PAUSE), "it need not wait any more"


@given(st.floats(0.01, 5.0))
def test_what_starts_itself_anew_gets_ever_slower(period: float) -> None:
    again, now, started = Again(), 0.0, 0
    while now < 200.0:
        if again.may(["p#a"], now):
            again.count(["p#a"], now)
            started += 1
        now += period
    assert started <= 10
