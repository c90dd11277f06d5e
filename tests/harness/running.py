"""The installed `vx`, running: in the background, in a terminal, or to its end.

A background vx has a session of its own and default signals, as a shell's foreground job has;
what a script starts with `&` would be deaf to Ctrl-C. Everything here is killed by `close`.
"""

import fcntl
import os
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.harness.waiting import patience, wait_for

VX = os.path.join(os.path.dirname(sys.executable), "vx")
PUPPETS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "puppets")
PYTHON = (os.path.realpath(sys.executable), "-I", "-S", "-B")
"""A bare interpreter for puppets: no site packages, starts in half the time, writes no cache."""

_DEFAULT_SIGNALS = ("env", "--default-signal=INT,QUIT,TERM,HUP,PIPE")


@dataclass(frozen=True, slots=True)
class Finished:
    """A vx that ran to its end. `code` is 128 + n after signal n."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def text(self) -> str:
        """Both streams; out first."""
        return self.out + self.err


def finish(
    argv: Sequence[str], cwd: str, env: Mapping[str, str], seconds: float = 20.0
) -> Finished:
    """Run to the end with no input; fails if that takes longer than `seconds`."""
    began = time.monotonic()
    process = subprocess.Popen(
        [*_DEFAULT_SIGNALS, *argv],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=patience(seconds))
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(
            f"{argv} did not end within {patience(seconds):g} s:\n{_text(out)}{_text(err)}"
        ) from None
    return Finished(_code(process), _text(out), _text(err), time.monotonic() - began)


class Background:
    """A vx that runs beside the test; both of its streams go to one file outside the workspace."""

    def __init__(self, argv: Sequence[str], cwd: str, env: Mapping[str, str], output: str) -> None:
        self._path = output
        with open(output, "wb") as file:
            self.process = subprocess.Popen(
                [*_DEFAULT_SIGNALS, *argv],
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        """What it printed so far."""
        with open(self._path, "rb") as file:
            return _text(file.read())

    def says(self, pattern: str) -> bool:
        """Whether the regular expression matches in what it printed."""
        return re.search(pattern, self.output, re.MULTILINE) is not None

    def wait_says(self, pattern: str, seconds: float = 10.0) -> None:
        """Wait until it printed the pattern."""
        _wait_says(self, pattern, seconds)

    def send(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def ended(self, seconds: float = 15.0) -> int:
        """Its exit code, once it ended by itself."""
        try:
            self.process.wait(patience(seconds))
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"vx did not end within {patience(seconds):g} s:\n{self.output}"
            ) from None
        return _code(self.process)

    def stop(self, number: int = signal.SIGINT, seconds: float = 15.0) -> int:
        """Signal it and wait for its exit code."""
        self.send(number)
        return self.ended(seconds)

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        """Kill it if it runs."""
        self.process.kill()
        self.process.wait()


class Terminal:
    """A vx that is the foreground job of a terminal of its own."""

    def __init__(self, argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> None:
        self._screen, self._line = os.openpty()
        os.set_blocking(self._screen, False)
        termios.tcsetwinsize(self._line, (40, 120))
        self._before = termios.tcgetattr(self._line)
        self._text = b""
        self._open = True
        self.process = subprocess.Popen(
            [*PYTHON, os.path.join(PUPPETS, "foreground.py"), *argv],
            cwd=cwd,
            env={**env, "TERM": "xterm-256color"},
            stdin=self._line,
            stdout=self._line,
            stderr=self._line,
        )

    @property
    def output(self) -> str:
        """What it wrote to the terminal so far, control sequences included."""
        while self._open and select.select([self._screen], [], [], 0)[0]:
            try:
                self._text += os.read(self._screen, 65536)
            except OSError:
                break
        return _text(self._text)

    def says(self, pattern: str) -> bool:
        """Whether the regular expression matches in what it wrote."""
        return re.search(pattern, self.output, re.MULTILINE) is not None

    def wait_says(self, pattern: str, seconds: float = 10.0) -> None:
        """Wait until it wrote the pattern."""
        _wait_says(self, pattern, seconds)

    def press(self, key: bytes) -> None:
        """Type a key: b"\\x03" is Ctrl-C."""
        os.write(self._screen, key)

    def hang_up(self) -> None:
        """Close the terminal, as closing its window does."""
        if self._open:
            self._open = False
            os.close(self._line)
            os.close(self._screen)

    def ended(self, seconds: float = 15.0) -> int:
        """Its exit code, once it ended by itself; reads the screen meanwhile."""
        wait_for(
            lambda: (self.output, self.process.poll() is not None)[1],
            "vx in the terminal ended",
            seconds,
            lambda: self.output,
        )
        return _code(self.process)

    @property
    def settings_restored(self) -> bool:
        """Whether the terminal's settings are as before."""
        return termios.tcgetattr(self._line) == self._before

    @property
    def restored(self) -> bool:
        """Whether the terminal's settings are as before and its cursor shows."""
        text = self.output
        shown = text.rfind("\x1b[?25l") <= text.rfind("\x1b[?25h")
        return shown and self.settings_restored

    def close(self) -> None:
        """Kill it if it runs, and close the terminal."""
        self.process.kill()
        self.process.wait()
        self.hang_up()


def _wait_says(vx: Background | Terminal, pattern: str, seconds: float) -> None:
    def said_or_over() -> bool:
        over = vx.process.poll() is not None
        return vx.says(pattern) or over

    wait_for(said_or_over, f"vx says {pattern!r}", seconds, lambda: vx.output)
    assert vx.says(pattern), f"vx ended and never said {pattern!r}:\n{vx.output}"


def start_puppet(name: str, *words: str) -> subprocess.Popen[bytes]:
    """A puppet on the host, beside vx, that vx knows nothing of."""
    return subprocess.Popen(
        [*PYTHON, os.path.join(PUPPETS, name), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )


def start_piped(argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """A vx whose output is a small pipe that the test holds and may close."""
    process = subprocess.Popen(
        [*_DEFAULT_SIGNALS, *argv],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
    return process


def _code(process: subprocess.Popen[bytes]) -> int:
    code = process.returncode
    return 128 - code if code < 0 else code


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
