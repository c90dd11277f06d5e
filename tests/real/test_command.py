"""Helpers of vx itself: an answer, or a conversation."""

import contextlib
import functools
import operator
import os
import time

import pytest

from tests.harness.waiting import patience, wait_for
from vxwatch.process import command
from vxwatch.process.command import NOT_FOUND, Begun, Conversation, ConversationError, capture


def test_a_capture_gives_both_streams_and_the_code(tmp_path: object) -> None:
    done = capture(("sh", "-c", "pwd; cat; echo no >&2; exit 3"), cwd=str(tmp_path), stdin=b"\xff")
    assert (done.code, done.out, done.err) == (3, f"{tmp_path}\n".encode() + b"\xff", b"no\n")


def test_a_capture_takes_the_environment_it_is_given() -> None:
    assert capture(("/usr/bin/env",), cwd="/", env={"A": "b"}).out == b"A=b\n"


def test_a_program_that_is_missing_is_no_exception() -> None:
    done = capture(("no-such-helper",), cwd="/")
    assert done.code == NOT_FOUND
    assert b"no-such-helper" in done.err


def test_a_capture_is_out_of_reach_of_the_terminals_signals() -> None:
    done = capture(("sh", "-c", "ps -o pgid= -p $$"), cwd="/")
    assert int(done.out) != os.getpgid(0)


def test_what_was_begun_works_by_itself_and_ends_with_all_it_wrote() -> None:
    script = "head -c 3000000 /dev/zero; echo no >&2; exit 3"
    with contextlib.closing(Begun(("sh", "-c", script), cwd="/")) as begun:
        wait_for(begun.is_done, "nobody has to read for it to end")
        assert begun.end() == (3, bytes(3_000_000), b"no\n")


def test_what_was_begun_and_is_not_wanted_is_ended() -> None:
    with contextlib.closing(Begun(("sh", "-c", "sleep 60 & wait"), cwd="/")) as begun:
        assert not begun.is_done()
    assert begun.is_done()


def test_what_cannot_begin_ends_so() -> None:
    with contextlib.closing(Begun(("no-such-helper",), cwd="/")) as begun:
        done = begun.end()
    assert done.code == NOT_FOUND
    assert b"no-such-helper" in done.err


def test_a_conversation_answers_one_request_after_the_other() -> None:
    talk = Conversation(("cat",), cwd="/")
    try:
        for text in (b"one\n", b"two\nthree\n", b"x" * 60_000 + b"\n"):
            assert talk.ask(text, functools.partial(operator.eq, text)) == text
    finally:
        talk.close()


def test_a_conversation_whose_helper_ended_says_so_and_starts_anew() -> None:
    talk = Conversation(("sh", "-c", "read line; echo got $line; exit"), cwd="/")
    try:
        for text in (b"one\n", b"two\n"):
            assert talk.ask(text, lambda answer: answer.endswith(b"\n")) == b"got " + text
            with pytest.raises(ConversationError):
                talk.ask(b"more\n", lambda answer: answer.endswith(b"\n"))
    finally:
        talk.close()


def test_a_helper_that_cannot_be_started_is_an_error_of_the_conversation() -> None:
    with pytest.raises(ConversationError, match="no-such-helper"):
        Conversation(("no-such-helper",), cwd="/").ask(b"", bool)


def test_closing_ends_a_helper_that_does_not_listen() -> None:
    talk = Conversation(("sh", "-c", "trap '' TERM; while :; do read line; echo x; done"), cwd="/")
    talk.ask(b"a\n", bool)
    begun = time.monotonic()
    talk.close()
    talk.close()
    assert time.monotonic() - begun < patience(2)


class _EnoughError(Exception):
    pass


def _give_up() -> None:
    raise _EnoughError


def test_a_doubt_ends_the_wait_for_a_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_PATIENCE", 0.01)
    with (
        contextlib.closing(Begun(("sleep", "1000"), cwd="/")) as begun,
        pytest.raises(_EnoughError),
    ):
        begun.end(_give_up)
    talk = Conversation(("sleep", "1000"), cwd="/")
    with contextlib.closing(talk), pytest.raises(_EnoughError):
        talk.ask(b"a\n", bool, _give_up)


def test_a_helper_that_was_doubted_in_vain_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_PATIENCE", 0.01)
    doubts: list[None] = []
    with contextlib.closing(Begun(("sh", "-c", "sleep 0.1; echo done"), cwd="/")) as begun:
        assert begun.end(lambda: doubts.append(None)).out == b"done\n"
    assert doubts
