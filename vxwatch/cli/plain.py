"""Starts `run` and `watch` where they are given task names only, without the parser of options.

That loads as much as half of what a run loads, and most command lines need none of it. What they
leave out has the values here, which are those that the parser gives.
"""

from collections.abc import Mapping
from typing import Any, Literal

Verb = Literal["run", "watch"]
SHARED: Mapping[str, Any] = {
    "everywhere": False,
    "filters": (),
    "concurrency": None,
    "renew": False,
    "no_cache": False,
    "cache_use": None,
    "cache_dir": None,
    "frozen": False,
}
RUN: Mapping[str, Any] = {
    **SHARED,
    "keep_going": "never",
    "affected": None,
    "learn": False,
    "alone": False,
    "dry": None,
    "summarize": None,
    "profile": None,
    "report": None,
    "graph": False,
}
WATCH: Mapping[str, Any] = {
    **SHARED,
    "keep_going": "deps-ok",
    "debounce": "15ms",
    "on_busy": "restart-stale",
}
GIVEN: Mapping[Verb, Mapping[str, Any]] = {"run": RUN, "watch": WATCH}


def read(words: list[str]) -> tuple[Verb, dict[str, Any]] | None:
    """What the command line means; None where it takes the parser to say.

    Of the options, `--all` is known here.
    """
    verb = next((one for one in GIVEN if words[:1] == [one]), None)
    if verb is None:
        return None
    names = words[1:]
    tasks = tuple(name for name in names if name != "--all")
    if any(name.startswith("-") for name in tasks):
        return None
    return verb, {**GIVEN[verb], "words": tasks, "everywhere": "--all" in names}


def begin(verb: Verb, given: Mapping[str, Any]) -> int:
    """Run it; return the exit code. No stack reaches a user but for a fault of ours."""
    try:
        from vxwatch.cli import sessions

        return sessions.begin(verb, forwarded=(), **given)
    except Exception as fault:  # noqa: BLE001 - the one place where every failure ends
        from vxwatch.cli import failures

        return failures.report(fault)
