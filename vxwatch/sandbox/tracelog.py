"""Reads what strace writes about a task: which paths and addresses it was refused.

`TraceLog` takes bytes as they come, cut anywhere. It never raises whatever they are, a task can
write into its own log, and its memory is bounded. Lines of several processes are interleaved: a
call may begin on one line and end on another, and a relative path means what the directory of its
process was, which is followed through `chdir` and from parent to child. Nothing here knows what a
task is granted; `findings` does.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vxwatch.sandbox.calls import CALLS, LOOKS, NO_DIRECTORY, OPENS, Wish

MOST_ATTEMPTS = 20_000
"""Different attempts that are kept."""
MOST_BYTES = 64 * 1024 * 1024
"""Bytes of one log that are read."""
_LONGEST_LINE = 65536
"""Two paths of the greatest length, every byte of them escaped."""
_MOST_PROCESSES = 32_768
_SEGFAULT = 139
_SIGNALLED = 128

_CALLS = {name.encode(): call for name, call in CALLS.items()}
_AROUND = ("fchdir", "fork", "vfork", "clone", "clone3", "connect", "exit_group")
_OPENS = {name.encode(): flags for name, flags in OPENS.items()}
_WRITING = re.compile(rb"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|O_TMPFILE")

_MARKS = (
    *(b" = -1 E", b"<unfinished ...>", b"resumed>", b"fork(", b"clone", b"chdir("),
    *(b"exit_group(", b"+++ ", b"--- SIGSEGV"),
)
"""One of these is in each line that tells anything; most lines tell of calls that succeeded."""
_LINE = re.compile(rb"\s*(?:\[pid +)?(\d{1,9})\]? +(.*)", re.DOTALL)
_RESUMED = re.compile(rb"<\.\.\. \w+ resumed>(.*)", re.DOTALL)
_UNFINISHED = b"<unfinished ...>"
_CALL = re.compile(rb"(\w+)\(")
_TOKEN = re.compile(
    rb'"(?:[^"\\]|\\.)*"|<(?:[^<>\\]|\\.)*>|[(\[{]|[)\]}]|,|[^"<>()\[\]{},\\]+|.', re.DOTALL
)
_RESULT = re.compile(rb"\s*= (-?\d+|\?)(?:<((?:[^<>\\]|\\.)*)>)?(?:\(deleted\))?(?: (E[A-Z0-9]+))?")
_OPENED = re.compile(rb"= \d+<((?:[^<>\\]|\\.)*)>(?:\(deleted\))?$")
_DIRECTORY = re.compile(rb"(?:-?\d+|AT_FDCWD)<((?:[^<>\\]|\\.)*)>")
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_LETTERS = {
    b"n": b"\n",
    b"t": b"\t",
    b"r": b"\r",
    b"v": b"\v",
    b"f": b"\f",
    b"a": b"\a",
    b"b": b"\b",
}
_V4 = re.compile(rb'sin_port=htons\((\d+)\), sin_addr=inet_addr\("([0-9.]+)"\)')
_V6 = re.compile(rb'sin6_port=htons\((\d+)\).*?inet_pton\(AF_INET6, "([0-9a-fA-F:.]+)"')


@dataclass(frozen=True, slots=True)
class Attempt:
    """One thing that a process wished to do, and how it went.

    `name` is an absolute path, with `..` as it was written, or `address:port`. `call` is the
    system call, `error` its error, "" where it succeeded.
    """

    wish: Wish
    name: str
    call: str
    error: str


def traced_calls(*, looks: bool) -> str:
    """What `strace -e trace=` is told; `looks` are the calls that only look at a name."""
    names = [name for name in CALLS if looks or name not in LOOKS]
    return ",".join(f"?{name}" for name in (*names, *_AROUND))


class TraceLog:
    """The log of one task; `directory` is where its first process starts.

    `attempts` are the refused ones, each once, in order; with `everything`, those that succeeded
    too, and with `watched` paths the successful reads of these. `begun` says that a command was
    traced at all; `ended` that the end of the first process was seen; `cut` that something of
    the log was left out.
    """

    def __init__(
        self,
        directory: str,
        *,
        everything: bool = False,
        watched: frozenset[str] = frozenset(),
    ) -> None:
        self.attempts: dict[Attempt, None] = {}
        self.begun = False
        self.ended = False
        self.cut = False
        self._everything = everything
        self._watched = watched
        self._start = directory
        self._rest = b""
        self._skipping = False
        self._left = MOST_BYTES
        self._halves: dict[int, bytes] = {}
        self._places: dict[int, list[str]] = {}
        self._leaders: dict[int, int] = {}
        self._first = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the log."""
        self.cut |= len(data) > self._left
        data = data[: self._left]
        self._left -= len(data)
        whole, end, rest = (self._rest + data).rpartition(b"\n")
        if end and self._skipping:
            self._skipping = False
            whole = whole.partition(b"\n")[2]
        for line in self._worth_it(whole):
            if len(line) <= _LONGEST_LINE:
                self._take(line)
        if len(rest) > _LONGEST_LINE:
            self._skipping, rest = True, b""
        self._rest = rest

    def failed(self, code: int) -> bool:
        """Whether the tracer failed, going by its log and the exit code of the command.

        A command that ends by itself says so in the log. Where its tracer was killed, each traced
        call fails from then on; so does the last one, and the command then ends by a segfault. Newer
        tracers (6.13 does, 6.1 does not) take the command with them, which nothing tells from one
        that was killed itself, for want of memory most likely: that is not started again.
        """
        if not self.begun:
            return True
        by_itself = code < _SIGNALLED or code == _SEGFAULT
        return by_itself and code != 0 and not self.ended and not self.cut

    def _worth_it(self, lines: bytes) -> Iterable[bytes]:
        """The lines that tell something, in order."""
        if not self.begun or self._everything:
            return lines.split(b"\n")
        if self._watched:
            return (line for line in lines.split(b"\n") if _is_marked(line) or self._sees(line))
        return _marked(lines)

    def _take(self, line: bytes) -> None:
        if not self.begun:
            self._begin(line)
        if (found := _LINE.match(line)) is None:
            return
        pid, text = int(found[1]), found[2]
        if text.startswith((b"+++ ", b"--- ")):
            self._passing(pid, text)
            return
        if resumed := _RESUMED.match(text):
            text = self._halves.pop(pid, b"") + resumed[1]
        if text.endswith(_UNFINISHED):
            self._remember(pid, text[: -len(_UNFINISHED)].rstrip())
            if text.startswith(b"exit_group("):
                self._end_of(pid)
        elif call := _CALL.match(text):
            self._call(pid, call[1], text[call.end() :])

    def _sees(self, line: bytes) -> bool:
        """Whether the line ends with the descriptor of a watched path."""
        found = _OPENED.search(line) if self._watched else None
        return found is not None and _opened(found[1]) in self._watched

    def _begin(self, line: bytes) -> None:
        found = _LINE.match(line)
        if found and _CALL.match(found[2]):
            self.begun = True
            self._first = int(found[1])

    def _remember(self, pid: int, half: bytes) -> None:
        if len(self._halves) < _MOST_PROCESSES or pid in self._halves:
            self._halves[pid] = half

    def _passing(self, pid: int, text: bytes) -> None:
        """A process ended, or was hit by a signal that ends it."""
        if self._leaders.get(pid, pid) == self._first:
            self.ended |= pid == self._first or text.startswith(b"--- ")
        if text.startswith(b"+++ "):
            for known in (self._halves, self._places, self._leaders):
                known.pop(pid, None)

    def _end_of(self, pid: int) -> None:
        self.ended |= self._leaders.get(pid, pid) == self._first

    def _call(self, pid: int, name: bytes, text: bytes) -> None:
        arguments, rest = _arguments(text)
        result = _RESULT.match(rest)
        if name == b"exit_group":
            self._end_of(pid)
        elif result is None:
            return
        elif name in (b"clone", b"clone3", b"fork", b"vfork"):
            if result[1].isdigit():
                self._born(pid, int(result[1]), text)
        else:
            self._result(pid, name, arguments, result)

    def _result(
        self, pid: int, name: bytes, arguments: list[bytes], result: re.Match[bytes]
    ) -> None:
        error = (result[3] or b"").decode()
        if name in (b"chdir", b"fchdir") and not error:
            self._moved(pid, name, arguments)
        if name == b"connect":
            self._connect(arguments, error)
            return
        if name not in _CALLS:
            return
        wish, names = _CALLS[name]
        if (at := _OPENS.get(name)) is not None and at < len(arguments):
            wish = "write" if _WRITING.search(arguments[at]) else "read"
        opened = _opened(result[2]) if result[2] else ""
        if not (error or self._everything or opened in self._watched):
            return
        for where, what in names:
            path = self._path(pid, arguments, where, what)
            if path:
                self._keep(Attempt(wish, path, name.decode(), error))

    def _keep(self, attempt: Attempt) -> None:
        if len(self.attempts) < MOST_ATTEMPTS:
            self.attempts[attempt] = None
        elif attempt not in self.attempts:
            self.cut = True

    def _connect(self, arguments: list[bytes], error: str) -> None:
        address = arguments[1] if len(arguments) > 1 else b""
        if found := _V4.search(address):
            name = f"{found[2].decode()}:{found[1].decode()}"
        elif found := _V6.search(address):
            name = f"[{found[2].decode()}]:{found[1].decode()}"
        else:
            return
        if error or self._everything:
            self._keep(Attempt("connect", name, "connect", error))

    # Where a process stands

    def _path(self, pid: int, arguments: list[bytes], where: int, what: int) -> str:
        """The absolute path that these arguments name; "" where that cannot be known."""
        if what >= len(arguments):
            return ""
        name = _quoted(arguments[what])
        if not name or name.startswith("/"):
            return name
        if where == NO_DIRECTORY:
            return _below(self._place(pid)[0], name)
        directory = arguments[where]
        if found := _DIRECTORY.match(directory):
            base = _text(_unescaped(found[1]))
            if directory.startswith(b"AT_FDCWD"):
                self._place(pid)[0] = base
            return _below(base, name)
        return _below(self._place(pid)[0], name) if directory == b"AT_FDCWD" else ""

    def _place(self, pid: int) -> list[str]:
        place = self._places.get(pid)
        if place is None:
            if len(self._places) >= _MOST_PROCESSES:
                self._places.pop(next(iter(self._places)))
            place = self._places[pid] = [self._inherited(pid)]
        return place

    def _inherited(self, pid: int) -> str:
        """The directory of the process that is just making another one, if it is clear which."""
        if pid == self._first:
            return self._start
        makers = [
            maker
            for maker, half in self._halves.items()
            if half.startswith((b"clone", b"vfork", b"fork")) and maker in self._places
        ]
        return self._places[makers[0]][0] if len(makers) == 1 else self._start

    def _moved(self, pid: int, name: bytes, arguments: list[bytes]) -> None:
        if name == b"chdir":
            path = self._path(pid, arguments, NO_DIRECTORY, 0)
        else:
            found = _DIRECTORY.match(arguments[0]) if arguments else None
            path = _text(_unescaped(found[1])) if found else ""
        if path.startswith("/"):
            self._place(pid)[0] = path

    def _born(self, parent: int, child: int, text: bytes) -> None:
        if len(self._leaders) >= _MOST_PROCESSES:
            self._leaders.clear()
        if b"CLONE_THREAD" in text:
            self._leaders[child] = self._leaders.get(parent, parent)
        place = self._place(parent)
        if b"CLONE_FS" in text:
            self._places[child] = place
        elif child not in self._places:
            self._place(child)[0] = place[0]


