"""Decides which of the tasks that may start there is room for: by count, and by what they claim.

A task that waits for something holds back those behind it that claim some of the same, and no
others: it is never starved, and what nobody waits for is not left idle. One that claims more than
there is runs with nothing beside it. Whatever is queued fits once nothing runs, so that a pass
never stands still. Servers are counted apart: one that is slow to start keeps no other task waiting,
and no long task a server. Pure.
"""

import heapq
from collections.abc import Collection, Mapping

from vxwatch.model import TaskId

Claims = Mapping[str, float]
"""Amounts by the name of what there is only so much of."""


class Room:
    """What there is room for, and the tasks that wait for it."""

    def __init__(self, limit: int) -> None:
        """Room for `limit` tasks at once, and for as many servers that start meanwhile."""
        self._limit = limit
        self._servers: set[TaskId] = set()
        self._capacity: dict[str, float] = {}
        self._free: dict[str, float] = {}
        self._claims: dict[TaskId, Claims] = {}
        self._running: set[TaskId] = set()
        self._waiting: set[TaskId] = set()
        # by what their tasks claim: what is short closes a whole queue
        self._queues: dict[tuple[bool, frozenset[str]], list[tuple[float, TaskId]]] = {}

    def __contains__(self, task: TaskId) -> bool:
        """Whether the task was admitted and has not left."""
        return task in self._running

    def learn(
        self,
        capacity: Claims,
        claims: Mapping[TaskId, Claims],
        servers: Collection[TaskId] = (),
    ) -> None:
        """The tasks that run together claim no more than the capacity, and these are servers.

        What a task was first said to claim stands.
        """
        self._servers.update(servers)
        self._free |= {name: amount for name, amount in capacity.items() if name not in self._free}
        self._capacity |= capacity
        self._claims = {**claims, **self._claims}

    @property
    def taken(self) -> frozenset[TaskId]:
        """The tasks that were admitted and have not left."""
        return frozenset(self._running)

    def queue(self, task: TaskId, weight: float) -> None:
        """The task may start; the heaviest are admitted first, of equal ones the first by name."""
        kind = task in self._servers, frozenset(self._claimed(task))
        self._waiting.add(task)
        heapq.heappush(self._queues.setdefault(kind, []), (-weight, task))

    def forget(self, task: TaskId) -> None:
        """The task will not start."""
        self._waiting.discard(task)

    def admit(self) -> list[TaskId]:
        """The tasks that there is room for now, each of which has to `leave`."""
        admitted: list[TaskId] = []
        short: set[str] = set()
        while queue := self._first(short):
            if self._is_closed(queue[0][1]):
                break
            lacking = self._lacking(queue[0][1])
            if lacking:
                short |= lacking
                continue
            _, task = heapq.heappop(queue)
            self._waiting.remove(task)
            self._running.add(task)
            self._count(task, -1)
            admitted.append(task)
        return admitted

    def leave(self, task: TaskId) -> None:
        """An admitted task ended."""
        self._running.remove(task)
        self._count(task, 1)

    def _first(self, short: set[str]) -> list[tuple[float, TaskId]] | None:
        """The queue that begins with what is to start next, of those that claim nothing short."""
        found = None
        starting = len(self._running & self._servers)
        running = {True: starting, False: len(self._running) - starting}
        for (server, kind), queue in self._queues.items():
            while queue and queue[0][1] not in self._waiting:
                heapq.heappop(queue)
            open_ = running[server] < self._limit and short.isdisjoint(kind)
            if queue and open_ and (found is None or queue[0] < found[0]):
                found = queue
        return found

    def _is_closed(self, task: TaskId) -> bool:
        """Whether nothing may start: a task runs that has to be alone, or this is one and waits."""
        if not self._claims or not self._running:
            return False
        return any(map(self._is_too_large, (task, *self._running)))

    def _is_too_large(self, task: TaskId) -> bool:
        return any(amount > self._capacity[name] for name, amount in self._claimed(task).items())

    def _lacking(self, task: TaskId) -> set[str]:
        if not self._running:
            return set()
        return {name for name, amount in self._claimed(task).items() if amount > self._free[name]}

    def _count(self, task: TaskId, sign: int) -> None:
        for name, amount in self._claimed(task).items():
            self._free[name] += sign * amount

    def _claimed(self, task: TaskId) -> Claims:
        claims = self._claims.get(task)
        if not claims:
            return {}
        return {name: amount for name, amount in claims.items() if name in self._capacity}
