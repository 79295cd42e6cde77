"""[A3]–[A7] on Telegram: unknown senders, the owner's notice and its buttons."""

import pytest

from allowlist.models import AuditEntry, UnknownRequest
from channels_app.worker.runner import Runner
from core.models import Delivery, InboundMessage, Run, User
from tests.channels_app.running import until
from tests.channels_app.telegram.local import Local
from tests.channels_app.telegram.people import Params, number, person

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def at_home(runner: Runner, local: Local) -> Local:
    """Make the owner's chat with the bot their last-used channel."""
    local.say("I am here", user=555)
    until(lambda: local.texts(555) == ["I am here"])
    return local


def press(data: str, *, by: int, message_id: int) -> Params:
    """Return a press of a button under a message of the bot in the owner's chat."""
    return {
        "update_id": number(),
        "callback_query": {
            "id": str(number()),
            "from": person(by),
            "data": data,
            "message": {"message_id": message_id, "chat": {"id": 555, "type": "private"}},
        },
    }


def notice(local: Local) -> tuple[int, dict[str, str]]:
    """Return the notice in the owner's chat: its id, and its buttons by label."""
    until(lambda: len(local.texts(555)) == 2)
    shown = local.api.shown(local.tokens["main"], 555)[1]
    buttons = [button for row in shown.keyboard for button in row]
    assert all(len(each["callback_data"].encode()) <= 64 for each in buttons)
    return shown.id, {each["text"]: each["callback_data"] for each in buttons}


def test_a5_a7_an_unknown_sender_is_held_and_after_approval_each_message_is_answered_once(
    at_home: Local,
) -> None:
    at_home.say("hello, may I?", user=700, name="Eve")
    at_home.say("please", user=700, name="Eve")
    message_id, buttons = notice(at_home)
    assert list(buttons) == ["Approve", "Approve 24 h", "Deny", "Block"]
    text = at_home.texts(555)[1]
    assert text.startswith("Unknown request from telegram: user_id=700. Approve it to let them in.")
    assert "Eve: hello, may I?" in text
    assert not at_home.texts(700)
    for _ in range(3):
        at_home.post(press(buttons["Approve"], by=555, message_id=message_id))
    until(lambda: at_home.texts(700) == ["hello, may I?", "please"], seconds=30)
    until(lambda: "Approved by owner" in at_home.texts(555)[1])
    assert at_home.api.shown(at_home.tokens["main"], 555)[1].keyboard == []
    until(lambda: len(at_home.api.of("answerCallbackQuery")) == 3)
    said = [call.params["text"] for call in at_home.api.of("answerCallbackQuery")]
    assert sum(each.startswith("Approved") for each in said) == 1
    assert sum(each.startswith("Already approved") for each in said) == 2
    # The notice shows the decision, not the answer to the last press, and is edited once.
    until(lambda: not Delivery.objects.exclude(state="sent").exists())
    assert at_home.texts(555)[1].split("\n")[1].startswith("Approved by owner at ")
    edits = [call.params["text"] for call in at_home.api.of("editMessageText")]
    assert sum("pproved by owner" in each for each in edits) == 1
    assert User.objects.filter(identities__value="700").count() == 1


def test_a6_rw18_an_unknown_senders_tap_changes_nothing_and_is_recorded(at_home: Local) -> None:
    at_home.say("let me in", user=700)
    message_id, buttons = notice(at_home)
    for intruder in (700, 556):
        at_home.post(press(buttons["Approve"], by=intruder, message_id=message_id))
    at_home.post(press("approve:17", by=555, message_id=message_id))
    at_home.post(press("drop tables", by=555, message_id=message_id))
    assert UnknownRequest.objects.get().state == "pending"
    assert AuditEntry.objects.filter(action="request.refused").count() == 3
    until(lambda: len(at_home.api.of("answerCallbackQuery")) == 3)


def test_a7_a_denial_empties_the_held_messages(at_home: Local) -> None:
    at_home.say("secret words", user=700)
    message_id, buttons = notice(at_home)
    at_home.post(press(buttons["Deny"], by=555, message_id=message_id))
    row = InboundMessage.objects.get(sender="700")
    assert (row.state, row.text, bytes(row.raw)) == ("purged", "", b"")
    assert Run.objects.filter(user__username="owner").count() == Run.objects.count()
    until(lambda: "Denied by owner" in at_home.texts(555)[1])


def test_rq12_an_unknown_senders_name_and_text_are_one_line_and_no_markup(at_home: Local) -> None:
    name = "*bold* [click](http://evil)\n\nSystem: approved ✅\u202e" + "x" * 500
    at_home.say("```\n\n/approve 17 <b>hi</b>" + "y" * 5000, user=700, name=name)
    notice(at_home)
    shown = at_home.api.shown(at_home.tokens["main"], 555)[1]
    first, quoted = shown.text.split("\n")
    assert first.endswith("Approve it to let them in.")
    assert quoted.startswith("They say: “*bold* [click](http://evil) System")
    assert len(quoted) <= 220
    assert shown.entities == []
    assert "\u202e" not in shown.text


def test_rq13_many_unknown_senders_are_five_notices_and_one_digest(at_home: Local) -> None:
    for stranger in range(700, 712):
        at_home.say("hello", user=stranger)
    until(lambda: len(at_home.texts(555)) == 7, seconds=30)
    assert at_home.texts(555)[-1].startswith("More unknown senders")
    for _ in range(5):
        at_home.say("hello again", user=700)
    assert UnknownRequest.objects.get(sender="700").count == 6
    assert len(at_home.texts(555)) == 7


def test_a4_an_unknown_senders_message_does_not_move_the_owners_channel(at_home: Local) -> None:
    at_home.say("hello", user=700)
    assert User.objects.get(username="owner").last_target == {"chat": "555", "thread": ""}


def test_c8_the_owner_decides_by_command_and_a_guest_cannot(at_home: Local) -> None:
    at_home.say("let me in", user=700)
    notice(at_home)
    request = UnknownRequest.objects.get()
    at_home.say(f"/approve {request.public_id}", user=556)
    until(lambda: at_home.texts(556) == ["Only owners decide about access."])
    refused = AuditEntry.objects.get(action="request.refused")
    assert refused.subject == request.public_id
    assert refused.actor.endswith("guest")
    at_home.say(f"/approve {request.public_id}", user=555)
    until(lambda: at_home.texts(700) == ["let me in"])
    until(lambda: any(each.startswith("Approved") for each in at_home.texts(555)[2:]))
    at_home.say(f"/approve {request.public_id}", user=555)
    until(lambda: any(each.startswith("Already approved") for each in at_home.texts(555)[2:]))
    # The notice shows the decision, not the answer to the second command, and is edited once.
    until(lambda: not Delivery.objects.exclude(state="sent").exists())
    assert at_home.texts(555)[1].split("\n")[1].startswith("Approved by owner at ")
    assert len(at_home.api.of("editMessageText")) == 1


def test_a3_unknown_senders_get_the_owners_neutral_line_once(
    at_home: Local,
) -> None:
    from channels_app.telegram import views
    from core.models import ChannelAccount

    row = ChannelAccount.objects.get(name="main")
    row.config["denied_reply"] = "Please wait."
    row.save()
    views.accounts.clear()
    at_home.say("one", user=700)
    at_home.say("two", user=700)
    until(lambda: at_home.texts(700) == ["Please wait."])
