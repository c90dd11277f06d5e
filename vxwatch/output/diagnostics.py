"""The text of errors: one place, so that `vx run` and `vx watch` say the same."""

import contextlib
import os
import traceback

from vxwatch.errors import ConfigError, Problem, UserError
from vxwatch.masking import Masker
from vxwatch.output.text import printable


def lines(error: UserError) -> list[str]:
    """The error as lines: what happened and where, then indented what to do next."""
    if isinstance(error, ConfigError):
        return [line for problem in error.problems for line in _problem(problem)]
    return [f"vx: {printable(error.message)}", *_indented(error.hint)]


def unwritable(failure: OSError) -> UserError:
    """What to report when standard output takes no more."""
    return UserError("output", f"cannot write output: {failure.strerror}", exit_code=1)


def report(error: UserError, masker: Masker | None = None) -> None:
    """Print the error on standard error, without the masker's values."""
    _say("\n".join(lines(error)), masker)


def report_fault(fault: BaseException, masker: Masker | None = None) -> None:
    """Print the short report of a fault of ours, with its stack, on standard error."""
    trace = "".join(traceback.format_exception(fault))
    _say(
        f"vx: internal error: {type(fault).__name__}: {fault}\n"
        f"  This is a fault of vx, not of your workspace. Please report it with the lines below.\n{trace}",
        masker,
    )


def to_descriptor(number: int, data: bytes) -> None:
    """Write all of it, past Python's buffer: what is left in that after a failure fails again."""
    left = memoryview(data)
    while left:
        left = left[os.write(number, left) :]


def _say(text: str, masker: Masker | None) -> None:
    if masker is not None:
        text = masker.text(text)
    # Whoever closed standard error or let its disk fill up cannot be told.
    with contextlib.suppress(OSError):
        to_descriptor(2, f"{text}\n".encode(errors="backslashreplace"))


def _problem(problem: Problem) -> list[str]:
    where = f"{problem.file}:{problem.line}" if problem.line else problem.file
    field = f" {problem.field}:" if problem.field else ""
    return [
        f"{printable(where)}:{printable(field)} {printable(problem.message)}",
        *_indented(problem.hint),
    ]


def _indented(hint: str) -> list[str]:
    return [f"  {printable(part)}" for part in hint.splitlines()]
