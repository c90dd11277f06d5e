"""Events as lines, for a terminal, a pipe and a CI log alike.

One requested task streams raw, as if it ran alone; several requested tasks show their output
as one block each when they end; a dependency is silent unless it fails; servers are prefixed
with their name, line by line. vx's own lines always start a line of their own. No output is
dropped: what a mode does not show at once is kept until it is known whether it must be shown.
"""

from collections.abc import AsyncIterator, Awaitable, Generator, Iterable
from contextlib import asynccontextmanager
from itertools import chain
from typing import Literal, assert_never

from vxwatch.events import (
    CycleEnded,
    CycleStarted,
    Event,
    Learned,
    Notice,
    Outcome,
    Refused,
    RunEnded,
    RunStarted,
    ServerExited,
    ServerReady,
    Shown,
    TaskEnded,
    TaskOutput,
    TaskRestarted,
    TaskRetried,
    TaskStarted,
    Watching,
)
from vxwatch.model import TaskId
from vxwatch.output import diagnostics, text
from vxwatch.output.kept import Kept
from vxwatch.output.lastwords import LastWords
from vxwatch.output.lines import Lines
from vxwatch.output.style import Style
from vxwatch.output.writer import Writer

Mode = Literal["raw", "lines", "prefix", "block", "quiet"]
"""How a task's output is shown: at once as bytes, at once as whole lines, as prefixed lines,
as a block at its end, or as a block only if it fails."""

Source = tuple[TaskId, str]
"""A task and one of its streams."""

OUT, ERR = 1, 2
CLEAR = b"\x1b[H\x1b[2J"
MOST_SKIPPED = 10
"""Skipped tasks that the summary names; in a large workspace thousands may be."""


def mode_of(task: TaskId, run: RunStarted, *, ci: bool) -> Mode:
    """How this task's output is shown in this run."""
    if task in run.servers:
        return "raw" if run.verb == "run" and run.planned == (task,) else "prefix"
    if ci:
        return "block"
    if run.broad or task not in run.requested:
        return "quiet"
    if sum(1 for one in run.requested if one not in run.servers) > 1:
        return "block"
    return "lines" if run.servers else "raw"


