"""A person at a terminal: types, and waits for what comes after what was seen last."""

import os
import re
from collections.abc import Mapping, Sequence

from tests.harness.running import Terminal
from tests.harness.waiting import wait_for

CTRL_C, CTRL_D, CTRL_Z = b"\x03", b"\x04", b"\x1a"
BASH = ("bash", "--norc", "--noprofile", "--noediting", "-i")
DASH = ("dash", "-i", "-m")


class Person(Terminal):
    """A terminal whose foreground job is the command, often a shell that runs vx."""

    def __init__(self, argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> None:
        super().__init__(argv, cwd, {**env, "PS1": "PROMPT$ ", "HISTFILE": "", "ENV": ""})
        self._seen = 0

    def sees(self, pattern: str, seconds: float = 10.0) -> re.Match[str]:
        """Wait for the pattern in what came since the last match; the match."""

        def found() -> re.Match[str] | None:
            return re.compile(pattern, re.MULTILINE).search(self.output, self._seen)

        match = wait_for(found, f"{pattern!r} is seen", seconds, lambda: self.output[self._seen :])
        assert match is not None
        self._seen = match.end()
        return match

    def types(self, line: str) -> None:
        """Type a line and Enter."""
        self.press(line.encode() + b"\n")

    def asks(self, line: str, pattern: str) -> re.Match[str]:
        """Type a line at the prompt, and wait for the answer."""
        self.types(line)
        return self.sees(pattern)

    def gives_way_to(self, pid: int) -> None:
        """Wait until the process is in the foreground; what is typed before that may be lost."""
        wait_for(lambda: os.tcgetpgrp(self._screen) == os.getpgid(pid), f"{pid} is in front")

    @property
    def unread(self) -> str:
        """What came since the last match."""
        return self.output[self._seen :]
