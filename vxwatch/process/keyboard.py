"""Single keys of the terminal that vx was started on, without a wait and without Enter.

While vx is in the foreground the terminal gives each key at once and does not show it; Ctrl-C,
Ctrl-Z signal as before. In the background nothing is read, and nobody's modes are
touched; vx is never stopped for reading. Whenever vx stops or ends, the modes are put back that
were there before, unless somebody else has set others since.
"""

import asyncio
import os
import signal
import termios
from collections.abc import Callable

from vxwatch.process.terminal import Modes, give_back

LOOK = 1.0
"""Seconds between two looks from the background: a shell tells no job that it is in front now."""

MOST = 16
"""Bytes that a person types between two looks; more was pasted, and is not meant as keys."""

_ESCAPE = 0x1B

OnGrab = Callable[[int, Modes, Modes], None]
"""Told of a descriptor, the modes as they were, and as they are now."""


class Keyboard:
    """The keys, in text as small letters. To be closed."""

    def __init__(self, number: int, on_key: Callable[[str], None], on_grab: OnGrab) -> None:
        self._number = number
        self._on_key = on_key
        self._on_grab = on_grab
        self._loop = asyncio.get_running_loop()
        self._ours: Modes | None = None
        self._before: Modes | None = None
        self._look: asyncio.TimerHandle | None = None
        self._listening = False
        self._closed = False
        self._at_continue = signal.signal(signal.SIGCONT, self._continued)

    @classmethod
    def open(cls, on_key: Callable[[str], None], on_grab: OnGrab) -> "Keyboard | None":
        """The keyboard of vx, where its input and output are its terminal; else None.

        For the main thread, with a running loop.
        """
        try:
            if not (os.isatty(0) and os.isatty(1)):
                return None
            os.tcgetpgrp(0)  # fails for a terminal that is not ours to control
            # Not a copy of the input: that shares its flags with the shell, and may not block us.
            number = os.open("/dev/tty", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError:
            return None
        keyboard = cls(number, on_key, on_grab)
        keyboard.refresh()
        return keyboard

    @property
    def listening(self) -> bool:
        """Whether keys come here now."""
        return self._listening

    def refresh(self) -> None:
        """Listen from now on if vx is in the foreground; if not, look again later."""
        if self._closed:
            return
        self._stop_looking()
        try:
            if self._is_in_front():
                self._grab()
                return
        except (OSError, termios.error):  # it is gone, which others notice
            self._let_go()
            return
        self._let_go()
        self._look = self._loop.call_later(LOOK, self.refresh)

    def release(self) -> None:
        """Give the terminal back as it was, until `refresh`."""
        self._stop_looking()
        self._let_go()
        if self._ours is None or self._before is None:
            return
        ours, self._ours = self._ours, None
        give_back(self._number, self._before, ours)

    def close(self) -> None:
        """Give it back for good."""
        if not self._closed:
            self.release()
            self._closed = True
            signal.signal(signal.SIGCONT, self._at_continue or signal.SIG_DFL)
            os.close(self._number)

    def _grab(self) -> None:
        now = termios.tcgetattr(self._number)
        if now != self._ours:
            self._before, self._ours = now, _key_by_key(now)
            self._on_grab(self._number, self._before, self._ours)
            termios.tcsetattr(self._number, termios.TCSANOW, self._ours)
        self._listening = True
        self._loop.add_reader(self._number, self._read)

    def _let_go(self) -> None:
        self._listening = False
        self._loop.remove_reader(self._number)

    def _read(self) -> None:
        try:
            data = _read_unstopped(self._number) if self._is_in_front() else b""
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._let_go()
            self._look = self._look or self._loop.call_later(LOOK, self.refresh)
            return
        for key in typed(data):
            self._on_key(key)

    def _is_in_front(self) -> bool:
        return os.tcgetpgrp(self._number) == os.getpgrp()

    def _stop_looking(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def _continued(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self.refresh)


def typed(data: bytes) -> str:
    """The keys among these bytes, which came at once: no special keys, nothing pasted."""
    if len(data) > MOST:
        return ""
    plain = data.partition(bytes((_ESCAPE,)))[0]
    return plain.decode("ascii", "ignore").lower()


def _read_unstopped(number: int) -> bytes:
    """What is there to read; OSError, and no stop, if vx was sent to the background just now."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTIN})
    try:
        return os.read(number, 4096)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _key_by_key(modes: Modes) -> Modes:
    flags, characters = modes[3], modes[6]
    assert isinstance(flags, int)
    assert isinstance(characters, list)
    characters = [*characters]
    characters[termios.VMIN], characters[termios.VTIME] = 1, 0  # as they are read then
    return [*modes[:3], flags & ~(termios.ICANON | termios.ECHO), *modes[4:6], characters]
