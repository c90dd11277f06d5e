"""Tunnels of the proxy: what a client and its server say to each other is carried as it is.

They are carried by a thread of their own, so that much traffic delays nobody who is asking.
"""

import os
import socket
import threading
from collections import deque

from vxwatch.process.pump import Pump


class Tunnels:
    """The tunnels of one proxy."""

    def __init__(self) -> None:
        self._new: deque[tuple[socket.socket, socket.socket, bytes]] = deque()
        self._wake = os.eventfd(0)
        threading.Thread(target=self._run, name="tunnels", daemon=True).start()

    def add(self, client: socket.socket, server: socket.socket, early: bytes = b"") -> None:
        """Carry between the two, which it closes. `early` came from the client before."""
        self._new.append((client, server, early))
        os.eventfd_write(self._wake, 1)

    def _run(self) -> None:
        pump = Pump()
        pump.watch(self._wake, lambda: self._take(pump))
        while True:
            pump.turn()

    def _take(self, pump: Pump) -> None:
        os.eventfd_read(self._wake)
        while self._new:
            pump.add(*self._new.popleft())
