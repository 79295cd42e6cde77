"""A bridge's account, its callback server, and requests to its endpoints in this process."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from allowlist import keys
from channels_app.asgi import throttling
from channels_app.asgi.http import Scope
from channels_app.bridge import signing
from core.lib.encryption import encrypt
from core.models import ChannelAccount
from gateway_project.asgi import application
from gateway_project.processes import listener
from tests.channels_app.running import guest, owner, runner
from tests.loops import Loop, end_tasks

SECRET = "a-secret-of-this-bridge"
Json = dict[str, Any]
JSON = {"Content-Type": "application/json", "Host": "testserver"}


@dataclass
class Callback:
    """A bridge's ``/get_response``: the callbacks, and the next answers (status, headers)."""

    port: int = field(default_factory=listener.free_port)
    got: list[Json] = field(default_factory=list)
    tries: int = 0
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    silent: int = 0
    elsewhere: int = 0
    _loop: asyncio.AbstractEventLoop | None = None
    _ready: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/get_response"

    def start(self) -> None:
        """Serve until :meth:`stop`."""
        threading.Thread(target=self._serve, name="callback", daemon=True).start()
        assert self._ready.wait(30)

    def stop(self) -> None:
        """End the server."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._loop.stop)

    def texts(self) -> list[str]:
        """Return the received texts, each delivery once, in order."""
        seen = {each["delivery_id"]: each["text"] for each in self.got}
        return list(seen.values())

    def _serve(self) -> None:
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/get_response", self._take)
        app.router.add_route("*", "/elsewhere", self._elsewhere)
        server = web.AppRunner(app, access_log=None)
        self._loop.run_until_complete(server.setup())
        self._loop.run_until_complete(web.TCPSite(server, "127.0.0.1", self.port).start())
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(server.cleanup())
        self._loop.close()

    async def _take(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.tries += 1
        status, headers = self.answers.pop(0) if self.answers else (200, {})
        if status == 200:
            self.bodies.append(body)
            self.headers.append(dict(request.headers))
            self.got.append(json.loads(body))
        if self.silent:
            self.silent -= 1
            await asyncio.Event().wait()
        return web.json_response({}, status=status, headers=headers)

    async def _elsewhere(self, request: web.Request) -> web.Response:
        del request
        self.elsewhere += 1
        return web.json_response({})


@dataclass
class Bridge:
    """A bridge's client: signs and sends requests."""

    account: ChannelAccount
    key: str
    loop: Loop

    def ask(self, *, at: float | None = None, **body: Any) -> tuple[int, Json]:
        """Send ``POST /process`` with a fresh signature."""
        data = json.dumps({"user_id": "555", **body}).encode()
        return self.post(data, signing.headers(secret=SECRET, now=at or tick(), body=data))

    def post(self, data: bytes, headers: dict[str, str], **more: str) -> tuple[int, Json]:
        """Send one request unchanged."""
        return self.loop.run(
            self._post(data, {"Authorization": f"Bearer {self.key}"} | JSON | headers | more)
        )

    def inbound(self, *, idempotency: str = "", **body: Any) -> tuple[int, bytes]:
        """Send ``POST /inbound`` with the bridge's key, without waiting for the run; return the raw
        response.
        """
        data = json.dumps({"user_id": "555", **body}).encode()
        headers = {"Authorization": f"Bearer {self.key}"} | JSON
        if idempotency:
            headers["Idempotency-Key"] = idempotency
        return self.loop.run(self._bring("/inbound", data, headers))

    async def _post(self, data: bytes, headers: dict[str, str]) -> tuple[int, Json]:
        status, body = await self._bring("/process", data, headers)
        return status, json.loads(body)

    async def _bring(self, path: str, data: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        sent: list[Json] = []
        scope: Scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "query_string": b"",
            "client": ("127.0.0.1", 1),
        }

        given = False

        async def receive() -> Json:
            nonlocal given
            if given:
                await asyncio.Event().wait()
            given = True
            return {"type": "http.request", "body": data, "more_body": False}

        async def send(event: Any) -> None:
            sent.append(event)

        try:
            await application(scope, receive, send)
        finally:
            await end_tasks()
        return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:])


def tick() -> float:
    """Return the current time."""
    return time.time()


@pytest.fixture
def callback() -> Iterator[Callback]:
    found = Callback()
    found.start()
    yield found
    found.stop()


@pytest.fixture
def account(db: None, callback: Callback) -> ChannelAccount:
    """Return the bridge's account; the owner allowed it a private address."""
    del db
    return ChannelAccount.objects.create(
        channel="bridge",
        name="matrix",
        config={"callback_url": callback.url, "allow_private": "true"},
        secrets=encrypt({"signing_secret": SECRET}),
    )


@pytest.fixture
def bridge(account: ChannelAccount) -> Iterator[Bridge]:
    """Yield a bridge with a key."""
    throttling.people = throttling.Rate()
    key = keys.create(name="bridge", account=account, scopes=["inbound"])[1]
    found = Bridge(account, key, Loop())
    yield found
    found.loop.close()


__all__ = ["guest", "owner", "runner"]
