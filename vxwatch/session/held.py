"""Configs that appeared where a task may write in its sandbox: nobody obeys them while it runs.

They count once the user saves them after that.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from vxwatch.errors import UserError

if TYPE_CHECKING:
    from vxwatch.model import TaskId
    from vxwatch.session.configs import ConfigFiles
    from vxwatch.session.session import Session


class HeldConfigs:
    """Those of one session; `note` takes a line for the user and what to do."""

    def __init__(
        self, session: "Session", configs: "ConfigFiles", note: Callable[[str, str], None]
    ) -> None:
        self._session = session
        self._configs = configs
        self._note = note
        self._kept_out: frozenset[str] = frozenset()

    def let_in(self, changed: frozenset[str]) -> frozenset[str]:
        """These without what a task made, with what the user saved of that since."""
        held = self._held()
        known = self._kept_out
        self._kept_out = (known | changed).intersection(held)
        for path in sorted(self._kept_out - known):
            self._note(
                f"{path} is not loaded: it appeared where {held[path]} may write in its sandbox",
                "save it when that task has ended, or restart vx",
            )
        return (changed - held.keys()) | (known - held.keys())

    def refuse(self) -> None:
        """Raise `UserError` while there is one: whatever is loaded would be made of it, too."""
        for path, task in self._held().items():
            raise UserError(
                "config-from-sandbox",
                f"{path} appeared where {task} may write in its sandbox, so vx loads nothing now",
                "remove it, save it when that task has ended, or restart vx",
            )

    def _held(self) -> "dict[str, TaskId]":
        root = self._session.workspace.root
        held = self._session.sandbox.held().items()
        there = {os.path.relpath(path, root): task for path, task in held if os.path.lexists(path)}
        return {path: task for path, task in there.items() if self._configs.counts(path)}
