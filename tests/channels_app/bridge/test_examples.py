"""[D4]: the reference bridges of the documentation, against real mail servers and under Node."""

import base64
import email
import email.policy
import imaplib
import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from aiosmtpd.controller import Controller

from gateway_project.home import BASE_DIR
from gateway_project.processes import listener
from tests.gateways import Gateway
from tests.servers import Process, wait_until

pytestmark = pytest.mark.slow

EXAMPLES = BASE_DIR / "docs" / "examples"
BOT, PASSWORD, SECRET = "bot@example.org", "correct horse", "a-secret-of-a-bridge"
SECONDS = 240.0
# A character set that does not exist, no Message-ID, no text at all: senders may do that.
ODD = """From: Mallory <mal@example.org>
Subject: =?utf-8?q?a=0Ab?=
Message-ID: <odd@example.org>
Content-Type: text/plain; charset=no-such-set

hello
"""
NAMELESS = """From: ada@example.org
Subject: Nameless

no number
"""
EMPTY = """From: ada@example.org
Subject: Empty
Message-ID: <empty@example.org>

"""
SETUP = """
import json, sys
from allowlist import keys
from core.models import ChannelAccount, ChannelIdentity, User
from core.lib.encryption import encrypt
ports = json.load(sys.stdin)
ada = User.objects.create(username="ada", is_owner=True)
ChannelIdentity.objects.create(user=ada, kind="email", value="ada@example.org")
ChannelIdentity.objects.create(user=ada, kind="im", value="u-ada")
made = {}
for name, kind in (("mail", "email"), ("chat", "im")):
    url = f"http://127.0.0.1:{ports[name]}/get_response"
    account = ChannelAccount.objects.create(
        channel="bridge", name=name, secrets=encrypt({"signing_secret": ports["secret"]}),
        config={"callback_url": url, "allow_private": "true", "kind": kind},
    )
    made[name] = keys.create(name=name, account=account, scopes=["inbound"])[1]
print(json.dumps(made))
"""
WAITING = """
from allowlist.models import UnknownRequest
print([f"{row.kind}:{row.sender}" for row in UnknownRequest.objects.order_by("id")])
"""


@dataclass
class Setup:
    """A gateway with two bridge accounts, and where their bridges listen."""

    gateway: Gateway
    ports: dict[str, Any]
    keys: dict[str, str]


@pytest.fixture(scope="module")
def made(module_gateways: Callable[..., Gateway]) -> Setup:
    """Return one gateway for both bridges."""
    gateway = module_gateways(
        GATEWAY_ENCRYPTION_KEYS="key-of-a-test", SWEEP_SECONDS="1", MAX_BODY_BYTES="1000000"
    )
    ports = {"mail": listener.free_port(), "chat": listener.free_port(), "secret": SECRET}
    out = gateway.manage("shell", "-v", "0", "-c", SETUP, stdin=json.dumps(ports))
    return Setup(gateway, ports, json.loads(out))


@dataclass
class Mailbox:
    """A real IMAP server (pymap) with one mailbox."""

    port: int

    def open(self) -> imaplib.IMAP4:
        """Return a connection that is signed in."""
        found = imaplib.IMAP4("127.0.0.1", self.port)
        found.login(BOT, PASSWORD)
        found.select("INBOX")
        return found

    def answers(self) -> bool:
        """Return whether the server accepts connections."""
        with suppress(OSError, imaplib.IMAP4.error), self.open():
            return True
        return False

    def put(self, mail: EmailMessage) -> None:
        """Deliver a new e-mail."""
        with self.open() as imap:
            imap.append("INBOX", "", "", mail.as_bytes(policy=email.policy.SMTP))

    def put_raw(self, raw: str) -> None:
        """Deliver an e-mail in its raw form."""
        with self.open() as imap:
            imap.append("INBOX", "", "", raw.replace("\n", "\r\n").encode())

    def flagged(self) -> int:
        """Return how many e-mails are flagged for a person."""
        with self.open() as imap:
            return len(imap.uid("SEARCH", "FLAGGED")[1][0].split())

    def unread(self) -> int:
        """Return how many e-mails are unread."""
        with self.open() as imap:
            return len(imap.uid("SEARCH", "UNSEEN")[1][0].split())


@dataclass
class Outbox:
    """The e-mails that the SMTP server (aiosmtpd) received."""

    mails: list[EmailMessage] = field(default_factory=list)

    def about(self, subject: str) -> list[EmailMessage]:
        """Return the e-mails with this subject."""
        return [each for each in self.mails if subject in str(each["Subject"])]

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        """Keep it."""
        del server, session
        parsed: Any = email.message_from_bytes(envelope.content, policy=email.policy.default)
        self.mails.append(parsed)
        return "250 OK"


