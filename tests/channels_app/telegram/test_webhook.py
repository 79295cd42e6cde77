"""[D6] and the red team's list W: accepted and refused requests of the webhook."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from allowlist.models import UnknownRequest
from channels_app.telegram import receive, updates
from core.conversations import inbox
from core.models import (
    ChannelAccount,
    ChannelIdentity,
    ChatSession,
    InboundMessage,
    Run,
    User,
)
from tests.channels_app.telegram.local import SECRET, Local
from tests.channels_app.telegram.people import message, number, person
from tests.loops import Loop
from tests.threads import at_once

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("secret", [None, "", "wrong", SECRET.lower(), SECRET + "x", SECRET[:-1]])
def test_rw1_rw2_without_the_secret_nothing_is_stored_and_the_body_is_not_read(
    local: Local, secret: str | None
) -> None:
    status, _ = local.post(message("hello", user=556), secret=secret)
    assert status == 403
    assert not local.body_was_read
    assert not InboundMessage.objects.exists()


def test_rw3_an_account_without_a_secret_cannot_be_reached(local: Local) -> None:
    ChannelAccount.objects.filter(name="main").update(secrets="")
    assert local.post(message("hello", user=556), secret="")[0] == 404
    assert local.post(message("hello", user=556), secret=None)[0] == 404


def test_rw4_the_secret_of_another_account_or_path_opens_nothing(local: Local) -> None:
    assert local.post(message("hello"), account="nobody")[0] == 404
    ChannelAccount.objects.filter(name="other").update(enabled=False)
    assert local.post(message("hello"), account="other")[0] == 404


def test_rw5_the_same_update_a_hundred_times_at_once_is_one_run(local: Local) -> None:
    update = message("hello", user=556)

    def deliver() -> int:
        # Those that wait for the row for too long get 503; Telegram sends them again.
        return next(status for status in iter(lambda: local.post(update)[0], None) if status != 503)

    assert at_once(100, deliver) == [200] * 100
    assert InboundMessage.objects.count() == 1
    session = InboundMessage.objects.get().session
    assert session is not None
    inbox.flush_due(session_id=session.id, now=timezone.now() + timedelta(seconds=5))
    assert Run.objects.count() == 1


def test_rw5_the_same_message_under_another_update_id_is_one_message(local: Local) -> None:
    update = message("hello", user=556)
    local.post(update)
    local.post({**update, "update_id": number()})
    assert InboundMessage.objects.count() == 1


def test_rw5_two_web_processes_that_get_the_same_update_store_it_once(local: Local) -> None:
    """Each has a queue of its own; their updates share the database."""
    other = replace(local, loop=Loop())
    updates = [message(f"m{each}", user=556) for each in range(20)]
    try:
        with ThreadPoolExecutor(8) as pool:
            sent = [pool.submit(door.post, update) for update in updates for door in (local, other)]
            outcomes = [each.result(timeout=90) for each in sent]
    finally:
        other.loop.close()
    assert {status for status, _ in outcomes} == {200}
    told = sorted(body["outcome"] for _, body in outcomes)
    assert told == ["accepted"] * 20 + ["duplicate"] * 20
    assert InboundMessage.objects.count() == 20
    assert ChatSession.objects.count() == 1


def test_rw5_a_late_duplicate_does_not_open_a_closed_conversation_again(local: Local) -> None:
    update = message("hello", user=556)
    assert local.post(update)[1]["outcome"] == "accepted"
    ChatSession.objects.update(closed_at=timezone.now())
    assert local.post(update)[1]["outcome"] == "duplicate"
    assert ChatSession.objects.count() == 1


def test_rw5_a_duplicate_of_a_sender_removed_since_is_no_unknown_request(
    local: Local,
) -> None:
    update = message("hello", user=556)
    assert local.post(update)[1]["outcome"] == "accepted"
    ChannelIdentity.objects.filter(value="556").delete()
    assert local.post(update)[1]["outcome"] == "duplicate"
    assert not UnknownRequest.objects.exists()
    assert InboundMessage.objects.get().state == "received"


def test_d6_an_update_that_fails_does_not_take_those_beside_it_along(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is kept in quarantine, where polling keeps it too: answered 500, Telegram would send it
    again and again before all later ones, and then never.
    """
    known = inbox.store_waiting

    def store(**given: Any) -> tuple[InboundMessage, bool]:
        stored = known(**given)
        if given["draft"].text == "poison":
            raise ValueError("a bug of ours")
        return stored

    def post(text: str) -> tuple[int, str]:
        status, body = local.post(message(text, user=556))
        return status, body.get("outcome", "")

    texts = [f"m{each}" for each in range(12)] + ["poison"]
    with monkeypatch.context() as today:
        today.setattr(inbox, "store_waiting", store)
        with ThreadPoolExecutor(len(texts)) as pool:
            answers = dict(zip(texts, pool.map(post, texts), strict=True))
    assert answers.pop("poison") == (200, "quarantined")
    assert set(answers.values()) == {(200, "accepted")}
    stored = InboundMessage.objects.exclude(state="quarantined").values_list("text", flat=True)
    assert sorted(stored) == sorted(answers)
    kept = InboundMessage.objects.get(state="quarantined")
    assert b"poison" in bytes(kept.raw)
    assert kept.note == receive.BROKEN


