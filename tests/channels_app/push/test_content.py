"""The words of a notification, without a push service."""

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from django.utils import timezone

from allowlist.models import UnknownRequest
from channels_app.push import content
from channels_app.push.content import Content
from channels_app.tool_requests import asking
from core.conversations.tool_calls import Asked
from core.database.transactions import atomic_write
from core.models import (
    Assistant,
    ChannelAccount,
    ChatSession,
    PushMessage,
    PushSubscription,
    Run,
    ToolCall,
    User,
)
from tests.channels_app.push.conftest import answered

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def eve() -> UnknownRequest:
    account = ChannelAccount.objects.create(channel="telegram", name="main")
    now = timezone.now()
    return UnknownRequest.objects.create(
        account=account,
        kind="im",
        sender="777",
        sender_name="Eve",
        last_text="Let me in",
        first_seen_at=now,
        last_seen_at=now,
        expires_at=now + timedelta(days=1),
    )


def message(user: User, kind: str, ref: str) -> PushMessage:
    """Return a message for a browser of the user."""
    browser, _ = PushSubscription.objects.get_or_create(user=user, endpoint=f"https://{user}")
    expires = timezone.now() + timedelta(days=1)
    row = PushMessage.objects.create(subscription=browser, kind=kind, ref=ref, expires_at=expires)
    return PushMessage.objects.select_related("subscription__user").get(pk=row.pk)


def said(user: User, kind: str, ref: str) -> Content | None:
    """Return what a message of that kind says to the user."""
    return content.of(message(user, kind, ref))


@pytest.mark.parametrize("kind", ["answer", "reminder"])
def test_an_answer_is_its_first_words_as_plain_text(ann: User, kind: str) -> None:
    run = answered(ann, "**Blue**, because")
    found = said(ann, kind, run.public_id)
    assert found == Content("Latchkey", "Blue, because", f"/c/{run.session.public_id}")
    assert found.actions == []


def test_an_answer_is_under_the_name_of_its_assistant(ann: User) -> None:
    assistant, _ = Assistant.objects.update_or_create(pk=1, defaults={"name": "Jeeves"})
    without = said(ann, "answer", answered(ann, "Hello.").public_id)
    assert without is not None
    assert without.title == "Latchkey"
    run = answered(ann, "Very good.", assistant_id=assistant.pk)
    found = said(ann, "answer", run.public_id)
    assert found is not None
    assert found.title == "Jeeves"


@pytest.mark.parametrize(
    ("language", "result", "body"),
    [
        ("", {"text": " \n"}, "A file"),
        ("", {}, "A file"),
        (
            "",
            {"text": "", "error": "The model {is} away."},
            "There is no answer: The model {is} away.",
        ),
        ("", {"text": "Half", "error": "The model is away."}, "Half"),
        ("de", {"text": None, "error": None}, "Eine Datei"),
        ("de", {"error": "Keine Zeit."}, "Es gibt keine Antwort: Keine Zeit."),
    ],
)
def test_an_answer_without_words_is_said_in_the_language_of_its_person(
    ann: User, language: str, result: dict[str, Any], body: str
) -> None:
    User.objects.update(language=language)
    ann.refresh_from_db()
    found = said(ann, "answer", answered(ann, "", result=result).public_id)
    assert found is not None
    assert found.body == body


def test_only_an_answer_of_an_open_web_chat_of_the_person_is_told(ann: User, owner: User) -> None:
    run = answered(ann, "Blue.")
    assert said(ann, "answer", run.public_id) is not None
    assert said(owner, "answer", run.public_id) is None
    assert said(ann, "answer", "unknown") is None
    ChatSession.objects.update(closed_at=timezone.now())
    assert said(ann, "reminder", run.public_id) is None
    ChatSession.objects.update(closed_at=None)
    ChannelAccount.objects.update(channel="http")
    PushMessage.objects.all().delete()
    assert said(ann, "answer", run.public_id) is None


def asked(user: User) -> ToolCall:
    """Return a call of a tool that waits for an owner's yes."""
    account = ChannelAccount.objects.create(channel="memory", name="mem")
    session = ChatSession.objects.create(user=user, account=account, chat="42")
    run = Run.objects.create(session=session, user=user, origin="memory", state="succeeded")
    with atomic_write():
        asking.ask(run=run, messages=[], questions=[Asked("1", "mail", '{"to": "bob"}')])
    return ToolCall.objects.get()


