"""Notes of the verbs that print nothing but their answer on standard output."""

from vxwatch.errors import UserError
from vxwatch.output import diagnostics


def to_standard_error(text: str, hint: str) -> None:
    """Say it where it is no part of the answer."""
    diagnostics.report(UserError("cache", text, hint))
