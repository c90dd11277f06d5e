"""What `vx run` writes about itself: `--summarize`, `--profile` and `--report`."""

import json
import os
import time
from collections.abc import Mapping
from typing import Any

from vxwatch.errors import UserError
from vxwatch.masking import Masker
from vxwatch.output import summaries, tables
from vxwatch.output.record import Record
from vxwatch.process.environment import secret_values
from vxwatch.session.planning import Options, Plan

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Where GitHub Actions shows Markdown from; others may set it, too."""


def record(given: Mapping[str, Any]) -> Record:
    """What to listen to the run with. Raises `UserError` where its files cannot be written."""
    for path in filter(None, (given["summarize"], given["profile"])):
        if os.path.isdir(path) or not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            raise UserError(
                "report-file",
                f"{path}: no file can be written there",
                "name a file in a directory that exists",
            )
    begun, since = time.time(), time.monotonic()
    return Record(lambda: begun + time.monotonic() - since)


def write(seen: Record, plan: Plan, options: Options, given: Mapping[str, Any], code: int) -> int:
    """Write what was asked for about a run that ended with this exit code; the exit code of vx."""
    if seen.ended is None:
        return code  # it never came to an end, which was told
    masker = Masker(secret_values(os.environ, plan.workspace).values())
    value = summaries.summary(seen, masker.text(options.command), code)
    if given["summarize"]:
        _write(given["summarize"], json.dumps(value, indent=2) + "\n")
    if given["profile"]:
        _write(given["profile"], json.dumps(summaries.trace(value)) + "\n")
    if given["report"]:
        text = summaries.markdown(value)
        place = os.environ.get(STEP_SUMMARY)
        if place:
            _write(place, text, mode="a")
        else:
            tables.verbatim(text)
    return code


def _write(path: str, text: str, mode: str = "w") -> None:
    try:
        with open(path, mode, encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as error:
        raise UserError(
            "report-file", f"{path}: {error.strerror}", "the run itself is done", exit_code=1
        ) from None
