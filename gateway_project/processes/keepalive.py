"""WebSockets with aligned keepalive pings, and refused handshakes that are no errors.

uvicorn gives each socket a timer of its own. Separate pings and their pongs each wake the process,
with cold caches: at 10,000 idle chats that was most of their CPU.
"""

import math
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from gateway_project.processes.bounded_http import refusal

ALIGN_SECONDS = 0.5


class AlignedPings(WebSocketsSansIOProtocol):
    """uvicorn's protocol; pings that are due within half a second are sent at its end."""

    def schedule_ping(self) -> None:
        """Ping at the first aligned time after the interval."""
        interval = self.ping_interval or 0.0
        due = math.ceil((self.loop.time() + interval) / ALIGN_SECONDS) * ALIGN_SECONDS
        self.ping_timer = self.loop.call_at(due, self.send_keepalive_ping)

    def data_received(self, data: bytes) -> None:
        """Read it; answer a handshake that cannot be read, as one with a body or a line of more
        than 8 KiB: uvicorn neither answers it nor closes.
        """
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            answer = b"".join(self.conn.data_to_send())
            self.transport.write(answer or refusal(400, "The handshake is not valid."))
            self.transport.close()

    async def send(self, message: Any) -> None:
        """Send it; a handshake that got an answer over HTTP is complete: uvicorn logs an error."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True
