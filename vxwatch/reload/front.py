"""A bridge whose pages reload: vx's side of the program that stands before it.

The program is another process and serves the host ports for as long as the bridge is open, over
all lives of the server; should it fall, there is another one at once, and clients wait meanwhile.
Behind it the bridge works as any other, with an address in place of each port.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal

from vxwatch.errors import UserError
from vxwatch.process.nursery import Launch
from vxwatch.process.tree import LaunchError
from vxwatch.sandbox.carrier import Bridge
from vxwatch.sandbox.listeners import listen
from vxwatch.sandbox.proxy import import_paths

if TYPE_CHECKING:
    from vxwatch.model import Port
    from vxwatch.process.nursery import Nursery
    from vxwatch.process.tree import Tree

Tell = Callable[[str, str], None]

_SETTINGS = 3
_START = """import sys; sys.path += sys.argv[1:]
from vxwatch.reload.main import main; main(3, 4, 5)"""
_AGAIN, _LONGEST = 0.1, 5.0
"""Seconds until there is another program for one that fell, at first and in the end."""
_LEAVE = 1.5
_LAST_WORDS = 4096
_BACKLOG = 1024


class ReloadingBridge(Bridge):
    """A `Bridge` to be `start`ed when it is open, and to be `run` from then on.

    `path` is where the reload channel lies in the server's site: nobody can guess it. `news` is
    what pages are told first. `tell` is called with what does not work, and why.
    """

    def __init__(
        self, nursery: "Nursery", ports: "tuple[Port, ...]", path: str, news: bytes, tell: Tell
    ) -> None:
        super().__init__(nursery, ports)
        self._nursery = nursery
        self._path = path
        self._news = news
        self._tell = tell
        self._public: list[tuple[str, list[socket.socket]]] = []
        self._tree: Tree | None = None
        self._channel: socket.socket | None = None
        self._late = False
        self._moved = asyncio.Event()
        self._closing = False
        self._ended = asyncio.Event()
        self._said = b""
        self._complaint = b""

    async def start(self) -> None:
        """Start the program. Raises `UserError`, and then the bridge is closed."""
        try:
            await self._launch()
        except BaseException as error:
            self._drop_channel()
            self._ended.set()
            await self.close()
            if not isinstance(error, LaunchError):
                raise
            raise UserError(
                "live-reload", f"live reload cannot be started: {error.message}", error.hint
            ) from None

    async def run(self) -> None:
        """Keep the program running until the bridge is closed."""
        pause = _AGAIN
        try:
            while True:
                await self._moved.wait()
                self._moved.clear()
                if self._closing:
                    break
                self._drop_channel()
                if pause == _AGAIN:
                    self._tell(f"live reload begins anew: {self._last_words()}", "")
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST)
                if not self._closing:
                    await self._launch()
        except LaunchError as error:
            self._tell(f"live reload cannot be started: {error.message}", error.hint)
        finally:
            self._refuse()
            if self._tree is not None:
                await self._tree.stop(signal.SIGTERM, _LEAVE, asyncio.Event())
            self._drop_channel()
            self._ended.set()

    def publish(self, news: bytes) -> None:
        """Tell the pages; a program that does not listen just now hears the latest when it does."""
        self._news = news
        self._say()

    async def close(self) -> None:
        """As any bridge; what pages were told before it is told."""
        self._refuse()
        await super().close()
        self._closing = True
        self._moved.set()
        await self._ended.wait()

    def _refuse(self) -> None:
        for _, listeners in self._public:
            for listener in listeners:
                listener.shutdown(socket.SHUT_RDWR)  # the program has a copy
                listener.close()
        self._public.clear()

    def _last_words(self) -> str:
        *_, last = ("it was killed", *self._complaint.decode(errors="replace").splitlines())
        return last

    def _listen(self, port: int) -> list[socket.socket]:
        public = listen(port)
        inner = socket.socket(socket.AF_UNIX)
        inner.bind("")  # the system chooses a name that is in no directory
        inner.listen(_BACKLOG)
        self._public.append((inner.getsockname().decode("latin-1"), public))
        return [inner]

    async def _launch(self) -> None:
        with ExitStack() as given:
            settings = os.memfd_create("vx-live-reload")
            given.callback(os.close, settings)
            doors = [(address, len(listeners)) for address, listeners in self._public]
            value = {"path": self._path, "news": json.loads(self._news), "doors": doors}
            os.write(settings, json.dumps(value).encode())
            os.lseek(settings, 0, os.SEEK_SET)
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            given.callback(theirs.close)
            ours.setblocking(False)
            self._channel = ours
            listeners = [listener.fileno() for _, group in self._public for listener in group]
            numbers = (settings, theirs.fileno(), *listeners)
            launch = Launch(
                argv=(sys.executable, "-I", "-S", "-c", _START, *import_paths()),
                cwd="/",
                env={},
                fds=dict(enumerate(numbers, _SETTINGS)),
            )
            self._complaint = self._said = b""
            self._tree = await self._nursery.launch(launch, self._hear)
            self._tree.gone.add_done_callback(lambda _: self._moved.set())

    def _say(self) -> None:
        if self._channel is None:
            return
        loop = asyncio.get_running_loop()
        try:
            self._channel.send(self._news)
        except BlockingIOError:
            if not self._late:
                self._late = True
                loop.add_writer(self._channel, self._say)
            return
        except OSError:
            pass  # it is gone, and the next one begins with these
        if self._late:
            self._late = False
            loop.remove_writer(self._channel)

    def _drop_channel(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            if self._late:
                self._late = False
                asyncio.get_running_loop().remove_writer(channel)
            channel.close()

    async def _hear(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        if stream == "stderr":
            self._complaint = (self._complaint + data)[-_LAST_WORDS:]
            return
        *lines, self._said = (self._said + data).split(b"\n")
        for why, path in map(json.loads, lines):
            self._tell(f"{path} gets no live reload: {why}", "")
