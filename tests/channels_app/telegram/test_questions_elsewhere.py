"""A question that cannot be delivered is asked in the next place of who decides (V9)."""

from functools import partial

import pytest
from django.db.models.functions import Now

from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.tool_requests import answers, asking, deciding
from channels_app.worker.runner import Runner
from core.conversations import outbox
from core.conversations.runs import Outcome
from core.conversations.tool_calls import Asked
from core.database import transactions
from core.database.transactions import atomic_write
from core.files import storage
from core.models import (
    ChannelAccount,
    ChannelIdentity,
    ChatSession,
    Delivery,
    Run,
    ToolCall,
    User,
)
from tests.channels_app.running import until
from tests.channels_app.telegram.local import Local
from tests.channels_app.telegram.people import message, number, person

pytestmark = pytest.mark.django_db(transaction=True)
BLOCKED = "Forbidden: bot was blocked by the user"


@pytest.fixture
def two_bots(runner: Runner, local: Local) -> Local:
    """Let the owner write to ``other``, then to ``main``, which is their last channel."""
    for name in ("other", "main"):
        local.say("hello", user=555, account=name)
        until(lambda name=name: local.texts(555, account=name))
    return local


def ask(guest: User, *, of_person: bool = False) -> ToolCall:
    """Return a call of a guest that waits."""
    with atomic_write():
        session = ChatSession.objects.create(user=guest, account=builtin_account("http"), chat="1")
        run = Run.objects.create(
            session=session, user=guest, origin="http", state="succeeded", text="Mail it."
        )
        question = Asked("1", "send_mail", "{}", of_person=of_person)
        asking.ask(run=run, messages=[], questions=[question])
    return run.tool_calls.get()


def questions(local: Local, account: str, chat: int = 555) -> list[str]:
    """Return the questions that a bot shows."""
    return [each for each in local.texts(chat, account=account) if "send_mail" in each]


def test_the_answer_that_goes_on_elsewhere_brings_its_pictures_and_files(
    runner: Runner, local: Local, owner: User
) -> None:
    """Its program has its response already: they were lost."""
    local.say("hello", user=555)
    until(lambda: local.texts(555))
    made = storage.keep(user=owner, name="a.txt", content=b"a", origin=storage.MADE)
    outcome = Outcome(
        state="succeeded",
        text="Here.",
        images=["data:image/png;base64,iVBORw0KGgo="],
        files=[{"id": made.public_id, "name": made.name}],
    )
    with atomic_write():
        run = Run.objects.create(
            session=ChatSession.objects.create(user=owner, account=builtin_account("http")),
            user=owner,
            text="Draw it.",
            state="succeeded",
            result={"images": outcome.images},
            options={"continues": 1},
        )
        answers.put_elsewhere(run, outcome)
    shown = partial(local.api.shown, local.tokens["main"], 555)
    until(lambda: [each.kind for each in shown()][-3:] == ["text", "photo", "document"])
    assert [each.file for each in shown()[-2:]] == [b"\x89PNG\r\n\x1a\n", b"a"]


def test_v9_a_question_behind_a_blocked_bot_comes_from_the_next_one(
    two_bots: Local, guest: User
) -> None:
    """One of them shows it, and its button decides; the failed one cannot be sent again."""
    two_bots.api.fail("sendMessage", 403, BLOCKED, when=lambda it: "send_mail" in it["text"])
    call = ask(guest)
    until(lambda: questions(two_bots, "other"))
    assert questions(two_bots, "main") == []
    failed = Delivery.objects.get(dedupe_key__contains=":failed:")
    assert (failed.state, outbox.retry(failed.pk)) == ("dismissed", False)
    shown = two_bots.api.shown(two_bots.tokens["other"], 555)[-1]
    data = shown.keyboard[0][0]["callback_data"]
    press = {"id": str(number()), "from": person(555), "chat_instance": "1", "data": data}
    press["message"] = message(user=555, message_id=shown.id)["message"]
    two_bots.post({"update_id": number(), "callback_query": press}, account="other")
    call.refresh_from_db()
    assert call.state == "allowed"
    until(lambda: "✓ Allowed." in questions(two_bots, "other")[0])
    assert questions(two_bots, "main") == []


@pytest.mark.parametrize("how", [{"enabled": False}, {"deliveries_held": "refused"}])
def test_v9_an_account_that_sends_nothing_keeps_no_question(
    two_bots: Local, guest: User, how: dict[str, object]
) -> None:
    """Also not when it is well again."""
    mains = ChannelAccount.objects.filter(name="main")
    mains.update(deliveries_held="refused")
    call = ask(guest)
    mains.update(**{"deliveries_held": ""} | how)
    until(lambda: questions(two_bots, "other"))
    mains.update(enabled=True)
    outbox.release(account_id=mains.get().pk)
    deciding.look(now=transactions.now())
    owner = User.objects.get(is_owner=True)
    assert Delivery.objects.get(dedupe_key=asking.key_of(call, owner)).account.name == "other"
    two_bots.say("still here", user=555)
    until(lambda: len(two_bots.texts(555)) > 1)
    assert questions(two_bots, "main") == []


def test_v9_a_question_that_may_have_been_shown_stays(two_bots: Local, guest: User) -> None:
    """Its first try had no known outcome, or its account refuses credentials after it was sent."""
    call = ask(guest)
    until(lambda: questions(two_bots, "main"))
    row = Delivery.objects.filter(dedupe_key__startswith=f"tool:{call.public_id}:")
    until(lambda: row.get().state == "sent")
    for values in (
        {"external_message_id": "", "tries": 2},
        {"external_message_id": "", "after_id": 3},
        {"external_message_id": "", "error": f"{outbox.UNKNOWN} no"},
        {"external_message_id": "", "queued_at": Now()},
        {"external_message_id": "7"},
    ):
        clean = {"tries": 1, "after_id": None, "error": "", "queued_at": None, "state": "dead"}
        row.update(**clean | values)
        deciding.look(now=transactions.now())
        assert row.get().account.name == "main", values
    assert questions(two_bots, "other") == []


def test_v9_another_owner_is_asked_where_the_first_has_no_place_left(
    two_bots: Local, guest: User
) -> None:
    second = User.objects.create(username="second", is_owner=True, only_listed=True)
    ChannelIdentity.objects.create(user=second, kind="im", channel="telegram", value="600")
    two_bots.say("hello", user=600)
    until(lambda: two_bots.texts(600))
    two_bots.api.fail("sendMessage", 403, BLOCKED, chat=555, times=10)
    call = ask(guest)
    until(lambda: questions(two_bots, "main", 600))
    call.refresh_from_db()
    assert call.asked_of == second


def test_v9_a_persons_own_yes_is_asked_of_no_one_else(two_bots: Local, guest: User) -> None:
    """Where nothing is left, it stays with the person: in the web chat."""
    two_bots.say("hello", user=556)
    until(lambda: two_bots.texts(556))
    two_bots.api.fail("sendMessage", 403, BLOCKED, chat=556, times=10)
    call = ask(guest, of_person=True)
    until(lambda: Delivery.objects.filter(dedupe_key__contains=":failed:").exists())
    deciding.look(now=transactions.now())
    call.refresh_from_db()
    assert call.asked_of == guest
    assert not Delivery.objects.filter(dedupe_key=asking.key_of(call, guest)).exists()
    assert questions(two_bots, "main") == questions(two_bots, "other") == []
