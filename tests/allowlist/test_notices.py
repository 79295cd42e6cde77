"""Notices of unknown requests: recipients, channels and buttons [A4] [A5] [A7]."""

import re
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from allowlist import unknown_requests
from allowlist.models import SignInLink, UnknownRequest
from channels_app import registry
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.asgi.principal import Principal
from channels_app.delivery.secret_blocks import as_sent
from channels_app.intake.decisions import decide
from channels_app.intake.inbound import receive_personal, receive_sender
from channels_app.owner import notice_targets, notices, outages
from channels_app.webchat import operations
from channels_app.worker.runner import Runner
from core.conversations import inbox
from core.conversations.inbox import Draft
from core.models import (
    ChannelAccount,
    ChannelIdentity,
    ChatSession,
    Delivery,
    InboundMessage,
    User,
)
from tests.allowlist.conftest import MakeUser
from tests.channels_app.running import runner, until

pytestmark = pytest.mark.django_db


def speaks_from(user: User, account: ChannelAccount, chat: str) -> None:
    """Set a user's last-used channel."""
    target = {"chat": chat, "thread": ""}
    User.objects.filter(pk=user.pk).update(last_account=account, last_target=target)


def record_request(account: ChannelAccount, now: datetime, sender: str = "700") -> None:
    """Receive a message of an unknown sender."""
    draft = Draft(account=account, sender=sender, sender_name="Eve", chat=sender, text="hello")
    assert receive_sender(draft=draft, now=now).outcome == "denied"


@pytest.fixture
def without_buttons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every channel one that shows text only."""
    plain = SimpleNamespace(
        capabilities=frozenset(), is_group=lambda chat: chat.startswith("-"), outbound=None
    )
    monkeypatch.setattr(registry, "get", lambda _: plain)


def test_a4_owners_get_the_notice_and_a_more_recent_guest_does_not(
    telegram: ChannelAccount, owner: User, make_user: MakeUser, now: datetime
) -> None:
    """[A4] The notice goes to the owner's last-used channel, even if a guest used one later."""
    speaks_from(owner, telegram, "555")
    speaks_from(make_user("guest", im=["556"]), telegram, "556")
    record_request(telegram, now)
    assert [row.target["chat"] for row in Delivery.objects.all()] == ["555"]


@pytest.mark.parametrize("broken", ["is_group", "can_push"])
def test_a5_a_channel_that_breaks_takes_no_notice_from_the_others(
    telegram: ChannelAccount,
    owner: User,
    now: datetime,
    monkeypatch: pytest.MonkeyPatch,
    broken: str,
) -> None:
    """The stranger's message was lost too: it is stored in the transaction of its notice."""

    def fail(*_: object) -> bool:
        raise ValueError("a bug of another package")

    diary = ChannelAccount.objects.create(channel="diary", name="main")
    plugin = SimpleNamespace(
        id="diary", is_group=lambda _: False, outbound=SimpleNamespace(can_push=lambda _: True)
    )
    monkeypatch.setattr(plugin if broken == "is_group" else plugin.outbound, broken, fail)
    get = registry.get
    monkeypatch.setattr(registry, "get", lambda name: plugin if name == "diary" else get(name))
    for account in (diary, telegram):
        inbox.open_session(user=owner, account=account, chat="555")
    speaks_from(owner, diary, "555")
    record_request(telegram, now)
    assert [row.account for row in Delivery.objects.all()] == [telegram]


