"""A sender accepted by an open list is never an owner ([A1] [A4] [A6])."""

from datetime import datetime
from io import StringIO

import pytest
from django.core.checks import run_checks
from django.core.management import call_command
from rest_framework.test import APIClient

from allowlist import keys, link_codes
from allowlist.models import AuditEntry, LinkCode, UnknownRequest
from allowlist.permissions import Sender, decide
from channels_app.delivery.secret_blocks import as_sent
from channels_app.intake import slash_commands
from channels_app.intake.inbound import Receipt, receive_sender
from channels_app.ops.doctor import work
from core.conversations.inbox import Draft
from core.models import ChannelAccount, ChannelIdentity, ChatSession, Delivery, InboundMessage, User
from tests.allowlist.conftest import MakeUser

pytestmark = pytest.mark.django_db

OWNERS_WORDS = ("/requests", "/approve", "/deny")


@pytest.fixture
def open_owner(owner: User) -> User:
    """Return an owner with open lists and no listed identity."""
    User.objects.filter(pk=owner.pk).update(only_listed=False)
    owner.refresh_from_db()
    return owner


@pytest.fixture
def memory(db: None) -> ChannelAccount:
    """Return an account of another channel."""
    return ChannelAccount.objects.create(channel="memory", name="main")


@pytest.fixture
def waiting(telegram: ChannelAccount, now: datetime) -> UnknownRequest:
    """Create a pending request of a group; with an open list, persons have none."""
    draft = Draft(account=telegram, sender="9", chat="-100", text="hello")
    assert receive_sender(draft=draft, now=now, group="-100").outcome == "denied"
    return UnknownRequest.objects.get()


def say(account: ChannelAccount, now: datetime, text: str, sender: str = "800") -> Receipt:
    """Receive a message with its slash command."""
    number = f"{InboundMessage.objects.count()}-{text}"
    draft = Draft(account=account, sender=sender, chat=sender, text=text, message_id=number)
    return receive_sender(draft=draft, now=now, command=slash_commands.parse(text))


def answer(account: ChannelAccount, sender: str = "800") -> str:
    """Return the last message to a chat."""
    row = Delivery.objects.filter(account=account, target__chat=sender).latest("id")
    return str(as_sent(row.payload)["text"])


@pytest.mark.parametrize("name", sorted(slash_commands.ANSWERS))
@pytest.mark.parametrize("argument", ["", "{request}", "{code}"])
def test_a1_a6_an_open_list_sender_has_no_owner_commands(
    telegram: ChannelAccount,
    open_owner: User,
    waiting: UnknownRequest,
    now: datetime,
    name: str,
    argument: str,
) -> None:
    """Every command, alone, with the id of a request, with a code that is none."""
    given = argument.format(request=waiting.public_id, code="ABCD-EFGH")
    before = set(ChannelIdentity.objects.all())
    assert say(telegram, now, f"/{name} {given}").outcome == "accepted"
    waiting.refresh_from_db()
    assert waiting.state == "pending"
    assert not LinkCode.objects.exists()
    assert set(ChannelIdentity.objects.all()) == before
    open_owner.refresh_from_db()
    assert open_owner.last_account is None
    told = [str(as_sent(row.payload)) for row in Delivery.objects.filter(target__chat="800")]
    for text in told:
        assert waiting.public_id not in text
        assert not any(word in text for word in OWNERS_WORDS)
        assert "Undelivered" not in text


def test_a1_closing_the_list_denies_open_list_senders(
    telegram: ChannelAccount, memory: ChannelAccount, open_owner: User, now: datetime
) -> None:
    """No effect of an open-list sender outlives the open list; attempts are audited."""
    say(telegram, now, "/link")
    assert "on no list" in answer(telegram)
    say(memory, now, "/link ABCD-EFGH", "801")
    User.objects.filter(pk=open_owner.pk).update(only_listed=True)
    for account, sender in ((telegram, "800"), (memory, "801")):
        assert decide(sender=Sender(account, "im", sender), now=now).user is None
        assert say(account, now, "/requests", sender).outcome == "denied"
    refused = AuditEntry.objects.filter(action="link.refused", data__why="came in by an open list")
    assert [row.actor for row in refused] == ["telegram/main:im:800"]


def test_a1_an_agent_session_is_not_opened_in_an_open_list_senders_chat(
    memory: ChannelAccount, open_owner: User, now: datetime
) -> None:
    """Results for the owner would be read by the last sender."""
    say(memory, now, "hello")
    client = APIClient()
    _, token = keys.create(name="k", user=open_owner, scopes=["send_result"])
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    answer = client.post("/api/agent-sessions", {"channel": "memory"}, format="json")
    assert (answer.status_code, "has no address" in str(answer.json())) == (400, True)
    assert not ChatSession.objects.filter(for_agent=True).exists()


def test_a6_a_refused_decision_of_an_open_list_sender_is_audited(
    telegram: ChannelAccount, open_owner: User, waiting: UnknownRequest, now: datetime
) -> None:
    """As an unknown sender's tap on a button is."""
    say(telegram, now, f"/approve {waiting.public_id}")
    assert answer(telegram) == "Only the owner can do that."
    row = AuditEntry.objects.get(action="request.refused")
    assert (row.actor, row.subject) == ("telegram/main:im:800", waiting.public_id)


def test_a1_a_listed_owner_still_decides_with_an_open_list(
    telegram: ChannelAccount, open_owner: User, waiting: UnknownRequest, now: datetime
) -> None:
    """On a channel where they are listed; the list of that kind is not open any more then."""
    ChannelIdentity.objects.create(user=open_owner, kind="im", value="555")
    say(telegram, now, "/requests", "555")
    assert waiting.public_id in answer(telegram, "555")
    say(telegram, now, "/link", "555")
    assert link_codes.TYPED.search(answer(telegram, "555"))
    say(telegram, now, f"/approve {waiting.public_id}", "555")
    waiting.refresh_from_db()
    assert waiting.state == "approved"


def test_a1_a_guest_with_an_open_list_gives_open_list_senders_no_code(
    telegram: ChannelAccount, make_user: MakeUser, owner: User, now: datetime
) -> None:
    """The address would stay when the list is closed."""
    make_user("everybody", only_listed=False)
    say(telegram, now, "/link")
    assert "on no list" in answer(telegram)
    assert not LinkCode.objects.exists()


def test_a1_a4_an_open_list_sender_does_not_change_the_last_used_channel(
    telegram: ChannelAccount, open_owner: User, now: datetime
) -> None:
    """Otherwise the owner's notices, with their buttons, would go to that sender."""
    assert say(telegram, now, "hello").outcome == "accepted"
    open_owner.refresh_from_db()
    assert (open_owner.last_account, open_owner.last_target) == (None, {})


def test_a1_an_owner_with_an_open_list_is_a_danger(
    open_owner: User, make_user: MakeUser, telegram: ChannelAccount
) -> None:
    """``allowlist.E001`` of ``check --deploy``, an error of the doctor; a guest's is a warning."""
    make_user("guest", only_listed=False)
    found = {
        check.id: check.msg
        for check in run_checks(tags=["security"], include_deployment_checks=True)
    }
    assert "owner is an owner and open to everyone on im, email, phone" in found["allowlist.E001"]
    assert "guest is open to everyone" in found["allowlist.W001"]
    levels = {(each.level, each.what.split()[0]) for each in work.people()}
    assert levels == {("error", "owner"), ("warning", "guest")}
    said = StringIO()
    call_command("access_check", "--channel", "telegram", "--id", "1", stdout=said)
    assert "open to everyone" in said.getvalue()
