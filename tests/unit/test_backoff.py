"""The pauses between the lives of a server that ends by itself."""

from vxwatch.session.backoff import LOOP, STEADY, Backoff


def test_the_pauses_double_up_to_a_bound() -> None:
    backoff = Backoff()
    pauses = [backoff.ended(0.0) for _ in range(9)]
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    assert Backoff().ended(STEADY * 2) == 0.1


def test_a_loop_begins_once_until_it_was_steady() -> None:
    backoff = Backoff()
    begins = []
    for _ in range(3 * LOOP):
        backoff.ended(STEADY - 1)
        begins.append(backoff.begins_to_loop)
    assert begins.index(True) == LOOP - 1
    assert sum(begins) == 1
    assert backoff.ended(STEADY) == 0.1
    assert not backoff.begins_to_loop


def test_a_change_begins_anew() -> None:
    backoff = Backoff()
    for _ in range(LOOP):
        backoff.ended(0.0)
    backoff.reset()
    assert backoff.ended(0.0) == 0.1


def test_a_server_that_never_stays_up_ends_for_ever() -> None:
    backoff = Backoff()
    assert {backoff.ended(0.0) for _ in range(5000)} > {5.0}
