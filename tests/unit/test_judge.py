"""The guard against a watch that wakes itself."""

import random

from hypothesis import given
from hypothesis import strategies as st

from vxwatch.watch.judge import DOUBLINGS, ECHOES, FREE, MOST, PAUSE, LoopGuard, Origin, Verdict

OWN = frozenset({"gen/now.txt"})
USER = frozenset({"src/app.ts"})
NONE: frozenset[str] = frozenset()


def looping(guard: LoopGuard, times: int, now: float = 0.0) -> Verdict:
    """The verdict on the last of so many deliveries that tasks alone caused."""
    verdict = Verdict(NONE)
    for _ in range(times):
        verdict = guard.sift(OWN, Origin.OWN, now)
    return verdict


def test_what_somebody_else_changed_is_reacted_to_at_once() -> None:
    guard = LoopGuard()
    for _ in range(20):
        assert guard.sift(USER, Origin.FOREIGN, 0.0) == Verdict(USER)
    assert guard.due() is None


def test_no_change_is_no_delivery() -> None:
    guard = LoopGuard()
    for _ in range(20):
        assert guard.sift(NONE, Origin.OWN, 0.0) == Verdict(NONE)
    assert guard.sift(OWN, Origin.OWN, 0.0) == Verdict(OWN)


def test_three_cycles_that_tasks_caused_are_free() -> None:
    guard = LoopGuard()
    for _ in range(FREE):
        assert guard.sift(OWN, Origin.OWN, 0.0) == Verdict(OWN)


def test_the_fourth_waits_and_is_not_lost() -> None:
    guard = LoopGuard()
    assert looping(guard, FREE + 1, now=5.0) == Verdict(NONE, NONE, PAUSE)
    assert guard.due() == 5.0 + PAUSE
    assert guard.release(5.0) == NONE
    assert guard.release(5.0 + PAUSE) == OWN
    assert guard.due() is None


def test_the_fifth_is_named_once_and_waits_twice_as_long_each_time() -> None:
    guard = LoopGuard()
    looping(guard, FREE + 1)
    verdicts = [looping(guard, 1) for _ in range(3)]
    assert [verdict.named for verdict in verdicts] == [OWN, NONE, NONE]
    assert [verdict.pause for verdict in verdicts] == [2 * PAUSE, 4 * PAUSE, 8 * PAUSE]
    assert all(verdict.react == NONE for verdict in verdicts)


def test_a_loop_of_ever_new_names_waits_later_and_each_is_named() -> None:
    guard = LoopGuard()
    free = FREE * MOST
    verdicts = [guard.sift(frozenset({f"gen/{i}"}), Origin.OWN, 0.0) for i in range(free + 3)]
    assert [bool(verdict.react) for verdict in verdicts] == [True] * free + [False] * 3
    assert verdicts[-2].named == {f"gen/{free}", f"gen/{free + 1}"}
    assert verdicts[-1].named == {f"gen/{free + 2}"}


def test_no_pause_is_endless() -> None:
    guard = LoopGuard()
    assert looping(guard, 100).pause == PAUSE * 2**DOUBLINGS


def test_tasks_that_wake_one_another_wait() -> None:
    guard = LoopGuard()
    turns = [frozenset({name}) for name in ("a", "b") * FREE]
    assert all(guard.sift(turn, Origin.OWN, 0.0).react for turn in turns)
    assert guard.sift(turns[0], Origin.OWN, 0.0).react == NONE
    assert guard.sift(turns[1], Origin.OWN, 0.0).named == {"a", "b"}


def test_who_saves_one_file_after_the_other_while_tasks_run_waits_for_nothing() -> None:
    guard = LoopGuard()
    for number in range(FREE * MOST):
        changed = frozenset({f"src/{number}"})
        assert guard.sift(changed, Origin.OWN, 0.0) == Verdict(changed)


def test_only_what_came_back_is_named() -> None:
    guard = LoopGuard()
    for number in range(FREE + 1):
        guard.sift(OWN | {f"src/{number}"}, Origin.OWN, 0.0)
    assert guard.sift(OWN | {"src/last"}, Origin.OWN, 0.0).named == OWN


def test_somebody_elses_change_takes_what_is_held_with_it_and_starts_anew() -> None:
    guard = LoopGuard()
    looping(guard, FREE + 2)
    assert guard.sift(USER, Origin.FOREIGN, 0.0) == Verdict(OWN | USER)
    assert guard.due() is None
    assert looping(guard, FREE) == Verdict(OWN)


