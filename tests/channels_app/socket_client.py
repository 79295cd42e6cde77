"""A WebSocket client that reconnects and resumes, as the page does."""

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from core.messages import fold
from tests.gateways import Gateway
from tests.servers import wait_until

Frame = dict[str, Any]


class BusyError(Exception):
    """The gateway is full; the message may come again after so many ``seconds``."""

    def __init__(self, seconds: int) -> None:
        super().__init__(seconds)
        self.seconds = seconds


@dataclass
class Socket:
    """One user's socket. ``seen``: every frame of each run, in the order of arrival."""

    gateway: Gateway
    token: str
    seen: dict[str, list[Frame]] = field(default_factory=dict)
    reconnections: int = 0
    _open: ClientConnection | None = None
    _stack: ExitStack = field(default_factory=ExitStack)

    def connect(self) -> None:
        """Open the socket and show the key."""
        self.close()
        self._open = self._stack.enter_context(connect(self.gateway.ws_url, open_timeout=60))
        self.send({"type": "auth", "key": self.token})
        assert self.receive()["type"] == "authenticated"

    def send(self, frame: Frame) -> None:
        """Send one frame."""
        assert self._open
        self._open.send(json.dumps(frame))

    def receive(self, *, seconds: float = 60) -> Frame:
        """Return the next frame; frames of a run are stored as well."""
        assert self._open
        frame: Frame = json.loads(self._open.recv(timeout=seconds))
        if "run_id" in frame and "seq" in frame:
            self.seen.setdefault(frame["run_id"], []).append(frame)
        return frame

    def say(self, text: str, *, client_id: str, session_id: str = "") -> tuple[str, str]:
        """Send a message, again where the connection breaks, and when the gateway is busy, as it
        says; return its run and its session."""
        given = {"type": "message", "text": text, "client_id": client_id, "session_id": session_id}
        while True:
            try:
                self.send(given)
                return self.accepted(client_id)
            except (WebSocketException, OSError):
                self.reconnections += 1
                wait_until(self.comes_back, seconds=30, what="the web server")
            except BusyError as busy:
                time.sleep(busy.seconds)

    def accepted(self, client_id: str) -> tuple[str, str]:
        """Receive until a message is accepted; return its run and its session. Raises BusyError."""
        while True:
            frame = self.receive()
            if frame.get("code") == "busy" and frame.get("client_id") == client_id:
                raise BusyError(frame["retry_after"])
            if frame["type"] == "accepted" and frame["client_id"] == client_id:
                return frame["run_id"], frame["session_id"]
            assert frame["type"] != "error", frame

    def is_final(self, run: str) -> bool:
        """Return whether the final frame of ``run`` arrived."""
        return any(frame["type"] == "final" for frame in self.seen.get(run, []))

    def until(self, run: str, number: int) -> None:
        """Receive until ``run`` has so many frames, or its final one."""
        while len(self.seen.get(run, [])) < number and not self.is_final(run):
            self.receive_somehow(run)

    def until_final(self, run: str) -> None:
        """Receive to the end of ``run``."""
        while not self.is_final(run):
            self.receive_somehow(run)

    def receive_somehow(self, run: str) -> None:
        """Receive; when the connection breaks, reconnect and resume ``run``."""
        try:
            self.receive()
        except (WebSocketException, OSError):
            self.reconnections += 1
            wait_until(partial(self.comes_back, run), seconds=30, what="the web server")

    def comes_back(self, run: str = "") -> bool:
        """Connect, and resume ``run``, if any; return whether the server was there for it."""
        try:
            self.connect()
            if run:
                last = max((frame["seq"] for frame in self.seen.get(run, [])), default=0)
                self.send({"type": "resume", "run_id": run, "after": last})
        except (WebSocketException, OSError, TimeoutError):  # killed also in the handshake
            return False
        return True

    def text(self, run: str) -> str:
        """Return the text of the frames of ``run``; checks that each event came once, in order, and
        that they add up to the final text.
        """
        events = [frame for frame in self.seen[run] if frame["type"] != "final"]
        numbers = [frame["seq"] for frame in events]
        assert numbers == sorted(set(numbers))
        [final] = [frame for frame in self.seen[run] if frame["type"] == "final"]
        assert final["seq"] == numbers[-1]
        shown = [str(part["props"]["content"]) for part in fold(events) if part["type"] == "text"]
        assert " ".join(shown).split() == str(final["text"]).split()
        return str(final["text"])

    def close(self) -> None:
        """Close the socket."""
        self._stack.close()

    def __enter__(self) -> "Socket":
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