@pytest.fixture
def mailbox(tmp_path: Path) -> Iterator[Mailbox]:
    """Start the IMAP server; its demo mails are read, and not flagged."""
    found = Mailbox(listener.free_port())
    process = Process(
        command=[
            str(Path(sys.executable).parent / "pymap"),
            *("--host", "127.0.0.1", "--port", str(found.port), "--no-tls"),
            *("--no-service", "admin", "dict", "--demo-data"),
            *("--demo-user", BOT, "--demo-password", PASSWORD),
        ],
        log=tmp_path / "imap.log",
        env=dict(os.environ),
    )
    process.start()
    wait_until(found.answers, seconds=SECONDS, what="the IMAP server")
    with found.open() as imap:
        imap.store("1:*", "FLAGS", "(\\Seen)")
    yield found
    process.stop()


@pytest.fixture
def outbox() -> Iterator[tuple[Outbox, int]]:
    """Start the SMTP server; yield it and its port."""
    found, port = Outbox(), listener.free_port()
    controller = Controller(found, hostname="127.0.0.1", port=port)
    controller.start()
    yield found, port
    controller.stop()


def mail(sender: str, subject: str, text: str, number: str, **headers: str) -> EmailMessage:
    """Return an e-mail to the bot."""
    made = EmailMessage()
    made["From"], made["To"], made["Subject"], made["Message-ID"] = sender, BOT, subject, number
    for name, value in headers.items():
        made[name.replace("_", "-")] = value
    made.set_content(text)
    return made


PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def page(sender: str, subject: str, number: str) -> EmailMessage:
    """Return an e-mail without a plain part, with a picture and a file."""
    made = mail(sender, subject, "", number)
    made.set_content(
        "<html><head><title>x</title><style>p {color: red}</style></head>"
        "<body><p>Fish &amp; <b>chips</b></p></style><p>twice</p></body></html>",
        subtype="html",
    )
    made.add_related(PNG, "image", "png", cid="<p>")
    # As many programs send a file: its type is told by its name.
    made.add_attachment(b"a,b\n1,2\n", "application", "octet-stream", filename="n.csv")
    made.add_attachment(mail("bea@example.org", "Forwarded", "the old words", "<0@example.org>"))
    return made


def is_the_page(said: str) -> bool:
    """Return whether an answer repeats the content of :func:`page`: its words and its file, no
    styles.
    """
    parts = ("Fish & chips", "twice", "n.csv", "1 | 2", "Forwarded.eml", "the old words")
    missing = [each for each in parts if each not in said]
    assert not missing, said
    return "color" not in said


def test_an_email_is_answered_in_its_thread_and_a_strangers_is_announced(
    made: Setup, mailbox: Mailbox, outbox: tuple[Outbox, int], tmp_path: Path
) -> None:
    """[D4] [A5] kind ``email``: a plain part, ``In-Reply-To`` and ``References``.

    The owner, whose last message was an e-mail, gets the notice of the unknown sender by e-mail.
    A command is answered in its thread too. Odd e-mails stop nothing: those that cannot be
    processed, and too large ones, are flagged for a person.
    """
    sent, port = outbox
    bridge = Process(
        command=[sys.executable, str(EXAMPLES / "email_bridge.py")],
        log=tmp_path / "bridge.log",
        env={
            **os.environ,
            "GATEWAY_URL": made.gateway.base_url,
            "BRIDGE_KEY": made.keys["mail"],
            "BRIDGE_SECRET": SECRET,
            "BRIDGE_PORT": str(made.ports["mail"]),
            "MAIL": BOT,
            "MAIL_PASSWORD": PASSWORD,
            "NO_TLS": "1",
            "POLL_SECONDS": "0.2",
            "IMAP_HOST": "127.0.0.1",
            "IMAP_PORT": str(mailbox.port),
            "SMTP_HOST": "127.0.0.1",
            "SMTP_PORT": str(port),
        },
    )
    bridge.start()
    try:
        for raw in (ODD, NAMELESS, EMPTY):
            mailbox.put_raw(raw)
        help_wanted = mail("ada@example.org", "Please", "/whoami", "<5@example.org>")
        mailbox.put(help_wanted)
        large = mail("ada@example.org", "Large", "see it", "<7@example.org>")
        large.add_attachment(bytes(4_000_000), "application", "pdf", filename="large.pdf")
        mailbox.put(large)
        mailbox.put(page("ada@example.org", "Page", "<6@example.org>"))
        mailbox.put(mail("Ada <ada@example.org>", "Lunch", "**Where** to?", "<1@example.org>"))
        mailbox.put(mail("Mallory <mal@example.org>", "Hi", "let me in", "<2@example.org>"))
        robot = mail(
            "ada@example.org", "Away", "gone", "<3@example.org>", Auto_Submitted="auto-replied"
        )
        mailbox.put(robot)
        wait_until(lambda: sent.about("Lunch"), seconds=SECONDS, what=f"the answer {bridge.tail()}")
        wait_until(lambda: mailbox.unread() == 0, seconds=SECONDS, what="all read")
        more = mail(
            "ada@example.org",
            "Re: Lunch",
            "And when?",
            "<4@example.org>",
            References="<1@example.org>",
        )
        mailbox.put(more)
        wait_until(
            lambda: len(sent.about("Lunch")) == 2, seconds=SECONDS, what=f"two {bridge.tail()}"
        )
        wait_until(lambda: sent.about("A message"), seconds=SECONDS, what="the owner's notice")
        for subject in ("Nameless", "Please", "Page"):
            wait_until(lambda: sent.about(subject), seconds=SECONDS, what=subject)  # noqa: B023
        wait_until(lambda: mailbox.flagged() == 3, seconds=SECONDS, what="three for a person")
    finally:
        bridge.stop()
    (command,) = sent.about("Please")
    assert command["In-Reply-To"] == "<5@example.org>"
    assert "You are ada" in command.get_content()
    (shown,) = sent.about("Page")
    assert is_the_page(shown.get_content())
    (notice,) = sent.about("A message")
    assert notice["To"] == "ada@example.org"
    assert "user_id=mal@example.org" in notice.get_content()
    check_thread(*sent.about("Lunch"))
    waiting = made.gateway.manage("shell", "-v", "0", "-c", WAITING)
    assert waiting.strip() == "['email:mal@example.org']"


