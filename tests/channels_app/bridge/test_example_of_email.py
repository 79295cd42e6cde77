"""[D4] [T7] The example of e-mail in docs/ sends fields that ``POST /process`` takes, and nothing
of an e-mail is lost on the way. Without servers: tests/channels_app/bridge/test_examples.py has
those.
"""

import base64
import email
import email.policy
import imaplib
import io
import json
import runpy
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from http.client import HTTPConnection
from http.server import HTTPServer
from typing import Any, Self

import pytest
from django.conf import settings

from channels_app.asgi.http import RefusedError, parse_object
from channels_app.bridge import fields

EXAMPLES = settings.BASE_DIR / "docs" / "examples"
PNG = b"\x89PNG\r\n\x1a\n"
# As Outlook makes them: longer than a line of a header.
NUMBER = f"<{'A' * 70}@AM0PR04MB1234.eurprd04.prod.outlook.com>"


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return the module of the example that reads and writes e-mails."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield __import__("email_words")
    sys.modules.pop("email_words")


def mail(text: str = "", **headers: str) -> EmailMessage:
    """Return an e-mail of Ada."""
    made = EmailMessage()
    for name, value in {"From": "Ada <ada@example.org>", **headers}.items():
        made[name.replace("_", "-")] = value
    if text:
        made.set_content(text)
    return made


def received(made: EmailMessage | bytes) -> Any:
    """Return an e-mail as it comes from a mailbox."""
    raw = made if isinstance(made, bytes) else made.as_bytes(policy=email.policy.SMTP)
    return email.message_from_bytes(raw, policy=email.policy.default)


def taken(words: Any, made: EmailMessage | bytes) -> fields.Asked:
    """Return the request of an e-mail as the gateway reads it."""
    return fields.read(parse_object(json.dumps(words.asked(received(made))).encode()))


def content(medium: dict[str, Any]) -> bytes:
    """Return the bytes of a medium."""
    return base64.b64decode(medium["url"].partition(",")[2])


def test_d4_a_forwarded_email_is_one_file(words: Any) -> None:
    """With its own attachments in it; the gateway reads .eml as documents."""
    old = mail("the old words", Subject="Über uns", Message_ID=NUMBER)
    old.add_attachment(b"a,b", "text", "csv", filename="old.csv")
    made = mail("See below", Subject="Fwd")
    made.add_attachment(old)
    made.add_attachment(b"c,d", "text", "csv", filename="Größe.csv")
    asked = taken(words, made)
    assert asked.text == "See below"
    assert [each["name"] for each in asked.media] == ["Über uns.eml", "Größe.csv"]
    within = received(content(asked.media[0]))
    assert (within["Subject"], within["Message-ID"]) == ("Über uns", NUMBER)
    assert [each.get_filename() for each in within.iter_attachments()] == ["old.csv"]
    assert content(asked.media[1]) == b"c,d"


def test_d4_an_email_that_holds_only_another_one_is_passed_on(words: Any) -> None:
    made = mail(Subject="Fwd")
    made.make_mixed()
    made.add_attachment(mail("old"))
    asked = taken(words, made)
    assert (asked.text, [each["name"] for each in asked.media]) == ("", ["e-mail.eml"])


def test_d4_the_words_after_a_picture_are_passed_on(words: Any) -> None:
    """Apple Mail writes the texts around a picture as parts of their own."""
    raw = (
        b"From: ada@example.org\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n"
        b"--x\r\nContent-Type: text/plain\r\n\r\nbefore\r\n"
        b"--x\r\nContent-Type: image/png\r\nContent-Disposition: inline; filename=a.png\r\n\r\n"
        b"abc\r\n--x\r\n\r\nafter\r\n"  # of a part without fields the type is text/plain
        b"--x\r\nContent-Type: text/plain; name=n.txt\r\n\r\na note\r\n"
        b"--x\r\nContent-Type: application/pdf; name=p.pdf\r\n\r\n%PDF\r\n--x--\r\n"
    )
    asked = taken(words, raw)
    assert asked.text == "before\n\nafter"
    named = [(each["kind"], each["name"]) for each in asked.media]
    assert named == [("image", "a.png"), ("file", "n.txt"), ("file", "p.pdf")]


def test_d4_an_email_with_a_blank_plain_part_has_the_words_of_its_page(words: Any) -> None:
    """Whose head need not be closed."""
    made = mail(" ")
    made.add_alternative("<head><title>x</title><body><p>Fish &amp; chips", subtype="html")
    assert taken(words, made).text == "Fish & chips"


def test_d4_of_a_text_in_two_forms_one_is_passed_on(words: Any) -> None:
    made = mail("once")
    made.add_alternative("<p>once</p>", subtype="html")
    made.add_attachment(PNG, "image", "png")
    asked = taken(words, made)
    assert (asked.text, len(asked.media)) == ("once", 1)


def test_t7_an_answers_pictures_are_shown_below_its_words(words: Any) -> None:
    url = f"data:image/png;base64,{base64.b64encode(b'picture').decode()}"
    answer = {"delivery_id": "run:1:0", "chat_id": "ada@example.org", "images": [url]}
    to, raw = words.letter({**answer, "text": "Here it is."}, "bot@example.org")
    sent = received(raw)
    assert (to, sent["To"]) == ("ada@example.org", "ada@example.org")
    assert sent.get_body(("plain",)).get_content().strip() == "Here it is."
    (shown,) = list(sent.iter_attachments())
    assert (shown.get_content_type(), shown.get_content()) == ("image/png", b"picture")
    assert shown.get_content_disposition() == "inline"


