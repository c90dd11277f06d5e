"""The nursery's process as vx has it: kept running, and ended.

Whoever stops it (SIGSTOP) stops nothing: vx, its parent, hears of that and lets it go on at once.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING

from vxwatch.errors import UserError
from vxwatch.process.remedies import remedy

if TYPE_CHECKING:
    import subprocess

_DIE = 8.0  # seconds for SIGKILL to work


class HelperProcess:
    """Started by others; `ended` is set when it has ended.

    `on_end` is called then, with its exit code. `close` must be called at last.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", on_end: Callable[[int], None]) -> None:
        """Raises `UserError` when the system refuses to tell of its end; it is gone then."""
        self.ended = asyncio.Event()
        self._on_end = on_end
        self._process = process
        self._pidfd = -1
        with contextlib.ExitStack() as watch:
            watch.enter_context(told_of_children(self._resume_if_stopped))
            try:
                self._pidfd = _descriptor_of(process)
            except OSError as error:
                raise no_process(error) from error
            self._resume_if_stopped()  # nobody was told of that until now
            asyncio.get_running_loop().add_reader(self._pidfd, self._reap)
            self._watch = watch.pop_all()

    @property
    def pid(self) -> int:
        """Its pid."""
        return self._process.pid

    def resume(self) -> None:
        """Let it run, should somebody have stopped it."""
        if not self.ended.is_set():
            signal.pidfd_send_signal(self._pidfd, signal.SIGCONT)

    def kill(self) -> None:
        """End it at once; its end is told as any other."""
        self._process.kill()

    async def end(self, within: float) -> None:
        """Wait for its end, and bring that about when it takes longer than `within` seconds.

        Raises `UserError` when the kernel cannot end it.
        """
        for patience in (within, _DIE):
            self.resume()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self.ended.wait()
                    return
            self.kill()
        raise stuck(self.pid)

    def close(self) -> None:
        """Forget it; it has ended, or nothing can end it."""
        self._watch.close()
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        try:
            self._on_end(self._process.wait())
        finally:
            self.ended.set()

    def _resume_if_stopped(self) -> None:
        with contextlib.suppress(OSError):  # it has ended
            if os.waitid(os.P_PIDFD, self._pidfd, os.WSTOPPED | os.WNOHANG):
                signal.pidfd_send_signal(self._pidfd, signal.SIGCONT)


def stuck(pid: int) -> UserError:
    """What to say of a process that outlives SIGKILL."""
    return UserError(
        "process-stuck",
        f"process {pid} does not end after SIGKILL",
        f"the kernel holds it, often for a dead disk or network: ps -o stat,wchan -p {pid}",
    )


def _descriptor_of(process: "subprocess.Popen[bytes]") -> int:
    try:
        return os.pidfd_open(process.pid)
    except OSError:
        process.kill()
        process.wait()
        raise


def no_process(error: OSError) -> UserError:
    """What to say when it cannot be started."""
    if error.filename == sys.executable:
        return UserError(
            "no-process",
            f"cannot start {sys.executable}, the Python that vx runs in: {error.strerror}",
            "vx's installation is damaged, or was removed while vx ran: install it again",
        )
    return UserError(
        "no-process", f"cannot start a process: {error.strerror}", remedy(error.errno or 0)
    )


@contextlib.contextmanager
def told_of_children(call: Callable[[], None]) -> Iterator[None]:
    """Inside the block, call whenever a child was stopped or has ended.

    A handler of Python's own, because the loop's would take the wake-ups of vx's signals away.
    Only the main thread can have one. What comes while it runs waits for the loop: whoever stops a
    child as often as it is let go on would have it run in itself, deeper and deeper.
    """
    loop, inside = asyncio.get_running_loop(), False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal inside
        if inside:
            loop.call_soon_threadsafe(call)
        else:
            inside = True
            try:
                call()
            finally:
                inside = False
        if callable(before):
            before(number, frame)

    before = signal.getsignal(signal.SIGCHLD)
    try:
        signal.signal(signal.SIGCHLD, on_signal)
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, before or signal.SIG_DFL)