@pytest.mark.parametrize("kind", ["message_reaction", "poll", "channel_post", "chat_join_request"])
def test_rw7_rw8_an_unknown_kind_is_counted_and_answered_200(local: Local, kind: str) -> None:
    assert local.post({"update_id": number(), kind: {"x": 1}}) == (
        200,
        {"ok": True, "outcome": "ignored"},
    )
    row = InboundMessage.objects.get()
    assert (row.state, row.note, row.raw) == ("ignored", kind, b"")


@pytest.mark.parametrize("body", [b"{", b"[", b"\xff", b"", b"[" * 100_000, b'{"a":1,"a":2}'])
def test_rw9_malformed_json_is_400(local: Local, body: bytes) -> None:
    assert local.post(body)[0] == 400


@pytest.mark.parametrize(
    "broken",
    [
        {"message": "x"},
        {
            "message": {
                "chat": {"id": 1, "type": "private"},
                "from": person(556),
                "date": 10**15,
                "message_id": 1,
                "text": "x",
            }
        },
        {"message": {"message_id": 1, "chat": [], "from": person(556), "text": "x"}},
        {"message": {"message_id": 1, "chat": {"id": 1, "type": "private"}, "from": person(2**63)}},
        {"message": {"message_id": 1, "chat": {"id": 1, "type": "private"}, "from": person(-5)}},
        {
            "message": {
                "message_id": 1,
                "chat": {"id": 1, "type": "private"},
                "from": {"id": "556"},
                "text": "x",
            }
        },
        {"callback_query": {"id": 5, "data": 7, "message": {}, "from": person(556)}},
    ],
)
def test_rw10_rw14_an_unparsable_update_is_kept_for_the_owner_and_answered_200(
    local: Local, broken: dict[str, Any]
) -> None:
    assert local.post({"update_id": number(), **broken}) == (
        200,
        {"ok": True, "outcome": "quarantined"},
    )
    row = InboundMessage.objects.get()
    assert row.state == "quarantined"
    assert json.loads(bytes(row.raw))
    assert row.note


def test_rw10_an_owner_can_parse_a_quarantined_update_again(
    local: Local, monkeypatch: pytest.MonkeyPatch, client: Client, owner: User
) -> None:
    """An update of a future version of Telegram is kept until it can be parsed; nothing is lost."""

    def fail(value: object) -> updates.Update:
        raise updates.UnparsableError("not yet known")

    with monkeypatch.context() as yesterday:
        yesterday.setattr(updates, "read", fail)
        assert local.post(message("good morning", user=556))[1]["outcome"] == "quarantined"
    kept = InboundMessage.objects.get()
    assert kept.state == "quarantined"
    User.objects.filter(id=owner.id).update(is_staff=True, is_superuser=True)
    client.force_login(owner)
    page = reverse("admin:core_inboundmessage_changelist")
    asked = {"action": "read_again", "_selected_action": [kept.pk]}
    answer = client.post(page, asked, follow=True)
    assert "accepted" in answer.content.decode()
    (read,) = InboundMessage.objects.all()
    assert (read.state, read.text, read.sender) == ("received", "good morning", "556")
    again = client.post(page, {**asked, "_selected_action": [read.pk]}, follow=True)
    assert "not in quarantine" in again.content.decode()
    assert InboundMessage.objects.get().pk == read.pk


def test_rw11_a_large_body_is_refused(local: Local) -> None:
    assert local.post(b"x" * (django_settings.TELEGRAM_MAX_BODY_BYTES + 1))[0] == 413