def test_d4_an_answer_stays_in_a_thread_of_long_numbers(words: Any) -> None:
    """And has a date and a number of its own, the same when it is mailed once more."""
    asked = words.asked(received(mail("hi", Message_ID=NUMBER, References="<1@x>", Subject="Ä?")))
    answer = {"delivery_id": "run:1:0", "chat_id": "ada@example.org", "text": "Grüße"}
    (_, raw), (_, again) = (
        words.letter({**answer, "context": asked["context"]}, "Bot <bot@example.org>")
        for _ in range(2)
    )
    assert f"In-Reply-To: {NUMBER}\r\n".encode() in raw
    sent = received(raw)
    assert str(sent["References"]).split() == ["<1@x>", NUMBER]
    assert (sent["Subject"], sent.get_content().strip()) == ("Re: Ä?", "Grüße")
    assert str(sent["Message-ID"]).endswith("@example.org>")
    assert sent["Message-ID"] == received(again)["Message-ID"]
    assert sent["Date"]
    other = words.letter({**answer, "text": "Hello"}, "bot@example.org")[1]
    assert received(other)["Message-ID"] != sent["Message-ID"]


@dataclass
class Mailbox:
    """An IMAP server with these e-mails, and what became of them."""

    raw: list[bytes]
    flags: dict[bytes, str] = field(default_factory=dict)

    def __call__(self, *_: Any, **__: Any) -> Self:
        """Return the connection."""
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def login(self, *_: str) -> None:
        """Sign in."""

    def select(self, name: str) -> None:
        """Choose a folder."""

    def uid(self, command: str, *arguments: Any) -> Any:
        """Do what the bridge asks for."""
        if command == "SEARCH":
            known = [
                b"%d" % each for each in range(len(self.raw)) if b"%d" % each not in self.flags
            ]
            return "OK", [b" ".join(known) or None]
        if command == "FETCH":
            return "OK", [(b"1 (BODY[] {9}", self.raw[int(arguments[0])]), b")"]
        self.flags[arguments[0]] = arguments[2]
        return "OK", []


class EnoughError(Exception):
    """The bridge has looked into its mailbox as often as the test wants."""


def looked(monkeypatch: pytest.MonkeyPatch, mailbox: Mailbox, gateway: Any) -> None:
    """Run the bridge until it has looked twice. ``gateway`` answers requests: status and error."""
    said: list[bytes] = []

    def getresponse(_: object) -> Any:
        status, error = gateway(parse_object(said.pop()))
        answer: Any = io.BytesIO(error.encode())
        answer.status = status
        return answer

    pauses = iter([None])

    def sleep(_: float) -> None:
        if next(pauses, EnoughError) is EnoughError:
            raise EnoughError

    names = ("BRIDGE_KEY", "BRIDGE_SECRET", "MAIL", "MAIL_PASSWORD", "IMAP_HOST", "SMTP_HOST")
    numbers = dict.fromkeys(("BRIDGE_PORT", "IMAP_PORT", "SMTP_PORT"), "0")
    for name, value in {**dict.fromkeys(names, "x"), **numbers, "GATEWAY_URL": "http://x"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(imaplib, "IMAP4_SSL", mailbox)
    monkeypatch.setattr(HTTPConnection, "request", lambda *arguments: said.append(arguments[3]))
    monkeypatch.setattr(HTTPConnection, "getresponse", getresponse)
    monkeypatch.setattr(HTTPServer, "__init__", lambda *_: None)
    monkeypatch.setattr(HTTPServer, "serve_forever", lambda _: None)
    monkeypatch.setattr(time, "sleep", sleep)
    with pytest.raises(EnoughError):
        runpy.run_path(str(EXAMPLES / "email_bridge.py"))


def reading(body: dict[str, Any]) -> tuple[int, str]:
    """Answer as a gateway to which Mallory is unknown."""
    try:
        asked = fields.read(body)
    except RefusedError as error:
        return error.status, str(error)
    return (401, "Permission denied") if asked.user_id == "mal@example.org" else (202, "")


@pytest.mark.usefixtures("words")
def test_d4_odd_emails_are_flagged_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = b"".join(
        b"Content-Type: multipart/mixed; boundary=x%d\r\n\r\n--x%d\r\n" % (each, each)
        for each in range(2000)
    )
    made = [
        b"From: ada@example.org\r\n" + deep,
        b"From: ada@example.org\r\n\r\n",
        mail("hello").as_bytes(),
        mail("let me in").as_bytes().replace(b"ada@", b"mal@"),
    ]
    mailbox = Mailbox(made)
    looked(monkeypatch, mailbox, reading)
    flagged = [b"Flagged" in flags.encode() for _, flags in sorted(mailbox.flags.items())]
    assert flagged == [True, True, False, False]


@pytest.mark.usefixtures("words")
def test_d4_with_a_wrong_key_no_email_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway does not say whether a key exists: it answers as to an unknown sender."""
    mailbox = Mailbox([mail("hello").as_bytes()])
    looked(monkeypatch, mailbox, lambda _: (401, "Permission denied"))
    assert mailbox.flags == {}