def _is_marked(line: bytes) -> bool:
    return any(mark in line for mark in _MARKS)


def _marked(lines: bytes) -> Iterator[bytes]:
    """The lines with a mark. To look for each mark in all lines is far less than to cut them up."""
    starts: set[int] = set()
    for mark in _MARKS:
        at = lines.find(mark)
        while at >= 0:
            starts.add(lines.rfind(b"\n", 0, at) + 1)
            end = lines.find(b"\n", at)
            at = lines.find(mark, end) if end >= 0 else -1
    for start in sorted(starts):
        end = lines.find(b"\n", start)
        yield lines[start : end if end >= 0 else len(lines)]


def _arguments(text: bytes) -> tuple[list[bytes], bytes]:
    """The arguments of a call, up to its closing parenthesis, and what follows that."""
    found: list[bytes] = []
    start = depth = 0
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in b"([{":
            depth += 1
        elif mark in b")]}":
            depth -= 1
            if depth < 0:
                return [*found, text[start : token.start()].strip()], text[token.end() :]
        elif mark == b"," and not depth:
            found.append(text[start : token.start()].strip())
            start = token.end()
    return [*found, text[start:].strip()], b""


def _quoted(argument: bytes) -> str:
    """The text of a string argument; "" for anything else, also for one that was cut short."""
    if len(argument) < 2 or argument[:1] != b'"' or argument[-1:] != b'"':  # noqa: PLR2004 - two quotes
        return ""
    return _text(_unescaped(argument[1:-1]))


def _unescaped(text: bytes) -> bytes:
    return _ESCAPE.sub(_meant, text) if b"\\" in text else text


def _meant(escape: re.Match[bytes]) -> bytes:
    code = escape[1]
    if code[:1] == b"x" and len(code) > 1:
        return bytes([int(code[1:], 16)])
    if code.isdigit() and code[:1] in b"01234567":
        return bytes([int(code, 8) & 255])
    return _LETTERS.get(code, code)


def _opened(name: bytes) -> str:
    """The path of a descriptor. What stands in for a hidden file has no name of its own any more."""
    return _text(_unescaped(name)).removesuffix(" (deleted)")


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _below(directory: str, name: str) -> str:
    if not directory.startswith("/") or directory.endswith(" (deleted)"):
        return ""
    return posixpath.join(directory, name)
