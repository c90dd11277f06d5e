"""Asks the process that evaluates config programs (`program_main`) for their values."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vxwatch.process.command import capture

SECONDS = 10.0
"""How long a program may take."""

MAIN = os.path.join(os.path.dirname(__file__), "program_main.py")
_FLAGS = ("-s", "-S", "-P", "-B", "-X", "utf8")
"""Nothing that is installed counts, and no byte code is written."""
_PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class Answers:
    """What the process says of each program; those that it says nothing of have no value.

    `reason` tells how it ended, if it ended badly.
    """

    answers: Mapping[str, Mapping[str, Any]]
    reason: str


def evaluate(root: str, files: Sequence[str], environ: Mapping[str, str]) -> Answers:
    """Evaluate programs, relative to the root; what they print goes to our standard error."""
    if not files:
        return Answers({}, "")
    variables = {n: v for n, v in environ.items() if not n.startswith("PYTHON")}
    done = capture(
        (sys.executable, *_FLAGS, MAIN, f"{os.getpid()}", root, f"{SECONDS:g}", *files),
        cwd=root,
        # One order of sets each time.
        env={**variables, "PYTHONHASHSEED": "0"},
        limit=SECONDS * len(files) + _PATIENCE,
        shown=True,
    )
    answers = {}
    for line in done.out.splitlines():
        answer = json.loads(line)
        answers[answer["program"]] = answer
    reason = done.err.decode(errors="replace").strip() or f"exit code {done.code}"
    return Answers(answers, f" ({reason})" if done.code else "")