def test_a_lasting_problem_is_reported_once_a_day(
    telegram: ChannelAccount, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new one of the same name is news again (decision 139); another name is, at once."""
    speaks_from(owner, telegram, "555")
    day = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def told(when: datetime, trouble: str = "auth") -> int:
        monkeypatch.setattr(notices, "timezone", SimpleNamespace(now=lambda: when))
        notices.trouble(account=telegram, chat="", trouble=trouble, words="401")
        return Delivery.objects.count()

    assert [told(day), told(day + timedelta(hours=3)), told(day, "conflict")] == [1, 1, 2]
    assert [told(day + timedelta(days=1)), told(day + timedelta(days=30))] == [3, 4]


def test_rq13_a_problem_of_an_unused_chat_is_not_reported(
    telegram: ChannelAccount, owner: User, make_user: MakeUser
) -> None:
    """[RQ13] An unknown sender can open any number of chats; a guest's is reported, the
    owner's own is not reported to itself.
    """
    speaks_from(owner, telegram, "555")
    guest = make_user("guest", im=["556"])
    for chat in ("555", "556"):
        ChatSession.objects.create(user=guest, account=telegram, chat=chat)
    for chat in ("-1", "-2", "4711", "555"):
        notices.trouble(account=telegram, chat=chat, trouble="kicked", words="status kicked")
    assert not Delivery.objects.exists()
    notices.trouble(account=telegram, chat="556", trouble="blocked", words="status kicked")
    assert Delivery.objects.count() == 1


@pytest.mark.parametrize("chat", ["", "-100"])
def test_a5_rq14_an_unreachable_owner_finds_the_request_in_the_admin(
    telegram: ChannelAccount, owner: User, now: datetime, chat: str
) -> None:
    """[A5] No channel yet, or a group, which has other members: no notice, no loop."""
    if chat:
        speaks_from(owner, telegram, chat)
    record_request(telegram, now)
    assert not Delivery.objects.exists()
    assert UnknownRequest.objects.get().state == "pending"


def test_a5_with_notices_off_the_request_is_recorded_without_a_notice(
    telegram: ChannelAccount, owner: User, now: datetime, settings: Settings
) -> None:
    """[A5] ``notify_unknown_request``: the row is recorded either way."""
    settings.NOTIFY_UNKNOWN_REQUEST = False
    speaks_from(owner, telegram, "555")
    record_request(telegram, now)
    assert not Delivery.objects.exists()
    assert UnknownRequest.objects.get().count == 1


def link_of(delivery: Delivery) -> str:
    """Return the path of the link in a notice, as its channel gets it."""
    found = re.search(r"(/decide/\S+)$", str(as_sent(delivery.payload)["text"]))
    assert found is not None
    return found[1]


@pytest.mark.usefixtures("without_buttons")
def test_a5_a_link_in_a_notice_opens_the_decision_of_its_request_and_nothing_else(
    telegram: ChannelAccount, owner: User
) -> None:
    """[A5] [A6] No session, no list, nothing by looking at it; the POST of its page decides."""
    speaks_from(owner, telegram, "555")
    record_request(telegram, timezone.now())
    record_request(telegram, timezone.now(), "701")
    [first, second] = Delivery.objects.order_by("id")
    browser = Client(enforce_csrf_checks=True)
    for _ in range(3):
        assert browser.head(link_of(first)).status_code == 200
        page = browser.get(link_of(first)).content.decode()
        assert "user_id=700" in page
        assert "Eve: hello" in page
        assert "701" not in page
    assert UnknownRequest.objects.filter(state="pending").count() == 2
    assert browser.post(link_of(first), {"verdict": "approve"}).status_code == 403
    form = {"csrfmiddlewaretoken": browser.cookies["csrftoken"].value}
    assert browser.post(link_of(first), form | {"verdict": "x"}).status_code == 400
    done = browser.post(link_of(first), form | {"verdict": "approve"})
    assert "Approved by owner" in done.content.decode()
    assert "verdict" not in done.content.decode()
    assert UnknownRequest.objects.get(sender="700").decided_via == "link in a notice"
    again = browser.post(link_of(first), form | {"verdict": "block"}).content.decode()
    assert "Already approved by owner" in again
    assert UnknownRequest.objects.get(sender="701").state == "pending"
    assert browser.get("/").status_code == 302
    assert browser.get("/admin/").status_code == 404
    assert not Session.objects.exists()
    assert not SignInLink.objects.exists()
    assert link_of(second) not in str(second.payload)


@pytest.mark.usefixtures("without_buttons")
@pytest.mark.parametrize("ends", ["hours", "owner", "active", "request", "changed"])
def test_a5_a_link_in_a_notice_ends_with_its_hours_its_owner_and_its_request(
    telegram: ChannelAccount, owner: User, settings: Settings, ends: str
) -> None:
    """[A5] The token is a signed statement; its conditions are checked at each use."""
    speaks_from(owner, telegram, "555")
    record_request(telegram, timezone.now())
    path = link_of(Delivery.objects.get())
    if ends == "hours":
        settings.DECISION_LINK_HOURS = -1
    if ends == "owner":
        User.objects.update(is_owner=False)
    if ends == "active":
        User.objects.update(is_active=False)
    if ends == "request":
        UnknownRequest.objects.all().delete()
    if ends == "changed":
        path = f"{path[:-1]}{'a' if path[-1] != 'a' else 'b'}"
    assert Client().get(path).status_code == 403
    assert Client().post(path, {"verdict": "approve"}).status_code == 403
    assert not UnknownRequest.objects.exclude(state="pending").exists()


def test_a5_the_notice_is_said_once_a_sender_and_again_after_an_approval_that_ended(
    telegram: ChannelAccount, owner: User, now: datetime
) -> None:
    """[A5] At most once per sender."""
    speaks_from(owner, telegram, "555")
    for _ in range(5):
        record_request(telegram, now)
    assert Delivery.objects.count() == 1
    [shown] = Delivery.objects.all()
    assert shown.payload["text"].splitlines()[0] == (
        "Unknown request from telegram: user_id=700. Approve it to let them in."
    )
    labels = [button["text"] for row in shown.payload["buttons"] for button in row]
    assert labels == ["Approve", "Approve 24 h", "Deny", "Block"]
    assert notices.HOURLY == 5


@pytest.mark.django_db(transaction=True)
def test_a7_expired_held_messages_are_purged_by_the_running_worker(runner: Runner) -> None:
    """[A7] The chore runs with every sweep, each SWEEP_SECONDS (10 by default, under a minute)."""
    account = ChannelAccount.objects.create(channel="memory", name="main")
    record_request(account, timezone.now() - timedelta(hours=25))
    until(lambda: InboundMessage.objects.get().state == "purged", seconds=60)
    assert InboundMessage.objects.get().text == ""


# Until it is known that an owner got it.


@pytest.fixture
def bridge(db: None) -> ChannelAccount:
    """Create a bridge without a callback, which takes no messages. Its senders are e-mail
    addresses."""
    return ChannelAccount.objects.create(channel="bridge", name="mail", config={"kind": "email"})


def talks(owner: User, account: ChannelAccount, sender: str, now: datetime) -> None:
    """Let the owner write on a channel, by one of the owner's identities."""
    kind = str(account.config.get("kind", "im"))
    ChannelIdentity.objects.get_or_create(user=owner, kind=kind, account=account, value=sender)
    draft = Draft(account=account, kind=kind, sender=sender, chat=sender, text="hi")
    assert receive_sender(draft=draft, now=now).outcome == "accepted"
    owner.refresh_from_db()


def notices_to(chat: str) -> list[Delivery]:
    """Return the notices of unknown requests that went to a chat."""
    rows = Delivery.objects.filter(target__chat=chat, dedupe_key__startswith="notice:request:")
    return list(rows.order_by("id"))


def settle(rows: list[Delivery], state: str) -> None:
    """Set the state of these deliveries."""
    Delivery.objects.filter(pk__in=[row.pk for row in rows]).update(state=state)


@pytest.mark.parametrize("last", ["bridge", "web", "http"])
def test_a5_an_owner_with_an_unreachable_last_channel_gets_the_notice_on_the_others(
    telegram: ChannelAccount, bridge: ChannelAccount, owner: User, last: str
) -> None:
    """[A5] The last-used channel that can be written to, else every other one that can."""
    now = timezone.now()
    talks(owner, telegram, "555", now)
    if last == "bridge":
        talks(owner, bridge, "own@example.org", now)
    else:
        draft = Draft(account=builtin_account(last), text="hi")
        receive_personal(user=owner, draft=draft, session_id="", now=now)
    owner.refresh_from_db()
    assert owner.last_account is not None
    assert owner.last_account.channel == last
    record_request(telegram, now)
    assert [row.account for row in notices_to("555")] == [telegram]
    assert Delivery.objects.filter(dedupe_key__startswith="notice:").count() == 1


@pytest.mark.parametrize("where", ["on the other", "in the web chat"])
def test_an_account_outage_is_reported_on_another_account(
    telegram: ChannelAccount, owner: User, where: str
) -> None:
    """Its own queue is held until the owner has acted. Given-up deliveries are reported there, too;
    without another account they are reported on it, for when it recovers.
    """
    now = timezone.now()
    other = ChannelAccount.objects.create(channel="memory", name="main")
    words: dict[str, Any] = {"chat": "", "trouble": "auth", "words": "401"}
    talks(owner, telegram, "555", now)
    notices.trouble(account=telegram, **words)
    assert [row.account for row in told()] == [telegram]
    Delivery.objects.all().delete()
    talks(owner, other, "owner-there", now)
    if where == "on the other":
        talks(owner, telegram, "555", now)
    else:
        draft = Draft(account=builtin_account("web"), text="hi")
        receive_personal(user=owner, draft=draft, session_id="", now=now)
    notices.trouble(account=telegram, **words)
    outages.given_up(delivery=Delivery(account=telegram, dedupe_key="answer:1:0"))
    assert [row.account for row in told()] == [other, other]


def told() -> list[Delivery]:
    """Return all notices."""
    return list(Delivery.objects.filter(dedupe_key__startswith="notice:").order_by("id"))


def test_a_notice_of_given_up_messages_that_is_given_up_causes_no_other(
    telegram: ChannelAccount, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner's only account delivers nothing for days: the notices do not go on for ever."""
    speaks_from(owner, telegram, "555")
    outages.given_up(delivery=Delivery(account=telegram, dedupe_key="answer:1:0"))
    [notice] = Delivery.objects.all()
    tomorrow = timezone.now() + timedelta(days=1)
    monkeypatch.setattr(outages, "timezone", SimpleNamespace(now=lambda: tomorrow))
    outages.given_up(delivery=notice)
    assert Delivery.objects.count() == 1
    outages.given_up(delivery=Delivery(account=telegram, dedupe_key="answer:2:0"))
    assert Delivery.objects.count() == 2


def test_a5_a_request_is_notified_only_after_a_notice_was_delivered(
    telegram: ChannelAccount, owner: User
) -> None:
    """[A5] Asking again changes nothing; nor does a second worker."""
    now = timezone.now()
    talks(owner, telegram, "555", now)
    record_request(telegram, now)
    for _ in range(2):
        notices.look_after(now=now)
        assert UnknownRequest.objects.get().notified_at is None
    settle(notices_to("555"), "sent")
    for _ in range(2):
        notices.look_after(now=now)
        assert UnknownRequest.objects.get().notified_at == now
    record_request(telegram, now)
    assert len(notices_to("555")) == 1


def test_a5_an_undeliverable_notice_is_sent_to_other_channels_and_again_later(
    telegram: ChannelAccount, owner: User
) -> None:
    """[A5] On the other channels at once; when all failed, at growing distances, within limits."""
    now = timezone.now()
    other = ChannelAccount.objects.create(channel="telegram", name="second")
    talks(owner, other, "556", now)
    talks(owner, telegram, "555", now)
    record_request(telegram, now)
    settle(notices_to("555"), "dead")
    assert notices_to("556") == []
    notices.look_after(now=now)
    assert len(notices_to("556")) == 1
    notices.look_after(now=now)
    settle(notices_to("556"), "dead")
    minutes = []
    for minute in range(240):
        before = len(notices_to("555"))
        notices.look_after(now=now + timedelta(minutes=minute))
        if len(notices_to("555")) > before:
            minutes.append(minute)
            settle(notices_to("555") + notices_to("556"), "dead")
    assert minutes == [10, 20, 40, 80, 160]
    assert len(notices_to("556")) == 6
    assert UnknownRequest.objects.get().notified_at is None


def test_a5_a_notice_that_is_long_on_its_way_is_sent_to_the_other_channels_too(
    telegram: ChannelAccount, owner: User
) -> None:
    """[A5] Its platform may be down for hours."""
    now = timezone.now()
    other = ChannelAccount.objects.create(channel="telegram", name="second")
    talks(owner, other, "556", now)
    talks(owner, telegram, "555", now)
    record_request(telegram, now)
    notices.look_after(now=now + timedelta(minutes=4))
    assert notices_to("556") == []
    for minutes in (6, 60, 600):
        notices.look_after(now=now + timedelta(minutes=minutes))
    assert (len(notices_to("555")), len(notices_to("556"))) == (1, 1)


def test_a5_a_request_that_an_owner_has_decided_meanwhile_gets_no_further_notice(
    telegram: ChannelAccount, owner: User
) -> None:
    """[A5] Its buttons would stay: a worker has read it before the decision."""
    now = timezone.now()
    talks(owner, telegram, "555", now)
    record_request(telegram, now)
    read = UnknownRequest.objects.select_related("account").get()
    everywhere = [(owner, each) for each in notice_targets.all_of(owner)]
    decide(request=read.public_id, verdict="deny", owner=owner, via="admin", now=now)
    for minutes in (1, 90):  # the first one is not known, or was given up
        notices.follow_up(read, {}, everywhere, now + timedelta(minutes=minutes))
    assert ["buttons" in each.payload for each in notices_to("555")] == [False]


def test_a5_a_request_that_is_denied_at_once_causes_no_other_notice_later(
    telegram: ChannelAccount, owner: User
) -> None:
    """[A5] Before a worker has seen that its notice was delivered; nor where it was not."""
    now = timezone.now()
    talks(owner, telegram, "555", now)
    for state in ("sent", "dead"):
        record_request(telegram, now, sender=state)
        settle(notices_to("555"), state)
        read = UnknownRequest.objects.get(sender=state)
        decide(request=read.public_id, verdict="deny", owner=owner, via="admin", now=now)
    before = len(notices_to("555"))
    for state in ("sent", "dead"):
        record_request(telegram, now + timedelta(hours=2), sender=state)
    for hours in (2, 30):
        notices.look_after(now=now + timedelta(hours=hours))
    assert len(notices_to("555")) == before == 2


def test_a5_an_unreachable_owner_gets_the_notice_once_reachable(
    telegram: ChannelAccount, owner: User
) -> None:
    """[A5] Without another message of the unknown sender."""
    now = timezone.now()
    record_request(telegram, now)
    for _ in range(2):
        notices.look_after(now=now)
    assert not Delivery.objects.exists()
    talks(owner, telegram, "555", now)
    for _ in range(2):
        notices.look_after(now=now)
    assert len(notices_to("555")) == 1


def test_a5_a_request_displayed_to_an_owner_causes_no_other_notice(
    telegram: ChannelAccount, owner: User
) -> None:
    """[A5] The open web chat and the open admin say so themselves."""
    now = timezone.now()
    record_request(telegram, now)
    principal = Principal(user=owner, session_key="x")
    shown = [str(card["request"]) for card in operations.pending_notices(principal)]
    operations.note_shown(Principal(user=owner, key_id=1), shown)
    assert UnknownRequest.objects.get().notified_at is None
    operations.note_shown(principal, shown)
    assert UnknownRequest.objects.get().notified_at is not None
    talks(owner, telegram, "555", now)
    notices.look_after(now=now)
    assert notices_to("555") == []


def test_a5_no_notice_goes_to_a_chat_used_by_an_unknown_sender_or_removed_identity(
    telegram: ChannelAccount, owner: User
) -> None:
    """[A5] With an open list any sender speaks as its user; a lost phone's identity is removed."""
    now = timezone.now()
    talks(owner, telegram, "555", now)
    owner.identities.all().delete()
    record_request(telegram, now)
    assert notices_to("555") == []
    User.objects.filter(pk=owner.pk).update(only_listed=False)
    draft = Draft(account=telegram, sender="800", chat="800", text="I am the owner now")
    assert receive_sender(draft=draft, now=now).outcome == "accepted"
    UnknownRequest.objects.all().update(notice_at=None)
    User.objects.filter(pk=owner.pk).update(last_account=None)
    notices.unknown_request(UnknownRequest.objects.get(), now=now)
    notices.look_after(now=now)
    assert not Delivery.objects.filter(dedupe_key__startswith="notice:").exists()


def test_a5_a_second_message_without_a_name_keeps_the_name_and_the_words(
    telegram: ChannelAccount, owner: User, now: datetime
) -> None:
    """[A5] A photo has no text, and some messages of a platform have no name."""
    record_request(telegram, now)
    draft = Draft(account=telegram, sender="700", media=[{"kind": "image", "id": "1"}])
    assert receive_sender(draft=draft, now=now).outcome == "denied"
    row = UnknownRequest.objects.get()
    assert (row.sender_name, row.chat, row.last_text, row.count) == ("Eve", "700", "hello", 2)


__all__ = ["runner"]


def test_the_owner_is_told_of_an_unknown_outcome_as_such(
    telegram: ChannelAccount, owner: User
) -> None:
    """Beside the notice of the same hour that another message was surely not delivered."""
    speaks_from(owner, telegram, "555")
    for number in range(2):
        lost = Delivery(account=telegram, dedupe_key=f"answer:{number}:0")
        outages.given_up(delivery=lost)
        outages.given_up(delivery=lost, may_have_arrived=True)
    assert [row.payload["text"] for row in told()] == [
        "telegram/main: a message could not be delivered and will not be retried.",
        "telegram/main: it is not known whether a message was delivered. It is not sent again by "
        "itself.",
    ]


def test_a5_the_sender_of_a_request_that_expired_undecided_is_told_of_again(
    telegram: ChannelAccount, owner: User
) -> None:
    """[A5] The buttons of the first notice decide nothing any more. Once for each request."""
    begin, week = timezone.now(), timedelta(days=7)
    talks(owner, telegram, "555", begin)
    for number in range(3):
        for hours in (0, 1, 100):
            record_request(telegram, begin + number * week + timedelta(hours=hours))
        assert len(notices_to("555")) == number + 1
    last = notices_to("555")[-1].payload["buttons"][0][0]["data"]
    assert last == f"approve:{UnknownRequest.objects.get().public_id}"


def test_a5_a_denied_sender_is_not_told_of_again_though_a_later_request_expires(
    telegram: ChannelAccount, owner: User
) -> None:
    """docs/unknown-senders.md: the sender may write again, and the owner is not notified again."""
    now, week = timezone.now(), timedelta(days=7)
    talks(owner, telegram, "555", now)
    record_request(telegram, now)
    [request] = UnknownRequest.objects.all()
    decide(owner=owner, request=request.public_id, verdict="deny", via="admin", now=now)
    for weeks in range(1, 5):
        record_request(telegram, now + weeks * week)
        unknown_requests.purge(now=now + weeks * week)
    assert len(notices_to("555")) == 1
    assert UnknownRequest.objects.get().state == "pending"


def test_a5_a_denied_sender_of_whom_no_notice_was_sent_causes_none_later(
    telegram: ChannelAccount, owner: User
) -> None:
    """One of a flood, denied in the admin; nor when a later request of theirs expires."""
    now, week = timezone.now(), timedelta(days=7)
    talks(owner, telegram, "555", now)
    for number in range(6):
        record_request(telegram, now, f"70{number}")
    told = notices_to("555")
    last = UnknownRequest.objects.get(sender="705")
    assert last.notice_at is None
    decide(request=last.public_id, verdict="deny", owner=owner, via="admin", now=now)
    for weeks in range(1, 4):
        record_request(telegram, now + weeks * week, "705")
        unknown_requests.purge(now=now + weeks * week)
    assert notices_to("555") == told


def test_a5_a_request_that_a_page_counted_without_a_notice_causes_one_later(
    telegram: ChannelAccount, owner: User
) -> None:
    """[A5] Any page of the admin that was open during a flood, or connected again, counts it."""
    now, week = timezone.now(), timedelta(days=7)
    talks(owner, telegram, "555", now)
    for number in range(6):
        record_request(telegram, now, f"70{number}")
    notices.shown([UnknownRequest.objects.get(sender="705").public_id], now=now)
    for days, told in ((0, 5), (1, 6), (2, 6), (8, 7)):
        record_request(telegram, now + days * week / 7, "705")
        assert len(notices_to("555")) == told


def test_a6_an_unblocked_sender_is_told_of_with_the_next_message(
    client: Client, telegram: ChannelAccount, owner: User
) -> None:
    """As the page says; also one who was denied before, whose requests have no notices."""
    now, day = timezone.now(), timedelta(days=1)
    client.force_login(owner)
    talks(owner, telegram, "555", now)
    choices: list[unknown_requests.Choice] = ["deny", "block"]
    for number, verdict in enumerate(choices):
        record_request(telegram, now - (2 - number) * day)
        row = UnknownRequest.objects.get()
        decide(request=row.public_id, verdict=verdict, owner=owner, via="admin", now=now)
    form = {"action": "unblock", "_selected_action": [str(row.pk)]}
    page = client.post("/admin/allowlist/unknownrequest/", form, follow=True).content.decode()
    assert "1 sender unblocked: you are asked with the next message." in page
    assert len(notices_to("555")) == 1
    record_request(telegram, now + timedelta(minutes=1))
    assert len(notices_to("555")) == 2
    row.refresh_from_db()
    assert row.notified_at is None  # so that it is sent elsewhere when it cannot be delivered


def test_a5_senders_that_come_back_in_a_flood_are_told_of_in_the_digest(
    telegram: ChannelAccount, owner: User, settings: Settings
) -> None:
    """[A5] As first messages are."""
    begin = timezone.now()
    settings.NOTIFY_UNKNOWN_REQUEST = False
    for number in range(8):
        record_request(telegram, begin, f"70{number}")
    settings.NOTIFY_UNKNOWN_REQUEST = True
    talks(owner, telegram, "555", begin)
    for number in range(8):
        record_request(telegram, begin + timedelta(days=7), f"70{number}")
    assert len(notices_to("555")) == 5
    [digest] = Delivery.objects.filter(dedupe_key__startswith="notice:digest:")
    assert digest.payload["text"].startswith("More unknown senders are pending.")


def test_a5_an_owner_that_is_reachable_after_days_gets_five_notices_an_hour(
    telegram: ChannelAccount, owner: User
) -> None:
    """[A5] Those of a flood, which were noted while no channel took one, do not come at once."""
    begin = timezone.now()
    for number in range(12):
        record_request(telegram, begin + timedelta(minutes=15 * number), f"80{number}")
    later = begin + timedelta(days=1)
    notices.look_after(now=later)
    talks(owner, telegram, "555", later)
    numbers = []
    for minutes in (0, 1, 30, 61, 122, 183):
        notices.look_after(now=later + timedelta(minutes=minutes))
        settle(notices_to("555"), "sent")
        numbers.append(len(notices_to("555")))
    assert numbers == [5, 5, 5, 10, 12, 12]


def test_a5_an_owner_without_a_channel_costs_no_question_for_each_request(
    telegram: ChannelAccount, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of up to a hundred, in each sweep."""
    asked: list[datetime] = []

    def is_spent(now: datetime) -> bool:
        asked.append(now)
        return True

    begin = timezone.now()
    for number in range(3):
        record_request(telegram, begin, f"80{number}")
    monkeypatch.setattr(notices, "is_spent", is_spent)
    assert notices.look_after(now=begin + timedelta(days=1)) == 3
    assert asked == []


def test_a5_fresh_notices_come_as_soon_as_the_owner_is_reachable(
    telegram: ChannelAccount, owner: User
) -> None:
    """[A5] They are the five of this hour."""
    now = timezone.now()
    for number in range(5):
        record_request(telegram, now, f"80{number}")
    talks(owner, telegram, "555", now)
    for minutes in (1, 59, 61):
        notices.look_after(now=now + timedelta(minutes=minutes))
        assert len(notices_to("555")) == 5
