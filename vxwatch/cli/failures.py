"""What ends a command: the user's errors in a line or two, a fault of ours with its stack."""

import os
from collections.abc import Iterator

from vxwatch.errors import UserError
from vxwatch.masking import Masker

INTERNAL_FAULT = 70


def report(fault: Exception, masker: Masker | None = None) -> int:
    """Say what happened, without the masker's values; return the exit code."""
    from vxwatch.output import diagnostics

    errors = list(_leaves(fault))
    if not all(isinstance(error, UserError) for error in errors):
        diagnostics.report_fault(fault, masker)
        return INTERNAL_FAULT
    users = [error for error in errors if isinstance(error, UserError)]
    for error in users:
        diagnostics.report(error, masker)
    return users[0].exit_code


def report_unwritten(failure: OSError) -> int:
    """Say that standard output takes no more, and have what is left for it go nowhere."""
    from vxwatch.output import diagnostics

    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    return report(diagnostics.unwritable(failure))


def _leaves(fault: Exception) -> Iterator[Exception]:
    """What went wrong, out of the groups that concurrent work raises."""
    if isinstance(fault, ExceptionGroup):
        for part in fault.exceptions:
            yield from _leaves(part)
    else:
        yield fault
