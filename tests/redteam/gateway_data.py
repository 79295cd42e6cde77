"""Users, keys and objects for the matrix, and a client for every endpoint in this process."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.test import Client
from django.utils import timezone

from allowlist import keys
from allowlist.models import ApiKey, UnknownRequest
from channels_app.agent_sessions import results
from channels_app.agent_sessions.sessions import open_session
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.asgi.http import Scope
from channels_app.intake.inbound import receive_personal, receive_sender
from core.conversations import tool_calls
from core.conversations.inbox import Draft
from core.conversations.schedules import changes
from core.conversations.schedules.changes import Grant, Wish
from core.conversations.tool_calls import Asked
from core.database import transactions
from core.files import storage
from core.lib import encryption
from core.messages import Message, RetrievalSource, retrieval_message, stream_start, to_dict
from core.models import (
    ChannelAccount,
    ChatSession,
    McpServer,
    Occurrence,
    Run,
    RunEvent,
    Schedule,
    User,
)
from core.tools.mcp.oauth import sign_ins
from gateway_project.asgi import ROUTES, application
from tests.loops import end_tasks

WHO = ("anonymous", "other", "own", "staff", "owner", "revoked", "bridge")
BACKEND = "django.contrib.auth.backends.ModelBackend"
SCOPES = ("chat", "inbound", "send_result")
WEBHOOK_SECRET = "a-webhook-secret"
SOURCES: list[RetrievalSource] = [
    {"id": "s1", "type": "web", "title": "T", "url": "https://t.example", "content": "…"}
]

RESPONSE = {
    "response": {
        "model": "default",
        "store": True,
        "background": False,
        "previous": "",
        "instructed": False,
        "repeated": {},
        "kinds": {},
        "language": "en",
    },
    "messages": [{"role": "user", "content": "a secret request"}],
}


@dataclass(frozen=True)
class Answer:
    """An endpoint's response."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass
class GatewayData:
    """An owner, staff without rights, two members; things that belong to the member ``own``."""

    people: dict[str, User] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    browsers: dict[str, Client] = field(default_factory=dict)

    def fill(self, template: str) -> str:
        """Return ``template`` with the ids of the things of ``own``."""
        for name, value in self.names.items():
            template = template.replace("{" + name + "}", value)
        return template

    def ask(self, who: str, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send one request as ``who``: by cookie at pages, by key at endpoints."""
        given = b"" if body is None else body if isinstance(body, bytes) else orjson.dumps(body)
        if is_endpoint(path):
            return asyncio.run(self.ask_endpoint(who, method, path, given, headers))
        return self.ask_django(who, method, path, given, headers)

    def browser(self, who: str) -> Client:
        """Return the browser of ``who``, signed in for users; cached."""
        if who not in self.browsers:
            made = self.browsers[who] = Client(raise_request_exception=False)
            if who in self.people:
                made.force_login(self.people[who], backend=BACKEND)
        return self.browsers[who]

    def ask_django(
        self, who: str, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> Answer:
        """Send through Django's handler. ``/api`` takes keys; pages take cookies."""
        client = self.browser("" if path.startswith("/api") else who)
        if "sign-" in path or "logout" in path:
            self.browsers.pop(who, None)  # whatever happens now, the next one begins signed in
        every = dict(headers)
        if (who not in self.people or path.startswith("/api")) and who in self.tokens:
            every["Authorization"] = f"Bearer {self.tokens[who]}"
        found: HttpResponseBase = client.generic(
            method, path, body, content_type="application/json", headers=every, SERVER_NAME=HOST
        )
        content = found.content if isinstance(found, HttpResponse) else b""
        cookies = {f"set-cookie:{name}": str(each) for name, each in found.cookies.items()}
        low = {name.lower(): value for name, value in found.headers.items()}
        return Answer(found.status_code, low | cookies, content)

    async def ask_endpoint(
        self, who: str, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> Answer:
        """Send through the ASGI application; the client disconnects once a response begins."""
        every = {"host": HOST, "content-type": "application/json", **headers}
        if who in self.tokens:
            every["authorization"] = f"Bearer {self.tokens[who]}"
        try:
            return await call(method, path, body, every)
        finally:
            await end_tasks()


HOST = "testserver"


def is_endpoint(path: str) -> bool:
    """Return whether a consumer or a view for programs answers ``path``; Django's pages answer
    others."""
    return any(route.pattern.match(path.split("?")[0].lstrip("/")) for route in ROUTES)


async def call(method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
    """Send one request to the ASGI endpoints, as a server does."""
    path, _, query = path.partition("?")
    scope: Scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("192.0.2.7", 1),
    }
    begun, sent, given = asyncio.Event(), list[Scope](), False

    async def receive() -> Scope:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        await begun.wait()
        return {"type": "http.disconnect"}

    async def send(message: Scope) -> None:
        sent.append(message)
        begun.set()

    async with asyncio.timeout(120):
        await application(scope, receive, send)
    start = sent[0]
    low = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], low, b"".join(each.get("body", b"") for each in sent[1:]))


