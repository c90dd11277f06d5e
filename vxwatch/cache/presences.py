"""What was last seen on disk of the outputs of each task, and what of that is still to be told.

By task: the key whose result that is, and the presence, which is unpacked only for who looks at it.
"""

import threading
from collections.abc import Mapping

from vxwatch.cache.ondisk import Presence
from vxwatch.cache.store import spelled, unpack_presence
from vxwatch.model import TaskId

Packed = tuple[str, bytes]
"""A key, and a presence as `pack_presence` makes it."""


class Presences:
    """Of one workspace. Calls may come from different threads, changes of one task from one only."""

    def __init__(self, packed: Mapping[str, Packed]) -> None:
        """`packed` is what is told already, by `spelled` task."""
        self._packed = dict(packed)
        self._unpacked: dict[str, tuple[str, Presence]] = {}
        self._untold: dict[TaskId, Packed] = {}
        self._lock = threading.RLock()

    def key(self, task: TaskId) -> str | None:
        """The key whose result was seen."""
        name = spelled(task)
        known = self._unpacked.get(name) or self._packed.get(name)
        return known[0] if known is not None else None

    def of(self, task: TaskId) -> tuple[str, Presence] | None:
        """That key, and what was there; None if nothing is known."""
        name = spelled(task)
        with self._lock:
            if name in self._packed:
                key, data = self._packed.pop(name)
                presence = unpack_presence(data)
                if presence is not None:
                    self._unpacked[name] = key, presence
            return self._unpacked.get(name)

    def note(self, task: TaskId, key: str, packed: bytes) -> int:
        """This was seen; how many that makes that are still to be told."""
        name = spelled(task)
        with self._lock:
            self._unpacked.pop(name, None)
            self._packed[name] = self._untold[task] = key, packed
            return len(self._untold)

    def put(self, task: TaskId, key: str, presence: Presence) -> None:
        """This is there, and that is told."""
        self._unpacked[spelled(task)] = key, presence

    def settle(self, task: TaskId) -> None:
        """What was still to be told of the task is told otherwise, or not true any more."""
        with self._lock:
            self._untold.pop(task, None)

    def forget(self, task: TaskId) -> bool:
        """Nothing is known of the task any more; whether anything was."""
        name = spelled(task)
        known = [place.pop(name, None) for place in (self._packed, self._unpacked)]
        self.settle(task)
        return any(known)

    def untold(self) -> dict[TaskId, Packed]:
        """What is still to be told; it is told now."""
        with self._lock:
            untold, self._untold = self._untold, {}
        return untold