def test_saving_the_held_file_itself_ends_the_wait() -> None:
    guard = LoopGuard()
    looping(guard, FREE + 2)
    assert guard.sift(OWN, Origin.FOREIGN, 0.0) == Verdict(OWN)


def test_a_loop_costs_few_runs() -> None:
    guard, now, runs = LoopGuard(), 0.0, 1
    while now < 20.0:
        react = guard.sift(OWN, Origin.OWN, now).react
        if not react:
            due = guard.due()
            assert due is not None
            now = due
            assert guard.release(now) == OWN
        runs += 1
        now += 0.05
    assert runs < 10


def test_an_echo_of_each_cycle_waits_alone_and_is_named() -> None:
    guard = LoopGuard()
    for _ in range(ECHOES):
        assert guard.sift(OWN, Origin.ECHO, 0.0) == Verdict(OWN)
    assert guard.sift(OWN | USER, Origin.ECHO, 0.0) == Verdict(USER, NONE, PAUSE)
    assert guard.due() == PAUSE
    assert guard.release(PAUSE) == OWN
    assert guard.sift(OWN, Origin.ECHO, 2.0) == Verdict(NONE, OWN, 2 * PAUSE)


def test_an_echo_in_parts_makes_no_pause_longer() -> None:
    guard = LoopGuard()
    for _ in range(ECHOES + 1):
        guard.sift(OWN, Origin.ECHO, 0.0)
    assert guard.sift(OWN, Origin.ECHO, 0.5) == Verdict(NONE)
    assert guard.due() == PAUSE


def test_an_echo_counts_whether_or_not_tasks_run_still() -> None:
    guard, held = LoopGuard(), 0
    for number in range(ECHOES + 1):
        origin = Origin.ECHO if number % 3 else Origin.OWN
        held += not guard.sift(OWN, origin, 0.0).react
    assert held == 1


def test_who_saves_one_file_all_the_time_waits_for_a_moment_and_is_not_named() -> None:
    guard, now, ended, told = LoopGuard(), 0.0, -1.0, []
    for _ in range(4 * ECHOES):
        now += 0.3
        origin = Origin.ECHO if now - ended <= 1.0 else Origin.FOREIGN
        verdict = guard.sift(USER, origin, now)
        assert not verdict.named
        if verdict.react | guard.release(now):
            ended = now + 0.04
        else:
            told.append(now - ended)
    assert max(told) <= 1.0
    assert guard.due() is None or now - ended <= 1.0


def test_a_note_that_comes_back_as_an_edit_ends_no_pause() -> None:
    guard = LoopGuard()
    looping(guard, FREE + 2)
    assert guard.sift(OWN, Origin.ECHO, 0.0) == Verdict(NONE)
    assert guard.due() == 2 * PAUSE
    assert guard.sift(OWN | USER, Origin.ECHO, 0.0) == Verdict(OWN | USER)


def test_somebody_elses_change_of_something_else_makes_an_echo_no_edit() -> None:
    guard = LoopGuard()
    for _ in range(ECHOES + 1):
        guard.sift(OWN, Origin.ECHO, 0.0)
    assert guard.sift(USER, Origin.FOREIGN, 2.0) == Verdict(OWN | USER)
    assert guard.sift(OWN, Origin.ECHO, 3.0).react == NONE
    assert guard.sift(OWN, Origin.FOREIGN, 5.0) == Verdict(OWN)
    assert guard.sift(OWN, Origin.ECHO, 6.0) == Verdict(OWN)


@given(st.randoms(use_true_random=True), st.sampled_from([0.0, 0.02, 0.3]))
def test_no_change_is_ever_lost(chance: random.Random, foreign: float) -> None:
    guard, now = LoopGuard(), 0.0
    owed: frozenset[str] = NONE
    for _ in range(200):
        changed = frozenset(chance.sample("ab", chance.randint(0, 2)))
        origin = chance.choice([Origin.OWN, Origin.ECHO, Origin.ECHO])
        origin = Origin.FOREIGN if chance.random() < foreign else origin
        now += 0.1
        owed |= changed
        react = guard.sift(changed, origin, now).react | guard.release(now)
        assert react <= owed
        if origin is Origin.FOREIGN and changed:
            assert react == owed
        owed -= react
        assert bool(owed) == (guard.due() is not None)
    due = guard.due()
    late = now + PAUSE * 2**DOUBLINGS
    assert guard.release(late) == owed
    assert (due is None) == (not owed)
