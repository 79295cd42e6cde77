"""Telegram's users, and Telegram itself: makes updates, and posts them to a webhook until it
answers 200.
"""

import itertools
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from tests.channels_app.telegram.fake_api import FakeBotApi
from tests.gateways import Gateway

SECRET = "Whs_0123456789-abcdef"
SECRET_HEADER = "X-Telegram-Bot-Api-Secret-Token"
Params = dict[str, Any]
_numbers = itertools.count(int(time.time()))

SETUP = """
import json, sys
from core.models import ChannelAccount, ChannelIdentity, User
from core.lib.encryption import encrypt
data = json.load(sys.stdin)
for person in data["people"]:
    user, _ = User.objects.get_or_create(
        username=person["name"],
        defaults={"is_owner": person.get("owner", False), "display_name": person["name"]},
    )
    ChannelIdentity.objects.get_or_create(
        user=user, kind="im", channel="telegram", value=str(person["id"])
    )
for group in data["groups"]:
    owner = User.objects.filter(is_owner=True).first()
    ChannelIdentity.objects.get_or_create(
        user=owner, kind="im", channel="telegram", value=str(group)
    )
for account in data["accounts"]:
    ChannelAccount.objects.create(
        channel="telegram", name=account["name"], config=account["config"],
        secrets=encrypt(account["secrets"]),
    )
"""


def number() -> int:
    """Return a number that was not used before."""
    return next(_numbers)


class Unnumbered(int):
    """A message id that stands for the next one of its chat, until the message is brought."""


def numbered(update: Params, api: FakeBotApi, token: str) -> None:
    """Give the message of ``update`` its id in the bot's chat, where it has none yet; each counts
    in the sequence of the bot's messages."""
    body = update.get("message")
    if not isinstance(body, dict) or not isinstance(body.get("chat"), dict):
        return
    number, chat = body.get("message_id"), body["chat"].get("id")
    if isinstance(number, int) and isinstance(chat, int):
        given = 0 if isinstance(number, Unnumbered) else number
        body["message_id"] = api.say(token, chat, given)


def person(user_id: int, name: str = "Ada", **more: Any) -> Params:
    """Return Telegram's ``User``."""
    return {"id": user_id, "is_bot": False, "first_name": name, **more}


def message(
    text: str = "",
    *,
    user: int = 555,
    chat: int = 0,
    thread: int = 0,
    message_id: int = 0,
    name: str = "Ada",
    **more: Any,
) -> Params:
    """Return a new message as an update; a private chat has the id of its user."""
    place = chat or user
    body: Params = {
        "message_id": message_id or Unnumbered(number()),
        "date": int(time.time()),
        "from": person(user, name),
        "chat": {"id": place, "type": "private" if place > 0 else "supergroup"},
        **more,
    }
    if text:
        body["text"] = text
        body.setdefault("entities", entities_of(text))
    if thread:
        body |= {"message_thread_id": thread, "is_topic_message": True}
    return {"update_id": number(), "message": body}


def entities_of(text: str) -> list[Params]:
    """Return the mentions and commands that Telegram marks in a text."""
    found, offset = [], 0
    for word in text.split(" "):
        length = len(word.encode("utf-16-le", "surrogatepass")) // 2
        if word.startswith("@"):
            found.append({"type": "mention", "offset": offset, "length": length})
        elif word.startswith("/"):
            found.append({"type": "bot_command", "offset": offset, "length": length})
        offset += length + 1
    return found


@dataclass
class Bots:
    """A gateway with bots on a fake Bot API."""

    gateway: Gateway
    api: FakeBotApi
    tokens: dict[str, str] = field(default_factory=dict)

    def add(
        self,
        *names: str,
        mode: str = "webhook",
        people: list[Params] | None = None,
        groups: list[int] | None = None,
        base: str = "",
        tokens: dict[str, str] | None = None,
        **config: Any,
    ) -> None:
        """Create accounts and the people on their allowlist."""
        accounts = []
        for place, name in enumerate(names):
            token = (tokens or {}).get(name) or f"{900 + place + number() % 90000}:{'A' * 34}"
            self.tokens[name] = token
            accounts.append(
                {
                    "name": name,
                    "config": {"mode": mode, "api_base": base or self.api.base, **config},
                    "secrets": {"token": token, "webhook_secret": SECRET},
                }
            )
        known = people or [{"name": "owner", "id": 555, "owner": True}]
        data = {"people": known, "groups": groups or [], "accounts": accounts}
        self.gateway.manage("shell", "--no-imports", "-c", SETUP, stdin=json.dumps(data))

    def post(
        self, update: Params | bytes, *, account: str = "main", secret: str | None = SECRET
    ) -> int:
        """Post an update once; return the status."""
        if isinstance(update, dict):
            numbered(update, self.api, self.tokens.get(account, ""))
        body = update if isinstance(update, bytes) else json.dumps(update).encode()
        headers = {"Content-Type": "application/json"}
        if secret is not None:
            headers[SECRET_HEADER] = secret
        request = Request(  # noqa: S310
            f"{self.gateway.base_url}/telegram/{account}/webhook", data=body, headers=headers
        )
        try:
            with urlopen(request, timeout=15) as answer:  # noqa: S310
                return int(answer.status)
        except HTTPError as error:
            with error:
                return error.code

    def bring(self, update: Params, *, account: str = "main", seconds: float = 8.0) -> None:
        """Post an update as Telegram does: again and again until it is accepted."""
        deadline, last = time.monotonic() + seconds, ""
        while time.monotonic() < deadline:
            try:
                last = str(self.post(update, account=account))
                if last == "200":
                    return
            except (URLError, OSError) as error:
                last = str(error)
            time.sleep(0.1)
        log = self.gateway.log("web")[-3000:]
        raise AssertionError(f"the update was not taken: {last}\n{log}")

    def say(self, text: str, *, account: str = "main", **more: Any) -> int:
        """Send a message as a user; return its id."""
        update = message(text, **more)
        self.bring(update, account=account)
        return int(update["message"]["message_id"])

    def texts(self, chat: int, *, account: str = "main", thread: int | None = None) -> list[str]:
        """Return the bot's texts in a chat."""
        return self.api.texts(self.tokens[account], chat, thread)


# Leases of seconds, so that a lost or suspended worker is replaced soon.
SHORT_LEASES = {
    "SWEEP_SECONDS": "1",
    "RUN_MAX_ATTEMPTS": "100",
    "DEBOUNCE_IDLE_MILLISECONDS": "50",
    "DEBOUNCE_MAX_MILLISECONDS": "200",
    "RATE_PER_MINUTE_USER": "0",
    "GATEWAY_ENCRYPTION_KEYS": "key-of-a-test",
}


def start_scripted(
    *,
    folder: Path,
    api: FakeBotApi,
    database_url: str,
    script: Sequence[Params],
    chats: Sequence[int],
    modules: Mapping[str, tuple[str, ...]],
    **extra: str,
) -> Bots:
    """Start a gateway with ``script`` as its model, the bot ``main`` and a person in each chat."""
    (folder / "home").mkdir()
    path = folder / "script.json"
    path.write_text(json.dumps(script))
    gateway = Gateway(
        folder=folder,
        database_url=database_url,
        extra={**SHORT_LEASES, **extra, "LLM_SCRIPT": str(path)},
        roles=("web", "runs"),
        modules=dict(modules),
    )
    found = Bots(gateway, api)
    found.add("main", people=[{"name": f"p{each}", "id": each} for each in chats])
    gateway.start()
    return found
