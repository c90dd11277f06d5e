"""Runs vx's own helper programs, git among them: once for an answer, or kept open to be asked.

For programs that vx calls for itself, never for tasks: those are the nursery's. A helper gets
a process group of its own, so that Ctrl-C on the terminal does not cut an answer short, and
ends when its input does, so that it cannot outlive vx.
"""

import os
import select
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

NOT_FOUND = 127
"""The exit code that stands for a program, or a directory, that is not there."""

_CHUNK = 65536
_PATIENCE = 2.0
"""Seconds after which somebody looks why a helper takes so long; from then on ever more."""

Doubt = Callable[[], None]
"""Looks why a helper takes so long. What it raises is the end of waiting."""


class Captured(NamedTuple):
    """How a helper ended: its exit code (minus the signal after a signal) and what it wrote."""

    code: int
    out: bytes
    err: bytes


def capture(
    argv: Sequence[str],
    *,
    cwd: str,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    limit: float | None = None,
    shown: bool = False,
) -> Captured:
    """Run a helper to its end. One that cannot be started gives `NOT_FOUND` and the reason.

    After `limit` seconds it is killed. `shown`: its standard error is ours, and so is its process
    group, for who writes to a terminal may be stopped in another one; Ctrl-C reaches it then.
    """
    try:
        done = subprocess.run(
            argv,
            cwd=cwd,
            input=stdin,
            env=env,
            stdout=subprocess.PIPE,
            stderr=None if shown else subprocess.PIPE,
            check=False,
            process_group=None if shown else 0,
            timeout=limit,
        )
    except OSError as error:
        return Captured(NOT_FOUND, b"", str(error).encode())
    except subprocess.TimeoutExpired:
        return Captured(-signal.SIGKILL, b"", b"it took too long")
    return Captured(done.returncode, done.stdout, done.stderr or b"")


class Begun:
    """A helper that works while we do something else. Must be closed.

    It never waits for us: what it writes goes to memory.
    """

    def __init__(
        self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str] | None = None
    ) -> None:
        """Begin. One that cannot be started ends as `capture` says."""
        self.argv = tuple(argv)
        self._out = [os.memfd_create(name, os.MFD_CLOEXEC) for name in ("out", "err")]
        self._helper: subprocess.Popen[bytes] | None = None
        self._trouble = b""
        try:
            self._helper = subprocess.Popen(
                argv,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=self._out[0],
                stderr=self._out[1],
                process_group=0,
            )
        except OSError as error:
            self._trouble = str(error).encode()

    def is_done(self) -> bool:
        """Whether it has ended, or never began."""
        return self._helper is None or self._helper.poll() is not None

    def end(self, doubt: Doubt | None = None) -> Captured:
        """Wait for its end; how it ended. Once."""
        if self._helper is None:
            return Captured(NOT_FOUND, b"", self._trouble)
        if doubt is not None and not self.is_done():
            handle = os.pidfd_open(self._helper.pid)
            try:
                _wait(handle, doubt)
            finally:
                os.close(handle)
        code = self._helper.wait()
        return Captured(code, *map(_written, self._out))

    def close(self) -> None:
        """End it and what it started, if that is still to do; let go of what it wrote."""
        if self._helper is not None and not self.is_done():
            os.killpg(self._helper.pid, signal.SIGKILL)
            self._helper.wait()
        while self._out:
            os.close(self._out.pop())


def _wait(handle: int, doubt: Doubt) -> None:
    """Wait until there is something to read, or an end."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    patience = _PATIENCE
    while not poll.poll(patience * 1000):
        doubt()
        patience *= 2


def _written(file: int) -> bytes:
    os.lseek(file, 0, os.SEEK_SET)
    with open(file, "rb", closefd=False) as stream:
        return stream.read()


class ConversationError(Exception):
    """The helper is gone: it ended before its answer was whole, or could not be started."""


class Conversation:
    """A helper kept open: each request gets an answer. Started with the first request.

    Must be closed. Requests must fit into a pipe (64 KiB), for nothing is read meanwhile.
    """

    def __init__(
        self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str] | None = None
    ) -> None:
        self.directory = cwd
        self._argv = argv
        self._env = env
        self._helper: subprocess.Popen[bytes] | None = None

    def ask(
        self, request: bytes, whole: Callable[[bytes], bool], doubt: Doubt | None = None
    ) -> bytes:
        """Send a request and read until `whole` says that the answer is.

        Raises `ConversationError`, or what `doubt` does; the next request then starts the helper
        anew.
        """
        try:
            return self._ask(self._start(), request, whole, doubt)
        except OSError as error:
            self.close()
            raise ConversationError(str(error)) from error
        except BaseException:
            self.close()  # its answer would be taken for that to the next request
            raise

    def close(self) -> None:
        """End the helper and wait for its end."""
        helper, self._helper = self._helper, None
        if helper is not None:
            helper.kill()
            for pipe in (helper.stdin, helper.stdout):
                if pipe is not None:
                    pipe.close()
            helper.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        if self._helper is None:
            self._helper = subprocess.Popen(
                self._argv,
                cwd=self.directory,
                env=self._env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                process_group=0,
            )
        return self._helper

    def _ask(
        self,
        helper: subprocess.Popen[bytes],
        request: bytes,
        whole: Callable[[bytes], bool],
        doubt: Doubt | None,
    ) -> bytes:
        assert helper.stdin is not None
        assert helper.stdout is not None
        rest = memoryview(request)
        while rest:
            rest = rest[helper.stdin.write(rest) :]
        answer = b""
        while not whole(answer):
            if doubt is not None:
                _wait(helper.stdout.fileno(), doubt)
            part = helper.stdout.read(_CHUNK)
            if not part:
                raise BrokenPipeError(f"{self._argv[0]} ended before its answer was whole")
            answer += part
        return answer
