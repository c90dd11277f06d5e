"""What a supervisor hears of, how it foresees what the box answers, and how its records are read."""

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.filters import ARCHES, verdict
from vxwatch.process import outcome
from vxwatch.process.notify import forgets
from vxwatch.process.outcome import O_CREAT, O_EXCL, O_TMPFILE, O_TRUNC, reading, writing
from vxwatch.process.supervisor import leaves
from vxwatch.sandbox.calls import EMPTY_PATHS, LOOKS, NUMBERS, table
from vxwatch.sandbox.seccomp import notifying_program
from vxwatch.sandbox.supervision import SupervisorLog
from vxwatch.sandbox.tracelog import Attempt

if TYPE_CHECKING:
    from vxwatch.process.outcome import Found

ALLOW, NOTIFY = 0x7FFF0000, 0x7FC00000
AT_EMPTY_PATH = 0x1000
O_WRONLY, O_APPEND = 1, 0o2000

machines = pytest.mark.parametrize("machine", sorted(ARCHES))


class Sight:
    """A box with `/w` read-only, `/w/out` writable, and in that a directory that is mounted."""

    things: "dict[str, Found]" = {  # noqa: RUF012 - never changed
        **dict.fromkeys(("/", "/w", "/w/src", "/w/out", "/w/out/kept"), "directory"),
        **dict.fromkeys(("/w/src/a", "/w/out/f", "/w/out/kept/k"), "file"),
        "/w/src/fifo": "other",
    }

    def find(self, path: str) -> "Found":
        return self.things.get(path, "")

    def locked(self, path: str) -> bool:
        return self.mount(path) != "/w/out"

    def mount(self, path: str) -> str:
        below = (one for one in ("/w/out/kept", "/w/out") if f"{path}/".startswith(f"{one}/"))
        return next(below, "/")


@pytest.mark.parametrize(
    ("call", "flags", "paths", "error"),
    [
        ("openat", O_WRONLY, ("/w/src/a",), "EROFS"),
        ("openat", O_TRUNC, ("/w/src/a",), "EROFS"),
        ("openat", O_CREAT, ("/w/src/a",), ""),
        ("openat", O_APPEND, ("/w/src/a",), ""),
        ("openat", O_CREAT | O_EXCL | O_WRONLY, ("/w/src/a",), ""),
        ("openat", O_CREAT | O_EXCL | O_WRONLY, ("/w/src/new",), "EROFS"),
        ("openat", O_WRONLY, ("/w/src/new",), "ENOENT"),
        ("openat", O_CREAT, ("/w/none/new",), "ENOENT"),
        ("openat", O_CREAT, ("/w/src/a/new",), "ENOENT"),
        ("openat", O_WRONLY, ("/w/src",), ""),
        ("openat", O_WRONLY, ("/w/src/fifo",), ""),
        ("openat", O_TMPFILE | O_WRONLY, ("/w/src",), "EROFS"),
        ("openat", O_TMPFILE | O_WRONLY, ("/w/out",), ""),
        ("creat", O_CREAT | O_TRUNC | O_WRONLY, ("/w/out/new",), ""),
        ("mkdir", 0, ("/w/src",), ""),
        ("mkdir", 0, ("/w/src/new",), "EROFS"),
        ("mkdirat", 0, ("/w/none/new",), "ENOENT"),
        ("symlinkat", 0, ("/new",), "EROFS"),
        ("unlink", 0, ("/w/src/none",), "EROFS"),
        ("unlinkat", 0, ("/w/out/f",), ""),
        ("rmdir", 0, ("/w/out/kept",), "EBUSY"),
        ("rename", 0, ("/w/out/f", "/w/out/g"), ""),
        ("rename", 0, ("/w/out/f", "/w/src/g"), "EXDEV"),
        ("rename", 0, ("/w/out/f", "/w/out/kept"), "EBUSY"),
        ("renameat2", 0, ("/w/src/a", "/w/src/b"), "EROFS"),
        ("chmod", 0, ("/w/src/a",), "EROFS"),
        ("chmod", 0, ("/w/src/none",), "ENOENT"),
        ("utimensat", 0, ("/w/out/f",), ""),
    ],
)
def test_how_the_box_answers(call: str, flags: int, paths: tuple[str, ...], error: str) -> None:
    assert writing(call, flags, paths, Sight()) == error