def test_rw13_nul_and_lone_surrogates_are_cleaned(local: Local) -> None:
    raw = json.dumps(message("X", user=556)).replace('"X"', '"a\\u0000b\\ud800c"').encode()
    assert local.post(raw)[0] == 200
    assert InboundMessage.objects.get().text == "ab\ufffdc"


def test_rw15_rw16_only_the_numeric_id_of_the_sender_counts(local: Local) -> None:
    spoofed = message("let me in", user=666, name="owner")
    spoofed["message"]["from"]["username"] = "owner"
    spoofed["message"]["forward_origin"] = {"type": "user", "sender_user": person(555)}
    assert local.post(spoofed)[1]["outcome"] == "denied"
    anonymous = message("let me in", user=555, chat=-100)
    anonymous["message"]["from"]["is_bot"] = True
    anonymous["message"]["sender_chat"] = {"id": -100, "type": "supergroup"}
    assert local.post(anonymous)[1]["outcome"] == "ignored"
    assert not Run.objects.exists()


def test_rw17_a_foreign_group_is_denied_by_the_person_and_by_the_group(local: Local) -> None:
    name = f"@bot{local.tokens['main'].partition(':')[0]}_bot"
    stranger = message(f"{name} hello", user=666, chat=-100)
    assert local.post(stranger)[1]["outcome"] == "denied"
    foreign = message(f"{name} hello", user=556, chat=-200)
    assert local.post(foreign)[1]["outcome"] == "denied"
    welcome = message(f"{name} hello", user=556, chat=-100)
    assert local.post(welcome)[1]["outcome"] == "accepted"
    chatter = message("hello everybody", user=556, chat=-100)
    assert local.post(chatter)[1]["outcome"] == "not addressed"
    assert not InboundMessage.objects.filter(text="hello everybody").exists()


def test_c8_a_command_that_names_the_bot_is_one_in_a_private_chat_too(local: Local) -> None:
    name = f"@bot{local.tokens['main'].partition(':')[0]}_bot"
    assert local.post(message(f"/whoami{name}", user=556))[1]["outcome"] == "accepted"
    assert InboundMessage.objects.get().note == "command /whoami"


def test_an_edit_of_an_unknown_sender_changes_nothing(local: Local) -> None:
    first = message("hello", user=556)
    local.post(first)
    changed = {**first["message"], "from": person(666), "text": "stolen"}
    stolen = {"update_id": number(), "edited_message": changed}
    assert local.post(stolen)[1]["outcome"] == "too late to edit"
    mine = {"update_id": number(), "edited_message": {**first["message"], "text": "hello again"}}
    assert local.post(mine)[1]["outcome"] == "edited"
    assert InboundMessage.objects.get().text == "hello again"


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ({"sticker": {"file_id": "f", "emoji": "🙂"}}, "[Sticker 🙂]"),
        ({"location": {"latitude": 1.5, "longitude": 2.5}}, "[Location: 1.5, 2.5]"),
        ({"contact": {"first_name": "Bo", "phone_number": "+1"}}, "[Contact: Bo +1]"),
        (
            {"poll": {"question": "Tea?", "options": [{"text": "yes"}, {"text": "no"}]}},
            "[Poll: Tea? — yes / no]",
        ),
        ({"dice": {"emoji": "🎲", "value": 4}}, "[Dice 🎲: 4]"),
        ({"game": {"title": "x"}}, "[unsupported message: game]"),
    ],
)
def test_stickers_places_contacts_and_polls_are_a_line_of_text(
    local: Local, extra: dict[str, Any], text: str
) -> None:
    assert local.post(message(user=556, **extra))[1]["outcome"] == "accepted"
    assert InboundMessage.objects.get().text == text


def test_an_album_is_one_message(local: Local) -> None:
    for place in range(3):
        caption: dict[str, Any] = {"caption": "three cats"} if place == 0 else {}
        photo = [{"file_id": f"p{place}", "width": 10, "height": 10}]
        local.post(message(user=556, photo=photo, media_group_id="album-1", **caption))
    rows = InboundMessage.objects.order_by("id")
    assert len({row.session_id for row in rows}) == 1
    session = rows[0].session
    assert session is not None
    assert session.flush_at is not None
    assert session.batch_started_at is not None
    assert (session.flush_at - session.batch_started_at).total_seconds() >= 1.0