def test_a_question_is_told_to_its_decider_while_it_waits(ann: User, owner: User) -> None:
    call = asked(ann)
    found = said(owner, "question", call.public_id)
    assert found is not None
    assert (found.title, found.url) == ("🔐 May I use “mail”?", f"/tool-calls/{call.public_id}")
    assert found.body == "Ann · Memory • to: bob"
    assert said(ann, "question", call.public_id) is None
    User.objects.update(language="de")
    PushMessage.objects.all().delete()
    owner.refresh_from_db()
    german = said(owner, "question", call.public_id)
    assert german is not None
    assert german.title == "🔐 Darf ich “mail” verwenden?"
    ToolCall.objects.update(expires_at=timezone.now() - timedelta(hours=1))
    PushMessage.objects.all().delete()
    assert said(owner, "question", call.public_id) is None
    ToolCall.objects.update(state="denied", expires_at=timezone.now() + timedelta(hours=1))
    PushMessage.objects.all().delete()
    assert said(owner, "question", call.public_id) is None
    assert said(owner, "question", "unknown") is None


def test_a_request_has_buttons_that_open_its_page(owner: User, eve: UnknownRequest) -> None:
    found = said(owner, "request", eve.public_id)
    assert found == Content(
        "Unknown request from telegram: user_id=777.",
        "They say: “Eve: Let me in”",
        f"/admin/allowlist/unknownrequest/{eve.pk}/change/",
        [
            ("Allow", f"/requests/{eve.public_id}?choice=approve"),
            ("Deny", f"/requests/{eve.public_id}?choice=deny"),
        ],
    )
    User.objects.update(is_staff=False, language="de")
    owner.refresh_from_db()
    PushMessage.objects.all().delete()
    german = said(owner, "request", eve.public_id)
    assert german is not None
    assert german.url == f"/requests/{eve.public_id}"
    assert [label for label, _ in german.actions] == ["Erlauben", "Ablehnen"]


def test_a_request_is_told_to_owners_while_it_is_pending(
    ann: User, owner: User, eve: UnknownRequest
) -> None:
    assert said(ann, "request", eve.public_id) is None
    assert said(owner, "request", "unknown") is None
    for change in (
        {"expires_at": timezone.now() - timedelta(seconds=1)},
        {"expires_at": timezone.now() + timedelta(days=1), "state": "denied"},
    ):
        UnknownRequest.objects.update(**change)
        assert said(owner, "request", eve.public_id) is None
        PushMessage.objects.all().delete()


def read(row: PushMessage, found: Content) -> dict[str, Any]:
    """Return what the service worker reads."""
    read: dict[str, Any] = orjson.loads(content.payload(row, found))
    return read


def test_a_page_gets_the_texts_the_addresses_and_the_time(ann: User) -> None:
    row = message(ann, "answer", "abc")
    row.created_at = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
    shown = Content("t" * 100, "b\n" * 400, "/c/1", [("Allow", "/a"), ("Deny", "/b")])
    assert read(row, shown) == {
        "tag": "answer:abc",
        "title": "t" * 79 + "…",
        "body": ("b " * 120)[:239] + "…",
        "url": "/c/1",
        "at": 1_772_366_400_250,
        "actions": [{"title": "Allow", "url": "/a"}, {"title": "Deny", "url": "/b"}],
    }


def test_the_length_is_a_multiple_of_512(ann: User) -> None:
    row = message(ann, "answer", "abc")
    lengths = {
        len(content.payload(row, Content("t", "b" * number, "/" + "c" * rest)))
        for number in (0, 100, 240)
        for rest in range(512)
    }
    assert lengths == {512, 1024}


@pytest.mark.parametrize("kind", list(content.HIDDEN))
def test_a_hidden_text_says_the_kind_in_the_language_of_the_person(ann: User, kind: str) -> None:
    ann.hide_push_text, ann.language = True, "de"
    ann.save()
    row = message(ann, kind, "abc")
    found = read(row, Content("Secret", "secret", "/c/1", [("Allow", "/a")]))
    assert "ecret" not in str(found)
    assert found["title"] == "Latchkey"
    assert found["body"] not in ("", content.HIDDEN[kind]), "it is translated"
    assert (found["url"], len(found["actions"])) == ("/c/1", 1)
