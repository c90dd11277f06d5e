"""Which lines a person sees for which events."""

from collections.abc import Generator

import pytest

from vxwatch.errors import ConfigError, Problem
from vxwatch.events import (
    CycleEnded,
    Event,
    Notice,
    Outcome,
    Refused,
    RunEnded,
    RunStarted,
    ServerExited,
    ServerReady,
    Shown,
    TaskEnded,
    TaskOutput,
    TaskRetried,
    Watching,
)
from vxwatch.output.lines import LONGEST
from vxwatch.output.plain import Mode, Plain, mode_of, prefixed_within
from vxwatch.output.style import Style, wants_colour
from vxwatch.output.writer import Writer


class Paper(Writer):
    """A writer that keeps what it is given."""

    def __init__(self) -> None:
        self.text = b""

    def write(self, fd: int, data: bytes) -> None:
        self.text += data

    def write_all(self, fd: int, pieces: Generator[bytes], size: int) -> None:
        self.text += b"".join(pieces)


def started(
    *requested: str,
    planned: tuple[str, ...] = (),
    servers: tuple[str, ...] = (),
    verb: str = "run",
    broad: bool = False,
) -> RunStarted:
    assert verb in ("run", "watch")
    return RunStarted(
        "run" if verb == "run" else "watch",
        requested,
        planned or requested,
        frozenset(servers),
        broad,
    )


def shown(*events: Event, ci: bool = False) -> str:
    paper = Paper()
    plain = Plain(paper, Style(colour=False, unicode=True), ci=ci)
    for event in events:
        plain(event)
    return paper.text.decode()


@pytest.mark.parametrize(
    ("run", "task", "ci", "mode"),
    [
        (started("a#t"), "a#t", False, "raw"),
        (started("a#t", planned=("a#b", "a#t")), "a#b", False, "quiet"),
        (started("a#t", "a#u"), "a#t", False, "block"),
        (started("a#t", broad=True), "a#t", False, "quiet"),
        (started("a#t"), "a#t", True, "block"),
        (started("a#dev", servers=("a#dev",)), "a#dev", False, "raw"),
        (started("a#dev", planned=("a#b", "a#dev"), servers=("a#dev",)), "a#dev", False, "prefix"),
        (started("a#dev", servers=("a#dev",), verb="watch"), "a#dev", False, "prefix"),
        (started("a#dev", "a#t", servers=("a#dev",), verb="watch"), "a#t", False, "lines"),
    ],
)
def test_how_output_is_shown_follows_from_what_was_asked_for(
    run: RunStarted, task: str, ci: bool, mode: Mode
) -> None:
    assert mode_of(task, run, ci=ci) == mode


def test_one_task_streams_its_bytes_as_they_are() -> None:
    text = shown(
        started("a#t"),
        TaskOutput("a#t", "stdout", b"50%\r100%"),
        TaskEnded(Outcome("a#t", "ran", 0)),
        RunEnded((Outcome("a#t", "ran", 0),), 1.5, None),
    )
    assert text == "50%\r100%\n1 ran in 1.50 s\n"


def test_several_tasks_are_blocks_and_never_spliced() -> None:
    text = shown(
        started("a#t", "a#u"),
        TaskOutput("a#t", "stdout", b"one "),
        TaskOutput("a#u", "stdout", b"other\n"),
        TaskOutput("a#t", "stderr", b"two"),
        TaskEnded(Outcome("a#t", "ran", 0, seconds=0.5)),
        TaskEnded(Outcome("a#u", "ran", 0, seconds=0.25)),
    )
    assert text == "✓ a#t ran (500 ms)\none two\n✓ a#u ran (250 ms)\nother\n"


def test_a_dependency_is_silent_unless_it_fails() -> None:
    run = started("a#t", planned=("a#b", "a#t"))
    quiet = shown(run, TaskOutput("a#b", "stdout", b"noise\n"), TaskEnded(Outcome("a#b", "ran", 0)))
    loud = shown(
        run, TaskOutput("a#b", "stdout", b"noise\n"), TaskEnded(Outcome("a#b", "failed", 2))
    )
    assert quiet == ""
    assert loud == "✗ a#b failed - exit code 2\nnoise\n"


def test_failures_are_read_last() -> None:
    bad, skipped = Outcome("a#b", "failed", 2), Outcome("a#t", "skipped", blocked_by="a#b")
    text = shown(started("a#t", planned=("a#b", "a#t")), RunEnded((bad, skipped), 0.1, None))
    assert text.splitlines() == [
        "1 skipped, 1 failed in 100 ms",
        "- a#t skipped, because a#b did not succeed",
        "✗ a#b failed - exit code 2",
    ]


def test_servers_are_prefixed_line_by_line_and_their_last_line_is_kept() -> None:
    text = shown(
        started("web#dev", "api#dev", servers=("web#dev", "api#dev"), verb="watch"),
        TaskOutput("web#dev", "stdout", b"hel"),
        TaskOutput("api#dev", "stdout", b"up\n"),
        TaskOutput("web#dev", "stdout", b"lo\nlast"),
        ServerReady("web#dev", ("http://localhost:5173",), restarted=False),
        ServerExited("api#dev", 3, asked=False),
        Watching(2),
    )
    assert text.splitlines() == [
        "api | up",
        "web | hello",
        "web | last",
        "● web#dev ready http://localhost:5173",
        "✗ api#dev ended by itself: exit code 3",
        "watching 2 projects",
    ]


