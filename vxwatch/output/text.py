"""The words for what happened: durations, outcomes, summaries. Pure; no colour, no bytes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vxwatch.events import ServerExited
    from vxwatch.outcome import Outcome

SECOND = 1000
MINUTE = 60 * SECOND
NAMED = 3
"""How many changed paths a line names."""

SIGNALS = {1: "SIGHUP", 2: "SIGINT", 6: "SIGABRT", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}


def duration(seconds: float) -> str:
    """A duration as a person says it: `48 ms`, `1.24 s`, `3 m 05 s`."""
    milliseconds = round(seconds * 1000)
    if milliseconds < SECOND:
        return f"{milliseconds} ms"
    if milliseconds < MINUTE:
        return f"{milliseconds / SECOND:.2f} s"
    minutes, rest = divmod(milliseconds, MINUTE)
    return f"{minutes} m {rest // SECOND:02d} s"


def printable(text: str) -> str:
    """The text with control characters and undecodable bytes escaped, so that no file name moves a cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def code(value: int) -> str:
    """An exit code, with the signal behind it where there is one."""
    name = SIGNALS.get(value - 128)
    return f"exit code {value} ({name})" if name else f"exit code {value}"


def outcome(result: "Outcome") -> str:
    """One line for one task: what became of it and why."""
    parts = [result.task, result.status]
    if result.status == "skipped" and result.blocked_by:
        return f"{result.task} skipped, because {result.blocked_by} did not succeed"
    if result.detail:
        parts.append(f"- {result.detail}")
    if result.code:
        parts.append(f"- {code(result.code)}")
    if result.attempts > 1:
        parts.append(f"- {result.attempts} attempts")
    return " ".join(parts)


def server_exited(event: "ServerExited") -> str:
    """One line for a server that ended by itself: how, and whether it comes back."""
    line = f"{event.task} {event.detail or 'ended by itself'}: {code(event.code)}"
    return line if event.again is None else f"{line}; starts again in {duration(event.again)}"


def counts(outcomes: "Iterable[Outcome]") -> str:
    """`2 ran, 1 fresh, 1 failed`, naming only what occurred."""
    found: dict[str, int] = {}
    for result in outcomes:
        found[result.status] = found.get(result.status, 0) + 1
    return tally(found)


def tally(found: Mapping[str, int]) -> str:
    """How many tasks have which status, in the usual order."""
    order = ("ran", "restored", "fresh", "ready", "kept", "skipped", "aborted", "failed")
    return ", ".join(f"{found[s]} {s}" for s in order if s in found) or "nothing to do"


def changed(paths: Sequence[str]) -> str:
    """The changes that caused a cycle, the first few by name."""
    shown = ", ".join(printable(p) for p in paths[:NAMED])
    return f"{shown} and {len(paths) - NAMED} more" if len(paths) > NAMED else shown


def cycle(
    number: int, outcomes: "Sequence[Outcome]", kept: int, seconds: float, paths: Sequence[str]
) -> str:
    """The line that ends a cycle."""
    found = Counter("ran" if r.status == "ready" else r.status for r in outcomes)
    some = "".join(f"{found[how]} {how}, " for how in ("restored", "skipped") if found[how])
    line = (
        f"cycle {number}: {found['ran']} ran, {found['failed']} failed, "
        f"{some}{kept} kept, {duration(seconds)}"
    )
    return f"{line} - {changed(paths)}" if paths else line
