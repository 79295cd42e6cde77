"""Three requests through the gateway in this process: a webhook update, a stream, a decision."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from allowlist import keys
from channels_app.worker.runner import Runner
from core.models import Delivery, InboundMessage, Run, User
from gateway_project.asgi import application
from tests.architecture.trace import Trace, traced
from tests.channels_app.running import telegram_account, until
from tests.channels_app.telegram.fake_api import FakeBotApi
from tests.channels_app.telegram.people import message, number, numbered, person
from tests.loops import Loop

Params = dict[str, Any]
SECRET = b"Whs_0123"
STRANGER = 700


@dataclass
class Walks:
    """A bot, an owner (555), a guest (556), a worker, and the ASGI application."""

    api: FakeBotApi
    loop: Loop
    token: str
    key: str
    stranger: int = STRANGER

    @property
    def bearer(self) -> tuple[bytes, bytes]:
        """Return the header with the owner's key."""
        return b"authorization", f"Bearer {self.key}".encode()

    async def request(
        self, path: str, body: Params, *headers: tuple[bytes, bytes], status: int = 200
    ) -> bytes:
        """Send ``POST path``; return the body of the answer, once it is complete."""
        raw = json.dumps(body).encode()
        sent: list[Params] = []
        asked = False
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "headers": [
                (b"host", b"localhost"),
                (b"content-type", b"application/json"),
                (b"content-length", str(len(raw)).encode()),
                *headers,
            ],
        }

        async def receive() -> Params:
            nonlocal asked
            if asked:  # the client stays
                await self.loop.loop.create_future()
            asked = True
            return {"type": "http.request", "body": raw, "more_body": False}

        async def send(event: Any) -> None:
            sent.append(event)

        await application(scope, receive, send)
        answer = b"".join(event.get("body", b"") for event in sent)
        assert sent[0]["status"] == status, answer
        return answer

    async def refresh(self) -> None:
        """Send each endpoint an empty request, so that caches of a few seconds are fresh for the
        next one."""
        await self.update({"update_id": number(), "poll": {}})
        await self.request("/inbound", {"text": 0}, self.bearer, status=400)
        await asyncio.sleep(0.2)  # look-ups beside the request end

    def update(self, update: Params) -> Any:
        """Send one update of Telegram."""
        numbered(update, self.api, self.token)
        header = (b"x-telegram-bot-api-secret-token", SECRET)
        return self.request("/telegram/main/webhook", update, header)

    def stream(self, text: str) -> Any:
        """Send one ``/inbound`` with ``stream: true``."""
        return self.request("/inbound", {"text": text, "stream": True}, self.bearer)

    def webhook(self, text: str = "hello") -> Trace:
        """Walk a message of the owner to the bot, and its answer."""
        self.loop.run(self.refresh())
        return traced(self.loop, self.update(message(text, user=555)), settled)[1]

    def inbound(self, text: str = "hello") -> Trace:
        """Walk a stream."""
        self.loop.run(self.refresh())
        answer, trace = traced(self.loop, self.stream(text), settled)
        assert b'"event":"done"' in answer.replace(b" ", b""), answer
        return trace

    def approval(self) -> Trace:
        """Walk the tap on *Approve* under the notice of an unknown sender."""
        self.stranger += 1
        place = str(self.stranger)
        self.loop.run(self.update(message("may I?", user=self.stranger, name="Eve")))
        until(lambda: any(place in text for text in self.texts(555)))
        until(settled)
        shown = next(m for m in self.api.shown(self.token, 555) if place in m.text)
        buttons = {each["text"]: each["callback_data"] for row in shown.keyboard for each in row}
        press = {
            "update_id": number(),
            "callback_query": {
                "id": str(number()),
                "from": person(555),
                "data": buttons["Approve"],
                "message": {"message_id": shown.id, "chat": {"id": 555, "type": "private"}},
            },
        }
        self.loop.run(self.refresh())

        def answered() -> bool:
            return bool(self.texts(self.stranger)) and settled()

        return traced(self.loop, self.update(press), answered)[1]

    def texts(self, chat: int) -> list[str]:
        """Return the texts of the bot in a chat."""
        return self.api.texts(self.token, chat, None)


def settled() -> bool:
    """Return whether every message was answered and every answer delivered."""
    waiting = InboundMessage.objects.filter(state__in=["received", "batched"])
    return not (
        waiting.exists()
        or InboundMessage.objects.filter(ack="shown").exists()
        or Run.objects.exclude(state__in=Run.FINAL).exists()
        or Delivery.objects.exclude(state="sent").exists()
    )


def prepare(api: FakeBotApi, loop: Loop, owner: User, runner: Runner) -> Walks:
    """Make each walk once, so that all caches are warm; return the walks."""
    account = telegram_account(base=api.base, name="main")
    token = account.open_secrets()["token"]
    key = keys.create(name="test", user=owner, scopes=["inbound"])[1]
    walks = Walks(api, loop, token, key)
    until(lambda: runner._early is None)
    for _ in range(2):
        walks.webhook()
        walks.inbound()
    walks.approval()
    return walks
