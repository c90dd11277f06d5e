"""What a watch says once each, so that nobody wonders."""

from typing import TYPE_CHECKING

from vxwatch.events import Notice, Refused

if TYPE_CHECKING:
    from collections.abc import Collection

    from vxwatch.errors import UserError
    from vxwatch.model import TaskId
    from vxwatch.session.reach import Reach
    from vxwatch.session.session import Session

MOST_NAMED = 3
"""Unreadable paths that are named one by one."""


class Remarks:
    """Of one watch."""

    def __init__(self, session: "Session", reach: "Reach") -> None:
        self._session = session
        self._reach = reach
        self._kept: set[TaskId] = set()
        self._renewed: set[TaskId] = set()
        self._unreadable: set[str] = set()
        self._refused: UserError | None = None

    def note(self, text: str, hint: str = "") -> None:
        """Say it, each time."""
        self._session.emit(Notice(text, hint))

    def keeps_running(self, changed: frozenset[str], but: "Collection[TaskId]") -> None:
        """Name the servers in whose project nothing takes up a change."""
        session = self._session
        for task, server in session.servers.items():
            if task in self._kept or task in but or not server.alive:
                continue
            path = self._reach.left_alone(task, changed)
            if path is not None:
                self._kept.add(task)
                config = session.workspace.projects[server.task.project].config
                why = f"no restart_on in {config} names {path}"
                if server.restarts == "never":
                    why = f'restart = "never" in {config}'
                self.note(f"{task} keeps running ({why})")

    def replaced(self, task: "TaskId", path: str, *, never: bool) -> None:
        """The box of a server shows what is no longer there; whether it `never` restarts."""
        if task not in self._renewed:
            self._renewed.add(task)
            does = 'keeps running (restart = "never")' if never else "restarts"
            self.note(
                f"{task} {does}: {path} was replaced, and a sandbox keeps what it was given",
                "grant the directory that it lies in, and no restart is needed",
            )

    def unreadable(self) -> None:
        """Name what cannot be read."""
        reasons = self._session.index.unreadable
        fresh = sorted(reasons.keys() - self._unreadable)
        self._unreadable.update(fresh)
        for path in fresh[:MOST_NAMED]:
            self.note(f"{path} cannot be read ({reasons[path]}): a change of it may go unseen")
        if more := len(fresh[MOST_NAMED:]):
            self.note(f"{more} more cannot be read")

    def refuse(self, error: "UserError") -> None:
        """Say why nothing goes on, unless it was said last and nothing was saved to mend it."""
        before, self._refused = self._refused, error
        if before is None or vars(before) != vars(error):
            self._session.emit(Refused(error))

    def mended(self) -> None:
        """Something was saved that may mend it, or somebody asks for it: say it once more."""
        self._refused = None
