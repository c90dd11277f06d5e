"""How a session ended, as an exit code. Pure."""

from collections.abc import Iterable

from vxwatch.events import Outcome


def exit_code(outcomes: Iterable[Outcome], signal: int | None) -> int:
    """128 + n after signal n; 0 when nothing failed; the one failed task's own code; else 1.

    A task that failed without an exit code of its own (it could not be started) counts as 1.
    """
    if signal is not None:
        return 128 + signal
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    if not failed:
        return 0
    return (failed[0].code or 1) if len(failed) == 1 else 1