def check_thread(first: EmailMessage, second: EmailMessage) -> None:
    """Check two answers in one conversation."""
    assert (first["To"], first["Subject"]) == ("ada@example.org", "Re: Lunch")
    assert first["In-Reply-To"] == first["References"] == "<1@example.org>"
    assert first["Auto-Submitted"] == "auto-replied"
    assert first.get_content_type() == "text/plain"
    assert "Where" in first.get_content()
    assert "**" not in first.get_content()
    assert (second["Subject"], second["In-Reply-To"]) == ("Re: Lunch", "<4@example.org>")
    assert str(second["References"]).split() == ["<1@example.org>", "<4@example.org>"]


def test_a_chat_with_webhooks_is_bridged_by_javascript(made: Setup, tmp_path: Path) -> None:
    """[D4] the token of the chat is checked, the answer is posted to its channel."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not here; CI has it")
    posted: list[dict[str, str]] = []

    class Chat(BaseHTTPRequestHandler):
        """The chat's incoming webhook."""

        def do_POST(self) -> None:
            """Store the posted body."""
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    chat = ThreadingHTTPServer(("127.0.0.1", 0), Chat)
    threading.Thread(target=chat.serve_forever, daemon=True).start()
    bridge = Process(
        command=[node, str(EXAMPLES / "webhook_bridge.mjs")],
        log=tmp_path / "bridge.log",
        env={
            **os.environ,
            "GATEWAY_URL": made.gateway.base_url,
            "BRIDGE_KEY": made.keys["chat"],
            "BRIDGE_SECRET": SECRET,
            "BRIDGE_PORT": str(made.ports["chat"]),
            "OUTGOING_TOKEN": "token-of-the-chat",
            "INCOMING_URL": f"http://127.0.0.1:{chat.server_port}/hook",
        },
    )
    bridge.start()
    try:
        wait_until(lambda: "ready" in bridge.tail(), seconds=SECONDS, what="the bridge")
        address = f"http://127.0.0.1:{made.ports['chat']}"
        said = {"token": "token-of-the-chat", "user_id": "u-ada", "channel_name": "town"}
        asked = {**said, "post_id": "p1", "text": "hello @all, @everyone, a@all.com, @Allan"}
        assert post(f"{address}/outgoing", asked) == 202
        wait_until(lambda: posted, seconds=SECONDS, what=f"the answer {bridge.tail()}")
        wrong = {**said, "token": "another", "post_id": "p2", "text": "x"}
        assert post(f"{address}/outgoing", wrong) == 401
        assert post(f"{address}/get_response", {"chat_id": "town", "text": "forged"}) == 401
    finally:
        bridge.stop()
        chat.shutdown()
        chat.server_close()
    (answer,) = posted
    assert answer["channel"] == "town"
    assert "hello @\u200ball, @\u200beveryone, a@all.com, @Allan" in answer["text"]


def post(url: str, body: dict[str, str]) -> int:
    """Return the status of a POST."""
    from urllib.error import HTTPError

    request = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})  # noqa: S310
    try:
        with urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
            return int(answer.status)
    except HTTPError as error:
        error.close()
        return error.code


def test_the_examples_fit_on_a_page() -> None:
    """[D4] sixty lines each."""
    for path in EXAMPLES.iterdir():
        if path.suffix in {".py", ".mjs"}:
            assert len(path.read_text().splitlines()) <= 60, path.name
