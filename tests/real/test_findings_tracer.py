"""The strace of a host: found, old, and at work in a real box."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.harness.boxes import Site, live
from vxwatch.model import Sandbox, Task
from vxwatch.sandbox import probe, runtime, trace
from vxwatch.sandbox.trace import Tracer, find_tracer, remark
from vxwatch.sandbox.tracelog import TraceLog

NEW, OLD, OLDEST = (6, 1), (5, 4), (4, 26)


@pytest.mark.parametrize(
    ("version", "apart", "filtered"),
    [(NEW, True, True), (OLD, False, True), (OLDEST, False, False)],
)
def test_an_older_strace_is_asked_for_less(
    version: tuple[int, int], apart: bool, filtered: bool
) -> None:
    words = Tracer("/usr/bin/strace", version).words(looks=False)
    assert (("-DD" in words), ("--seccomp-bpf" in words)) == (apart, filtered)


def test_the_user_is_told_of_a_tracer_that_is_missing_or_slow() -> None:
    assert remark(Tracer("/usr/bin/strace", NEW)) == []
    ((text, hint),) = remark(None)
    assert "not installed" in text
    assert "apt-get install strace" in hint
    ((text, _),) = remark(Tracer("/usr/bin/strace", OLDEST))
    assert text.startswith("strace 4.26 is old")


@pytest.mark.parametrize(
    ("script", "version"),
    [
        ("echo 'strace -- version 6.1'", (6, 1)),
        ("echo 'strace -- version 5.10-dirty'", (5, 10)),
        ("echo usage", None),
        ("exit 1", None),
    ],
)
def test_the_version_is_asked_for(
    tmp_path: Path, script: str, version: tuple[int, int] | None
) -> None:
    program = tmp_path / "strace"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    found = find_tracer({"PATH": str(tmp_path)}, "/no/such/root")
    assert (found and found.version) == version
    assert find_tracer({"PATH": str(tmp_path)}, str(tmp_path)) is None, "a task's own is not used"


def log(text: str) -> TraceLog:
    made = TraceLog("/w")
    made.feed(text.encode())
    return made


def test_a_failed_tracer_is_told_from_a_failed_command() -> None:
    start = '2 execve("/bin/sh", 0x1, 0x2) = 0\n'
    assert log("").failed(0)
    assert log("strace: no\n").failed(1)
    assert log(start).failed(1)
    assert log(start).failed(139)
    assert not log(start).failed(0)
    assert not log(start).failed(137)
    assert not log(start + "2 exit_group(1) = ?\n").failed(1)
    assert not log(start + "2 --- SIGSEGV {} ---\n").failed(139)


@pytest.mark.sandbox
@pytest.mark.parametrize("version", [NEW, OLD, OLDEST])
def test_findings_of_a_real_box(
    site: Site, monkeypatch: pytest.MonkeyPatch, version: tuple[int, int]
) -> None:
    """Also with the options that an older strace has."""
    site.write("app/src/a")
    site.write("app/secret")
    os.mkdir(site.path("ui/lib"))
    here = find_tracer(os.environ, site.root)
    assert here is not None
    monkeypatch.setattr(probe, "may_supervise", lambda _bwrap: False)
    for place in (runtime, trace):
        monkeypatch.setattr(
            place, "find_tracer", lambda *_: Tracer(here.program, version), raising=False
        )
    command = (
        "cat src/a secret no-such; cd src && mkdir ../gen; cat ../../ui/lib;"
        " (cd / && echo x > x); echo x > $TMPDIR/x; exit 6"
    )
    code, report = asyncio.run(site.report(command, Sandbox(read=("src",))))
    assert code == 6
    assert not report.lost
    assert report.findings == (
        "read secret, which nothing grants",
        "wrote gen/, which nothing grants",
        "read ../ui/lib, which nothing grants",
        "wrote /x, which nothing grants",
    )


@pytest.mark.sandbox
def test_a_server_is_not_traced(site: Site) -> None:
    from vxwatch.model import Persistent

    command = "ls /proc/1/fd"
    task = Task("app", "t", command=command, sandbox=Sandbox(), persistent=Persistent())

    async def scenario() -> list[str]:
        async with (
            site.session() as (nursery, boxes),
            live(nursery, boxes, task, site.environ) as box,
        ):
            return (await box.end()).out.split()

    assert "8" not in asyncio.run(scenario())
