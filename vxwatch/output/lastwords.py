"""What servers printed last, for a summary that stands long after it. Pure; memory is bounded."""

from collections import deque

from vxwatch.model import TaskId

MOST = 10
"""Lines of one server."""
LONGEST = 500
"""Bytes of a line."""


class LastWords:
    """The last lines of each one, and who spoke last of all."""

    def __init__(self) -> None:
        self._lines: dict[TaskId, deque[bytes]] = {}
        self._speaker: TaskId | None = None

    def add(self, task: TaskId, data: bytes) -> None:
        """It printed these whole lines."""
        self._speaker = task
        lines = self._lines.setdefault(task, deque(maxlen=MOST))
        lines.extend(line[:LONGEST] for line in data.rstrip(b"\n").rsplit(b"\n", MOST)[-MOST:])

    def of(self, task: TaskId) -> bytes:
        """Its last lines; none if nobody has spoken since."""
        if task == self._speaker or task not in self._lines:
            return b""
        return b"".join(line + b"\n" for line in self._lines[task])
