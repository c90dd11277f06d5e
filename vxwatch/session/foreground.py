"""Who has the terminal, vx or one interactive task, and what happens when vx stops as a job.

Interactive tasks have it one after the other. Meanwhile nothing else is written to it, and when it
comes back it is as it was. Where there is none (CI), or vx is in the background, nobody gets it.

Ctrl-Z stops vx with all trees, and `fg` or `bg` lets all of them go on: their timeouts and graces
have as much left as before. A task that has the terminal is stopped by it alone, and vx follows.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Literal

from vxwatch.process import suspension
from vxwatch.process.terminal import Terminal

if TYPE_CHECKING:
    from vxwatch.events import Emit
    from vxwatch.process.keyboard import Keyboard
    from vxwatch.process.nursery import Nursery
    from vxwatch.process.tree import Tree
    from vxwatch.session.planning import Plan

_ENDED_BY = {128 + number: number for number in (signal.SIGINT, signal.SIGHUP)}
_WANTS_TERMINAL = frozenset({signal.SIGTTIN, signal.SIGTTOU})


@contextmanager
def terminal_for(plan: "Plan") -> "Iterator[Terminal | None]":
    """The terminal of vx, if a task of the plan is to have it and there is one."""
    found = None
    if any(plan.workspace.task(task).interactive for task in plan.graph.order):
        found = Terminal.open()
    try:
        yield found
    finally:
        if found is not None:
            found.close()


class Foreground:
    """The terminal of one session, with what is stopped when the session is."""

    def __init__(self, nursery: "Nursery", terminal: "Terminal | None", emit: "Emit") -> None:
        self._nursery = nursery
        self._terminal = terminal
        self._emit = emit
        self._turn = asyncio.Lock()
        self._lent = False
        self.keyboard: Keyboard | None = None

    @property
    def stdin(self) -> Literal["terminal", "inherited"]:
        """What an interactive task is launched with."""
        return "inherited" if self._terminal is None else "terminal"

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """The block in which a task may have the terminal; its tree must be gone at the end."""
        async with self._turn, self._emit.quiet():
            if self._terminal is not None:
                self._terminal.remember()
            self._lent = True
            try:
                yield
            finally:
                self._lent = False
                if self._terminal is not None:
                    self._terminal.take_back(self._nursery.pid)

    def follow(self, tree: "Tree") -> None:
        """Stop whenever this tree, which may have the terminal, is stopped."""

        def stopped(signum: int) -> None:
            if not self.stop(whole_group=True) and signum in _WANTS_TERMINAL:
                tree.hang_up()  # as a terminal does to a stopped job that nobody can continue

        if self._terminal is not None:
            self._terminal.name_borrower(tree.pid)
        tree.when_stopped(stopped)

    def ended_by(self, code: int) -> int | None:
        """The signal of the terminal that ended the task which had it, by its exit code."""
        return _ENDED_BY.get(code) if self._terminal is not None else None

    def stop(self, *, whole_group: bool = False) -> bool:
        """Stop all trees and vx until vx is continued; False if nobody could continue it."""
        if self.keyboard is not None:
            self.keyboard.release()
        self._nursery.pause()
        lent = self._terminal if self._lent else None
        if lent is not None:
            lent.take_back(self._nursery.pid)
        stopped = suspension.stop(whole_group=whole_group)
        if lent is not None:
            lent.lend_again()
        self._nursery.resume()
        if self.keyboard is not None:
            self.keyboard.refresh()
        return stopped