def build() -> GatewayData:
    """Create the people, keys and objects, inside a test with a database."""
    gateway = GatewayData()
    for name in ("other", "own", "staff", "owner"):
        gateway.people[name] = User.objects.create(
            username=name,
            is_owner=name == "owner",
            is_superuser=name == "owner",
            is_staff=name in {"owner", "staff"},
        )
        scopes = [*SCOPES, "admin:requests"]
        gateway.tokens[name] = keys.create(name=name, user=gateway.people[name], scopes=scopes)[1]
    gateway.tokens["revoked"] = keys.create(name="r", user=gateway.people["own"], scopes=SCOPES)[1]
    keys.revoke(key=ApiKey.objects.get(name="r"), actor="test", now=timezone.now())
    bridge = ChannelAccount.objects.create(channel="bridge", name="mail", status="running")
    gateway.tokens["bridge"] = keys.create(name="b", account=bridge, scopes=SCOPES)[1]
    ChannelAccount.objects.create(
        channel="telegram",
        name="bot",
        secrets=encryption.encrypt({"token": f"1:{'x' * 35}", "webhook_secret": WEBHOOK_SECRET}),
    )
    furnish(gateway, bridge)
    return gateway


def as_text(message: Message) -> str:
    """Return a message as the log keeps it."""
    return orjson.dumps(to_dict(message)).decode()


def furnish_reminder(session: ChatSession) -> tuple[Schedule, Run]:
    """Return a schedule of the person of a session, and the run of an occurrence that was fired."""
    now = timezone.now()
    wish = Wish(text="a secret reminder", minutes=9, rule="FREQ=DAILY", time_zone="UTC")
    schedule = changes.create(user=session.user, session=session, wish=wish, grant=Grant(), now=now)
    with transactions.atomic_write():
        run = results.settled_run(session=session, text="a secret reminder", origin="schedule")
    Occurrence.objects.create(
        schedule=schedule, nominal_at=now, state=Occurrence.State.DONE, run=run
    )
    return schedule, run


def furnish(gateway: GatewayData, bridge: ChannelAccount) -> None:
    """Create objects of ``own``, and an unknown request."""
    own = gateway.people["own"]
    draft = Draft(account=builtin_account("web"), text="a secret question")
    receipt = receive_personal(user=own, draft=draft, session_id="", now=timezone.now())
    assert receipt.run is not None
    assert receipt.session is not None
    log: list[Message] = [
        stream_start(request_id="r", chat_id="c", trace_id="t", timestamp_ms=0),
        retrieval_message("q", SOURCES, message_id="found-1"),
    ]
    for seq, message in enumerate(log, 1):
        RunEvent.objects.create(run=receipt.run, seq=seq, data=as_text(message))
    kept = storage.keep(user=own, name="own.txt", content=b"private")
    unknown = Draft(account=bridge, sender="stranger", text="let me in", chat="stranger")
    receive_sender(draft=unknown, now=timezone.now())
    agents = open_session(user=own, account=builtin_account("web"), title="for an agent")
    schedule, reminded = furnish_reminder(receipt.session)
    with transactions.atomic_write():
        asked = [(Asked("1", "send_mail", '{"to": "a secret address"}'), None)]
        [call] = tool_calls.pause(run=reminded, messages=[], asked=asked)
        responded = results.settled_run(session=receipt.session, text="a secret response")
    Run.objects.filter(pk=responded.pk).update(options=RESPONSE)
    server = McpServer.objects.create(
        name="Notes", slug="notes", url="https://notes.example/mcp", authentication="person"
    )
    gateway.names = {
        "sign_in": sign_ins.create(server, own, now=timezone.now()).public_id,
        "call": call.public_id,
        "digest": call.digest,
        "schedule": schedule.public_id,
        "reminder": reminded.public_id,
        "agent": agents.public_id,
        "session": receipt.session.public_id,
        "run": receipt.run.public_id,
        "response": f"resp_{responded.public_id}",
        "file": kept.public_id,
        "request": str(UnknownRequest.objects.get().public_id),
        "nobody": "A" * 22,
    }
