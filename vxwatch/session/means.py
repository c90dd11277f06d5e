"""What the tasks of a session cost: how long they took before, what they claim of the machine.

Looked up when it is first of use: never for a pass whose tasks can all start at once, nor for one
in which nothing claims anything.
"""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from vxwatch.cache.history import durations
from vxwatch.cache.store import spelled
from vxwatch.events import Notice, Outcome
from vxwatch.graph.schedule import Costs
from vxwatch.process.machine import Machine, look
from vxwatch.sizes import format_size

if TYPE_CHECKING:
    from vxwatch.graph.room import Claims
    from vxwatch.model import Resources, Task, TaskId
    from vxwatch.session.session import Session

UNKNOWN = 1.0
"""Seconds that a task takes where nobody knows of any."""


class Means:
    """Of one session."""

    def __init__(self, session: "Session", look: Callable[[], Machine] = look) -> None:
        self._session = session
        self._look = look
        self._machine: Machine | None = None
        self._seconds: dict[str, float] | None = None
        self._usual = UNKNOWN
        self._told: set[TaskId] = set()

    def costs(self, pending: "Collection[TaskId]", limit: int) -> Costs:
        """Of a pass over the pending tasks, of which so many may run at once."""
        tasks = [self._session.workspace.task(task) for task in pending]
        claims = {task.id: _claims(task.resources) for task in tasks if task.resources is not None}
        capacity: Claims = self._capacity(tasks) if claims else {}
        servers = self._session.plan.servers.intersection(pending)
        if len(tasks) <= limit and not claims:
            return Costs(claims=claims, capacity=capacity, servers=servers)
        groups = {task.id: 0.0 for task in tasks if task.command is None}
        known = self._known()
        seconds = {task.id: known[name] for task in tasks if (name := spelled(task.id)) in known}
        return Costs(seconds | groups, self._usual, claims, capacity, servers)

    def learn(self, outcome: Outcome) -> None:
        """A task ended."""
        if outcome.status == "ran" and self._seconds is not None:
            self._seconds[spelled(outcome.task)] = outcome.seconds

    def _known(self) -> "Mapping[str, float]":
        if self._seconds is None:
            self._seconds = {}
            cache = self._session.known.open_cache()
            if cache is not None and cache.store is not None:
                with cache.trouble("nobody knows how long tasks take"):
                    self._seconds = durations(cache.store, self._session.workspace.root)
            ordered = sorted(self._seconds.values())
            self._usual = ordered[len(ordered) // 2] if ordered else UNKNOWN
        return self._seconds

    def _capacity(self, tasks: "Collection[Task]") -> "Claims":
        if self._machine is None:
            self._machine = self._look()
        machine = self._machine
        for task in tasks:
            if task.resources is not None and not machine.can_hold(task.resources):
                self._say_too_large(task, task.resources, machine)
        memory = {} if machine.memory is None else {"memory": float(machine.memory)}
        return {"cpus": machine.cpus, **memory}

    def _say_too_large(self, task: "Task", needs: "Resources", machine: Machine) -> None:
        if task.id in self._told:
            return
        self._told.add(task.id)
        if needs.cpus > machine.cpus:
            more = f"{needs.cpus} cores, and there are {machine.cpus:g}"
        else:
            more = f"{format_size(needs.memory)} of memory, and there is {format_size(machine.memory or 0)}"
        self._session.emit(Notice(f"{task.id} runs alone: it needs {more}", "", "warning"))


def _claims(resources: "Resources") -> "Claims":
    claims = {"cpus": float(resources.cpus), "memory": float(resources.memory)}
    return {name: amount for name, amount in claims.items() if amount}
