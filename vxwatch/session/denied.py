"""What a task's sandbox denied it, as a part of its outcome."""

from typing import TYPE_CHECKING

from vxwatch.errors import UserError
from vxwatch.events import Learned, Notice, Outcome
from vxwatch.session.born import HINT, appeared

if TYPE_CHECKING:
    from vxwatch.hosts import Refusal
    from vxwatch.model import Task
    from vxwatch.process.tree import Exit
    from vxwatch.sandbox.boxes import Box
    from vxwatch.sandbox.trace import Report
    from vxwatch.session.session import Session
    from vxwatch.session.unit import Unit

DENIED = "its sandbox denied it something"
_UNREADABLE = "cannot read the directory it runs in"


async def report_of(live: "Unit", end: "Exit") -> "Report | None":
    """What the command of a task, which has ended so, was denied; None where nothing can be."""
    return None if live.report is None else await live.report(end.code)


def with_report(outcome: Outcome, report: "Report", task: "Task") -> Outcome:
    """The outcome of a task with this report: who was denied something has failed."""
    said, hints = report.findings, report.remedies
    if report.first:
        said = (_UNREADABLE, *said)
        hints = hints or (f'allow it: tasks.{task.name}.sandbox.allow.read = ["."]',)
    if not said:
        return outcome
    if outcome.status == "ran":
        outcome = outcome._replace(status="failed", code=1, detail=outcome.detail or DENIED)
    hint = "\n".join(filter(None, (*hints, outcome.hint)))
    return outcome._replace(findings=said, hint=hint, faults=0)


def remark(session: "Session", task: "Task", report: "Report") -> None:
    """Tell what the user should know of the tracing itself."""
    if report.learned:
        session.emit(Learned(task.id, report.learned))
    for text, hint in session.sandbox.remarks():
        session.emit(Notice(text, hint))
    if report.lost:
        session.sandbox.distrust_tracer(task)
        session.emit(
            Notice(
                f"{task.id} could not be traced and runs once more, untraced: "
                "its sandbox holds, but what it is denied is not told",
                level="warning",
            )
        )
    if report.cut:
        session.emit(
            Notice(f"{task.id} did more than is looked at: it may have been denied more than told")
        )


def tell_refusal(session: "Session", task: "Task", refusal: "Refusal") -> None:
    """Tell of a connection that a server was refused; it goes on."""
    from vxwatch.sandbox.proxy import with_refusals  # noqa: PLC0415 - few servers have a network
    from vxwatch.sandbox.trace import Report  # noqa: PLC0415

    _tell(session, task, with_refusals(Report(), (refusal,), task))


def tell_left(session: "Session", task: "Task", box: "Box") -> None:
    """Tell of what a server, which has ended, left that it may not leave."""
    if born := box.born():
        session.emit(Notice(f"{task.id}: {appeared(session.workspace.root, born)}", HINT))
    try:
        _tell(session, task, box.left())
    except UserError as error:
        session.emit(Notice(f"{task.id}: {error.message}", error.hint, level="warning"))


def _tell(session: "Session", task: "Task", report: "Report") -> None:
    for said in report.findings:
        hint = "\n".join(report.remedies)
        session.emit(Notice(f"sandbox: {task.id} {said}", hint, level="warning"))
