"""A small and fast HTTP server on 127.0.0.1, for bench/bridge.py. Standard library only.

    python server.py PORT

`GET /` answers with 2 KB and keeps the connection; `GET /large` answers with 256 MB and closes.
"""

import asyncio
import sys

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n"
SMALL = HEAD % 2048 + b"x" * 2048
CHUNK, CHUNKS = b"x" * 2**20, 256
REQUEST_END = b"\r\n\r\n"


class Connection(asyncio.Protocol):
    """One connection; a request ends with an empty line, bodies are not expected."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.pending = b""
        self.chunks_left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        *requests, self.pending = (self.pending + data).split(REQUEST_END)
        for request in requests:
            if request.startswith(b"GET /large"):
                self.chunks_left = CHUNKS
                self.transport.write(HEAD % (len(CHUNK) * CHUNKS))
                self.resume_writing()
            else:
                self.transport.write(SMALL)

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        while self.chunks_left and not self.paused:
            self.chunks_left -= 1
            self.transport.write(CHUNK)
            if not self.chunks_left:
                self.transport.close()


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