class Plain:
    """The renderer. Calling it with an event never blocks; `drained` is the back-pressure."""

    def __init__(self, writer: Writer, style: Style, *, ci: bool) -> None:
        self._writer = writer
        self._style = style
        self._ci = ci
        self._run: RunStarted | None = None
        self._names: dict[TaskId, str] = {}
        self._parts: dict[Source, Lines] = {}
        self._unfinished: Source | None = None
        self._last_words = LastWords()
        self._kept: dict[TaskId, Kept] = {}
        self._loud: set[TaskId] = set()
        self._at_line_start = True
        self._painted = False

    def drained(self) -> Awaitable[None] | None:
        """What to wait for until the writer has room again; None if it has."""
        return self._writer.drained()

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """Leave the terminal to somebody else; what comes meanwhile is shown afterwards."""
        self._fresh_line()
        try:
            await self._writer.hold()
            yield
        finally:
            self._writer.release(self._style.reset)

    def close(self) -> None:
        """Leave no colour, and the cursor shown, where output was cut in the middle."""
        if self._painted:
            self._painted = False
            self._writer.write(OUT, self._style.reset)

    def __call__(self, event: Event, /) -> None:  # noqa: C901, PLR0912 - one arm per kind of event
        """Show the event."""
        match event:
            case RunStarted():
                self._run = event
                self._names = _short_names(event)
            case TaskOutput():
                self._output(event)
            case TaskRetried():
                self._retried(event)
            case TaskRestarted():
                self._restarted(event)
            case TaskEnded():
                self._ended(event.outcome)
            case ServerReady():
                self._ready(event)
            case ServerExited():
                self._server_exited(event)
            case CycleEnded():
                self._cycle(event)
            case Watching():
                noun = "project" if event.projects == 1 else "projects"
                self._line(f"watching {event.projects} {noun}", "dim")
            case Notice():
                self._line(f"{event.level}: {text.printable(event.text)}", event.level)
                self._hint(event.hint)
            case Learned():
                self._fresh_line()
                for line in event.lines:
                    self._line(text.printable(line), "plain")
            case Refused():
                for line in diagnostics.lines(event.error):
                    self._line(line, "error")
            case Shown():
                self._shown(event)
            case RunEnded():
                self._summary(event)
            case CycleStarted() | TaskStarted():
                pass
            case _:
                assert_never(event)

    def _output(self, event: TaskOutput) -> None:
        mode = self._mode(event.task)
        if mode == "raw":
            self._raw(event.data, ERR if event.stream == "stderr" else OUT)
        elif mode in ("block", "quiet"):
            self._keep(event.task, event.data)
        else:
            self._feed((event.task, event.stream), event.data, mode)

    def _feed(self, source: Source, data: bytes, mode: Mode) -> None:
        lines = self._parts.setdefault(source, Lines())
        self._whole(source, lines.feed(data), mode)

    def _whole(self, source: Source, data: bytes, mode: Mode) -> None:
        """Show whole lines, or a further piece of a line that is too long to wait for its end."""
        if not data:
            return
        goes_on = self._unfinished == source and not self._at_line_start
        if not goes_on:
            self._fresh_line()
        if mode == "prefix":
            self._last_words.add(source[0], data)
            prefix = self._prefix(source[0])
            data = (b"" if goes_on else prefix) + prefixed_within(data, prefix)
        self._raw(data, OUT)
        self._unfinished = source

    def _prefix(self, task: TaskId) -> bytes:
        return self._style.prefix(self._names.get(task, task))

    def _retried(self, event: TaskRetried) -> None:
        """Say it at once, and again where the attempts are shown one after the other later."""
        line = f"retrying {event.task} ({event.attempt}/{event.most}) after {event.cause}"
        self._flush(event.task)
        self._line(line, "warning")
        if kept := self._kept.get(event.task):
            start = "" if kept.at_line_start else "\n"
            self._keep(event.task, f"{start}{line}\n".encode(errors="backslashreplace"))

    def _restarted(self, event: TaskRestarted) -> None:
        """What the run that was ended has printed is of no use to anybody who did not see it."""
        self._flush(event.task)
        self._loud.discard(event.task)
        if kept := self._kept.pop(event.task, None):
            kept.close()
        cause = text.printable(event.path) if event.path else "what it depends on"
        self._line(f"restarting {event.task}: {cause} changed while it ran", "dim")

    def _ended(self, result: Outcome) -> None:
        self._flush(result.task)
        mode = self._mode(result.task)
        self._loud.discard(result.task)
        kept = self._kept.pop(result.task, None)
        failed = result.status == "failed"
        watch = self._run is not None and self._run.verb == "watch"
        # Who ends a run wants to see how far it came; who ends a watch leaves.
        aborted = result.status == "aborted"
        wanted = not watch if aborted else failed or mode == "block"
        shown = kept is not None and wanted
        # In a run the summary says it, right below output that was shown as it came.
        streamed = not watch and mode in ("raw", "lines", "prefix")
        told = failed or (result.status == "ran" and (watch or self._broad()))
        if shown or (told and not streamed):
            self._outcome(result)
        if kept is not None and shown:
            self._replay(kept)
        elif kept is not None:
            kept.close()

    def _replay(self, kept: Kept) -> None:
        self._fresh_line()
        self._writer.write_all(OUT, kept.pieces(), kept.in_memory)
        self._painted = self._painted or kept.coloured
        self._at_line_start = kept.at_line_start
        self._fresh_line()

    def _outcome(self, result: Outcome) -> None:
        line = text.outcome(result)
        if result.seconds:
            line += f" ({text.duration(result.seconds)})"
        self._line(f"{self._style.glyph(result.status)} {text.printable(line)}", result.status)
        for finding in result.findings:
            self._line(f"sandbox: {result.task} {text.printable(finding)}", result.status)
        self._hint(result.hint)

    def _ready(self, event: ServerReady) -> None:
        self._flush(event.task)
        where = " " + " ".join(event.urls) if event.urls else ""
        again = " again" if event.restarted else ""
        self._line(f"{self._style.glyph('ready')} {event.task} ready{again}{where}", "ready")

    def _server_exited(self, event: ServerExited) -> None:
        self._flush(event.task)
        if not event.asked:
            glyph = self._style.glyph("failed")
            self._line(f"{glyph} {text.server_exited(event)}", "failed")

    def _cycle(self, event: CycleEnded) -> None:
        if self._run is not None and self._run.verb == "watch":
            # What failed in this cycle was just shown; what failed before may be long gone.
            if not any(result.status == "failed" for result in event.outcomes):
                self._skipped(event.outcomes)
            self._line(
                text.cycle(event.number, event.outcomes, event.kept, event.seconds, event.paths),
                "dim",
            )

    def _shown(self, event: Shown) -> None:
        if event.clear:
            self._fresh_line()
            self._writer.write(OUT, CLEAR)
        for line in event.lines:
            self._line(text.printable(line), "dim")
        if event.output:
            self._fresh_line()
            self._raw(event.output, OUT)
            self._fresh_line()

    def _summary(self, event: RunEnded) -> None:
        for task in {task for task, _ in self._parts}:
            self._flush(task)
        if self._run is not None and self._run.verb == "watch":
            self._line("stopped", "dim")
            return
        if event.signal is not None:
            self._line(f"stopped by {text.SIGNALS.get(event.signal, event.signal)}", "dim")
        self._line(f"{text.counts(event.outcomes)} in {text.duration(event.seconds)}", "dim")
        self._skipped(event.outcomes)
        for result in event.outcomes:
            if result.status == "failed":
                self._outcome(result)
                # Others may have said much since, when they were ended.
                self._whole((result.task, ""), self._last_words.of(result.task), "prefix")

    def _skipped(self, outcomes: Iterable[Outcome]) -> None:
        skipped = [result for result in outcomes if result.status == "skipped"]
        for result in skipped[:MOST_SKIPPED]:
            self._outcome(result)
        if len(skipped) > MOST_SKIPPED:
            self._line(f"- and {len(skipped) - MOST_SKIPPED} more skipped", "skipped")

    def _mode(self, task: TaskId) -> Mode:
        if task in self._loud:
            return "prefix"
        return mode_of(task, self._run, ci=self._ci) if self._run else "raw"

    def _broad(self) -> bool:
        return self._run is not None and self._run.broad

    def _keep(self, task: TaskId, data: bytes) -> None:
        """Keep it for the task's end; where there is no room, show it as it comes from now on."""
        kept = self._kept.setdefault(task, Kept())
        try:
            kept.write(data)
        except OSError as error:
            self._line(
                f"note: {task} is shown as it comes: what it prints cannot be kept "
                f"in the temporary directory ({error.strerror})",
                "note",
            )
            self._loud.add(task)
            self._show_so_far(task, self._kept.pop(task), data)

    def _show_so_far(self, task: TaskId, kept: Kept, data: bytes) -> None:
        cut = data.rfind(b"\n") + 1
        pieces = _prefixed(chain(kept.pieces(), (data[:cut],)), self._prefix(task))
        self._writer.write_all(OUT, pieces, kept.in_memory + cut)
        self._painted = self._painted or kept.coloured
        self._feed((task, "stdout"), data[cut:], "prefix")

    def _flush(self, task: TaskId) -> None:
        for stream in ("stdout", "stderr"):
            lines = self._parts.pop((task, stream), None)
            if lines is not None:
                self._whole((task, stream), lines.end(), self._mode(task))
        self._unfinished = None

    def _line(self, line: str, look: str) -> None:
        self._fresh_line()
        self.close()
        self._raw(self._style.paint(line, look).encode(errors="backslashreplace") + b"\n", OUT)
        self._painted = False

    def _hint(self, hint: str) -> None:
        for part in hint.splitlines():
            self._line("  " + text.printable(part), "hint")

    def _fresh_line(self) -> None:
        if not self._at_line_start:
            self._raw(b"\n", OUT)

    def _raw(self, data: bytes, fd: int) -> None:
        if data:
            self._writer.write(fd, data)
            self._unfinished = None
            self._painted = self._painted or b"\x1b" in data
            self._at_line_start = data.endswith(b"\n")


