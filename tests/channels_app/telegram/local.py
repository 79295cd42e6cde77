"""The webhook and a worker inside of the test process, with bots on the fake Bot API."""

import json
from dataclasses import dataclass, field
from typing import Any, TypeVar

from channels_app.asgi.http import Scope
from gateway_project.asgi import application
from tests.channels_app.telegram.fake_api import FakeBotApi
from tests.channels_app.telegram.people import Params, message, numbered
from tests.loops import Loop

T = TypeVar("T")
SECRET = "Whs_0123"


@dataclass
class Local:
    """Posts updates to the view, as Telegram does."""

    api: FakeBotApi
    loop: Loop
    tokens: dict[str, str] = field(default_factory=dict)
    body_was_read: bool = False

    def post(
        self, update: Params | bytes, *, account: str = "main", secret: str | None = SECRET
    ) -> tuple[int, Params]:
        """Send one request; return (status, answer). ``body_was_read`` tells whether the endpoint
        read it.
        """
        if isinstance(update, dict):
            numbered(update, self.api, self.tokens.get(account, ""))
        return self.loop.run(self._post(update, account, secret))

    async def _post(
        self, update: Params | bytes, account: str, secret: str | None
    ) -> tuple[int, Params]:
        body = update if isinstance(update, bytes) else json.dumps(update).encode()
        sent: list[Params] = []
        self.body_was_read = False
        headers = [(b"host", b"testserver"), (b"content-length", str(len(body)).encode())]
        if secret is not None:
            headers.append((b"x-telegram-bot-api-secret-token", secret.encode()))
        scope: Scope = {
            "type": "http",
            "method": "POST",
            "path": f"/telegram/{account}/webhook",
            "headers": headers,
            "query_string": b"",
            "client": ("127.0.0.1", 1),
        }

        async def receive() -> Params:
            self.body_was_read = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(event: Any) -> None:
            sent.append(event)

        await application(scope, receive, send)
        return sent[0]["status"], json.loads(sent[1]["body"])

    def say(self, text: str, *, account: str = "main", **more: Any) -> int:
        """Send a message as a user; return its id."""
        update = message(text, **more)
        status, _ = self.post(update, account=account)
        assert status == 200
        return int(update["message"]["message_id"])

    def texts(self, chat: int, *, account: str = "main", thread: int | None = None) -> list[str]:
        """Return the bot's texts in a chat."""
        return self.api.texts(self.tokens[account], chat, thread)