def test_a_cycle_is_one_line() -> None:
    text = shown(
        started("a#t", verb="watch"),
        CycleEnded(2, (Outcome("a#t", "ran", 0),), 0, 0.048, ("src/a",)),
    )
    assert text == "cycle 2: 1 ran, 0 failed, 0 kept, 48 ms - src/a\n"


def test_a_refused_config_is_shown_with_its_place_and_its_remedy() -> None:
    problem = Problem("app/vx.toml", 12, "tasks.dev.x", "unknown field", "did you mean env?")
    text = shown(started("a#t", verb="watch"), Refused(ConfigError((problem,))), Notice("n", "h"))
    assert text == "app/vx.toml:12: tasks.dev.x: unknown field\n  did you mean env?\nnote: n\n  h\n"


@pytest.mark.parametrize(
    ("environ", "terminal", "wanted"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
    ],
)
def test_colour_is_for_who_wants_it(environ: dict[str, str], terminal: bool, wanted: bool) -> None:
    assert wants_colour(environ, terminal=terminal) is wanted


def test_colour_changes_no_word() -> None:
    style = Style(colour=True, unicode=False)
    assert style.paint("text", "failed") == "\x1b[31;1mtext\x1b[0m"
    assert b"web | " in style.prefix("web")


def test_who_stops_a_run_sees_how_far_its_tasks_came_and_who_leaves_a_watch_does_not() -> None:
    events = (
        TaskOutput("w#a", "stdout", b"half\n"),
        TaskEnded(Outcome("w#a", "aborted")),
    )
    end = RunEnded((Outcome("w#a", "aborted"),), 1.0, 15)
    assert shown(started("w#a", "w#b"), *events, end) == (
        "- w#a aborted\nhalf\nstopped by SIGTERM\n1 aborted in 1.00 s\n"
    )
    assert "half" in shown(started("w#b", planned=("w#a", "w#b")), *events)
    watch = started("w#a", "w#b", verb="watch")
    assert shown(watch, *events, end) == "stopped\n"


def test_a_cycle_that_skips_for_an_earlier_failure_names_it() -> None:
    skipped = Outcome("w#web", "skipped", blocked_by="w#gen")
    failed = Outcome("w#gen", "failed", 1)
    watch = started("w#web", verb="watch")
    line = "cycle 2: 0 ran, 0 failed, 1 skipped, 1 kept, 0 ms - conf\n"
    told = shown(watch, CycleEnded(2, (skipped,), 1, 0.0, ("conf",)))
    assert told == f"- w#web skipped, because w#gen did not succeed\n{line}"
    assert "because" not in shown(watch, CycleEnded(1, (failed, skipped), 0, 0.0, ("a",)))


def test_a_retry_is_said_at_once_and_stands_between_the_attempts_in_a_block() -> None:
    events = (
        TaskOutput("a#t", "stdout", b"one"),
        TaskRetried("a#t", 2, 3, "exit 1"),
        TaskOutput("a#t", "stdout", b"two\n"),
        TaskEnded(Outcome("a#t", "ran", 0, attempts=2)),
    )
    line = "retrying a#t (2/3) after exit 1"
    assert shown(started("a#t"), *events) == f"one\n{line}\ntwo\n"
    assert shown(started("a#t", "a#u"), *events) == (
        f"{line}\n✓ a#t ran - 2 attempts\none\n{line}\ntwo\n"
    )


def test_a_line_too_long_to_wait_for_is_one_line_unless_another_comes_between() -> None:
    run = started("a#dev", "a#t", servers=("a#dev",), verb="watch")
    long = b"x" * (LONGEST + 1)
    pieces = [TaskOutput("a#t", "stdout", piece) for piece in (long, long, b"end\n")]
    assert shown(run, *pieces).splitlines() == [(long + long).decode() + "end"]
    servers = [TaskOutput("a#dev", "stdout", piece) for piece in (long, long, b"end\nnext\n")]
    assert shown(run, *servers).splitlines() == [
        "a | " + (long + long).decode() + "end",
        "a | next",
    ]
    between = shown(run, pieces[0], servers[0], pieces[1], pieces[2]).splitlines()
    assert between == [long.decode(), "a | " + long.decode(), long.decode() + "end"]


@pytest.mark.parametrize(
    "data", [b"one\ntwo\n", b"one\ntwo", b"\n\n", b"10%\r20%\r\nend\n", b"a\rb"]
)
def test_every_line_of_a_server_has_its_prefix(data: bytes) -> None:
    plain = b"".join(b"> " + line for line in data.splitlines(keepends=True))
    assert b"> " + prefixed_within(data, b"> ") == plain


def test_what_somebody_asks_to_see_is_shown_as_it_is_below_lines_of_ours() -> None:
    run = started("a#dev", servers=("a#dev",), verb="watch")
    half, asked = TaskOutput("a#dev", "stdout", b"x" * (LONGEST + 1)), Shown(("log:",), b"\x01one")
    told = shown(run, half, asked, Shown(("next",)))
    assert told.splitlines()[1:] == ["log:", "\x01one", "next"]
    assert shown(run, Shown(("a\x1bb",))) == "a\\x1bb\n"
    assert shown(run, Shown(clear=True), Shown(("after",))) == "\x1b[H\x1b[2Jafter\n"