def prefixed_within(data: bytes, prefix: bytes) -> bytes:
    """The data with the prefix where a line begins, but for its first one.

    A carriage return begins a line too: what follows it covers what stood there.
    """
    if b"\r" in data:
        first, *others = data.splitlines(keepends=True)
        return b"".join((first, *(prefix + line for line in others)))
    return data[:-1].replace(b"\n", b"\n" + prefix) + data[-1:]


def _prefixed(pieces: Iterable[bytes], prefix: bytes) -> Generator[bytes]:
    """The same text as lines with the prefix, the last one ended."""
    lines = Lines()
    at_start = True
    for piece in chain(pieces, (b"",)):
        whole = lines.feed(piece) or (b"" if piece else lines.end())
        if whole:
            yield (prefix if at_start else b"") + prefixed_within(whole, prefix)
            at_start = whole.endswith(b"\n")
    if not at_start:
        yield b"\n"


def _short_names(run: RunStarted) -> dict[TaskId, str]:
    """Prefixes of servers: the project where that is enough to tell them apart, padded alike."""
    projects = [task.rpartition("#")[0] for task in run.servers]
    unique = (
        len(set(projects)) == len(projects)
        and len({t.rpartition("#")[2] for t in run.servers}) == 1
    )
    names = {task: task.rpartition("#")[0 if unique else 2] for task in sorted(run.servers)}
    if len(set(names.values())) != len(names):
        names = {task: task for task in names}
    width = max((len(name) for name in names.values()), default=0)
    return {task: name.ljust(width) for task, name in names.items()}
