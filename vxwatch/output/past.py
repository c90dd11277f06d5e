"""The words for earlier runs: the values of `vx last` as lines and rows. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from vxwatch.output.text import SIGNALS, code, duration, tally
from vxwatch.sizes import format_size

_HEADS = ("task", "status", "time", "cpu", "memory", "")


def head(run: Mapping[str, Any]) -> str:
    """What was run, when, and how it went."""
    parts = [f"run {run['run']}: {run['command']}", f"{run['ago']} ago", *_ending(run)]
    return ", ".join((*parts, tally(run["counts"])))


def rows(run: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The tasks of a run, below what the columns say."""
    yield _HEADS
    for one in run["tasks"]:
        yield (
            *(one["task"], one["status"]),
            duration(one["seconds"]) if one["seconds"] else "",
            duration(one["cpu"]) if one["cpu"] else "",
            format_size(one["peak_memory"]) if one["peak_memory"] else "",
            _cause(one),
        )


def listed(runs: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """A row for each run."""
    for run in runs:
        ending = ", ".join(_ending(run))
        yield str(run["run"]), f"{run['ago']} ago", run["command"], ending, tally(run["counts"])


def _ending(run: Mapping[str, Any]) -> Iterator[str]:
    if run["seconds"] is None:
        yield "goes on, or was killed"
        return
    if run["signal"] is not None:
        yield f"stopped by {SIGNALS.get(run['signal'], run['signal'])}"
    yield duration(run["seconds"])


def _cause(one: Mapping[str, Any]) -> str:
    parts = [one["detail"]] if one["detail"] else []
    if one["code"]:
        parts.append(code(one["code"]))
    if one["attempts"] > 1:
        parts.append(f"{one['attempts']} attempts")
    return ", ".join(parts)