def test_what_is_not_there_is_not_read() -> None:
    assert reading("/w/none", Sight()) == "ENOENT"
    assert reading("/w/src/a", Sight()) == ""


@machines
@pytest.mark.parametrize("looks", [False, True])
def test_exactly_the_calls_of_the_table_are_heard_of(machine: str, looks: bool) -> None:
    calls = table(machine, looks=looks)
    program = notifying_program(
        machine, {number: EMPTY_PATHS.get(name) for number, (name, *_) in calls.items()}
    )
    for number in range(480):
        expected = NOTIFY if number in calls else ALLOW
        assert verdict(program, machine, number) == expected
        assert verdict(program, machine, number, arch=0x40000003) == ALLOW
    for name in LOOKS & NUMBERS[machine].keys():
        assert (NUMBERS[machine][name] in calls) == looks
    for name, flags in EMPTY_PATHS.items():
        arguments = [AT_EMPTY_PATH if at == flags else 0 for at in range(6)]
        assert verdict(program, machine, NUMBERS[machine][name], *arguments) == ALLOW


@pytest.mark.parametrize(
    ("address", "far"),
    [
        ([127, 1, 2, 3], False),
        ([0, 0, 0, 0], False),
        ([10, 0, 0, 1], True),
        ([*[0] * 15, 1], False),
        ([0] * 16, False),
        ([*[0] * 10, 255, 255, 127, 0, 0, 1], False),
        ([*[0] * 10, 255, 255, 192, 0, 2, 1], True),
        ([0xFE, 0x80, *[0] * 13, 1], False),
        ([0x20, 0x01, *[0] * 13, 1], True),
    ],
)
def test_an_address_of_another_machine(address: list[int], far: bool) -> None:
    assert leaves(bytes(address)) is far


@pytest.mark.parametrize(
    ("release", "so"),
    [
        ("5.10.0-28-amd64", True),
        ("6.10.14", True),
        ("6.11.0-rc1", False),
        ("6.18.44-x", False),
        ("7.0", False),
        ("6.x", True),
        ("", True),
    ],
)
def test_a_kernel_that_lets_it_wait_for_ever(release: str, so: bool) -> None:
    assert forgets(release) is so


def record(*fields: bytes) -> bytes:
    return b"".join(field + b"\0" for field in (*fields, b"", b"", b"")[:4])


@given(
    st.lists(st.tuples(st.sampled_from([b"read", b"write"]), st.binary()), max_size=5), st.data()
)
def test_records_are_read_however_they_are_cut(
    said: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    said = [(wish, name.replace(b"\0", b"/")) for wish, name in said]
    whole = record(b"begun") + b"".join(record(*one, b"openat", b"ENOENT") for one in said)
    whole += record(b"cut") + record(b"over")
    log = SupervisorLog()
    assert log.failed(0)
    while whole:
        cut = data.draw(st.integers(1, len(whole)))
        log.feed(whole[:cut])
        whole = whole[cut:]
    assert list(log.attempts) == list(
        dict.fromkeys(
            Attempt(wish.decode(), name.decode("utf-8", "surrogateescape"), "openat", "ENOENT")  # type: ignore[arg-type]
            for wish, name in said
        )
    )
    assert (log.begun, log.ended, log.cut, log.failed(1)) == (True, True, True, False)


def test_a_log_without_an_end_is_that_of_a_supervisor_that_failed() -> None:
    log = SupervisorLog()
    log.feed(record(b"begun"))
    assert log.failed(0)
    log.feed(record(b"over"))
    assert not log.failed(1)


def test_every_call_that_changes_something_has_an_answer() -> None:
    for name, (_, wish, names, _) in {
        c[0]: c for c in table("x86_64", looks=True).values()
    }.items():
        if wish == "write":
            writing(name, 0, ("/w/src/a",) * len(names), Sight())
    assert NUMBERS["x86_64"].keys() >= outcome.NAMED
