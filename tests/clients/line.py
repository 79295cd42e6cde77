"""A line to the gateway that breaks once for each client, in the middle of an answer."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.loops import Loop

MARK = b"two"  # the answer counts to five


class Line:
    """Passes connections on; ``cut_next`` breaks the next answer that has said its mark."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.port = 0
        self.mark = MARK
        self.is_armed = False
        self.cuts = 0

    def cut_next(self, mark: bytes = MARK) -> None:
        """Break one more answer."""
        self.mark, self.is_armed = mark, True

    async def serve(self, ready: threading.Event) -> None:
        """Pass on what comes to a free port, until cancelled."""
        server = await asyncio.start_server(self.connect, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        async with server:
            await server.serve_forever()

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on, in both directions."""
        theirs, ours = await asyncio.open_connection("127.0.0.1", self.target)
        up = asyncio.ensure_future(self.pump(reader, ours, is_answer=False))
        down = asyncio.ensure_future(self.pump(theirs, writer, is_answer=True))
        await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
        for task in (up, down):
            task.cancel()
        for each in (ours, writer):
            each.transport.abort()

    async def pump(
        self, source: asyncio.StreamReader, to: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        """Pass on one direction until its end, or the cut."""
        said = b""
        with suppress(OSError):
            while data := await source.read(65536):
                to.write(data)
                await to.drain()
                said += data
                if is_answer and self.is_armed and self.mark in said:
                    self.is_armed = False
                    self.cuts += 1
                    await asyncio.sleep(0)
                    return


@contextmanager
def to(port: int) -> Iterator[Line]:
    """Yield a line to ``port``, until the end of the block."""
    line, ready, loop = Line(port), threading.Event(), Loop()
    task = asyncio.run_coroutine_threadsafe(line.serve(ready), loop.loop)
    assert ready.wait(10)
    try:
        yield line
    finally:
        task.cancel()
        loop.close()
