"""What is written about a run at its end: a summary, a trace for a browser, Markdown. Pure.

All are made of the value of the summary, so that they say the same.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from vxwatch.output.record import Record
from vxwatch.output.text import SIGNALS, code, duration, printable, tally
from vxwatch.sizes import format_size

_MICRO = 1_000_000
_UNTOUCHED = ("fresh", "kept")


def summary(record: Record, command: str, exit_code: int) -> dict[str, Any]:
    """The run and all its tasks, as JSON has them: times in seconds, memory in bytes."""
    assert record.ended is not None
    tasks = []
    counts: dict[str, int] = {}
    for outcome in record.ended.outcomes:
        counts[outcome.status] = counts.get(outcome.status, 0) + 1
        value = outcome._asdict()
        value["peak_memory"] = value.pop("peak_rss")
        del value["faults"]
        tasks.append({**value, "started": record.started(outcome)})
    return {
        "command": command,
        "started": record.begun,
        "seconds": record.ended.seconds,
        "signal": record.ended.signal,
        "exit_code": exit_code,
        "counts": counts,
        "tasks": tasks,
    }


def trace(value: Mapping[str, Any]) -> dict[str, Any]:
    """A trace in Chrome's format: tasks that took time, in as few lanes as they overlap in."""
    lanes: list[float] = []
    events = []
    timed = [task for task in value["tasks"] if task["seconds"]]
    for task in sorted(timed, key=lambda task: float(task["started"])):
        begin = task["started"]
        lane = next((n for n, end in enumerate(lanes) if end <= begin), len(lanes))
        lanes[lane : lane + 1] = [begin + task["seconds"]]
        shown = ("status", "code", "cpu", "peak_memory", "attempts")
        events.append(
            {
                "name": task["task"],
                "cat": task["status"],
                "ph": "X",
                "ts": round((begin - value["started"]) * _MICRO),
                "dur": round(task["seconds"] * _MICRO),
                "pid": 1,
                "tid": lane + 1,
                "args": {name: task[name] for name in shown},
            }
        )
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def markdown(value: Mapping[str, Any]) -> str:
    """A heading, and a table of what was not just found fresh, failures first."""
    return "".join(f"{line}\n" for line in _markdown(value))


def _markdown(value: Mapping[str, Any]) -> Iterator[str]:
    signal = value["signal"]
    stopped = "" if signal is None else f", stopped by {SIGNALS.get(signal, signal)}"
    yield f"### `{_code(value['command'])}`"
    yield ""
    yield f"{tally(value['counts'])} in {duration(value['seconds'])}{stopped}"
    tasks = [task for task in value["tasks"] if task["status"] not in _UNTOUCHED]
    if not tasks:
        return
    yield ""
    yield "| task | status | time | memory | |"
    yield "| --- | --- | ---: | ---: | --- |"
    for task in sorted(tasks, key=lambda task: str(task["status"]) != "failed"):
        time = duration(task["seconds"]) if task["seconds"] else ""
        memory = format_size(task["peak_memory"]) if task["peak_memory"] else ""
        cells = (f"`{_code(task['task'])}`", task["status"], time, memory, _cause(task))
        yield f"| {' | '.join(cells)} |"


def _cause(task: Mapping[str, Any]) -> str:
    parts = [task["detail"], code(task["code"]) if task["code"] else "", *task["findings"]]
    if task["blocked_by"]:
        parts.append(f"{task['blocked_by']} did not succeed")
    return "; ".join(_text(part) for part in parts if part)


def _text(text: str) -> str:
    """Text of which Markdown makes nothing else."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~&-])", r"\\\1", printable(text))


def _code(text: str) -> str:
    """What can stand between backticks in a table."""
    return printable(text).replace("`", "'").replace("|", "\\|")
