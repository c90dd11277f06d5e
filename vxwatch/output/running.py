"""The words for sessions that run: the values of `vx ps` as lines and rows. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from vxwatch.events import Outcome
from vxwatch.output.text import code, duration, outcome

_HEADS = ("task", "state", "pid", "time", "restarts", "")


def head(session: Mapping[str, Any]) -> str:
    """Which session it is, and what it does."""
    parts = [f"pid {session['pid']}: {session['command']}", duration(session["uptime"])]
    if session["cycle"]:
        parts.append(f"cycle {session['cycle']}")
    return ", ".join((*parts, session["state"]))


def rows(session: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A row for each server and each task that runs, below what the columns say."""
    servers = [_server(one) for one in session["servers"]]
    tasks = [
        (one["task"], "running", _number(one["pid"]), duration(one["seconds"]), "", "")
        for one in session["tasks"]
    ]
    return [_HEADS, *servers, *tasks] if servers or tasks else []


def restarted(result: Outcome, urls: Sequence[str]) -> list[str]:
    """How the restart of a server went."""
    line = outcome(result)
    if result.ok:
        line = " ".join((f"{result.task} ready again", *urls))
    return [
        f"{line} ({duration(result.seconds)})",
        *(f"  {part}" for part in result.hint.splitlines()),
    ]


def _server(one: Mapping[str, Any]) -> tuple[str, ...]:
    where = " ".join(one["urls"]) if one["state"] == "ready" else ""
    if one["code"] is not None and one["state"] in ("crashed", "failed", "pausing"):
        where = code(one["code"])
    time = "" if one["uptime"] is None else duration(one["uptime"])
    return one["task"], one["state"], _number(one["pid"]), time, str(one["restarts"]), where


def _number(value: int | None) -> str:
    return str(value) if value else ""
