"""A message whose id was lost is found by trying ids, without a platform ([RC8], decision 162)."""

import asyncio
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from django.utils import timezone

from channels_app.base import Account, Block, ChannelError, Target
from channels_app.delivery import find_sent, rate_limit
from channels_app.delivery.secret_blocks import sealed_block
from channels_app.memory.channel import CHANNEL, PLATFORM, MemoryGateway, MemoryOutbound
from core.conversations import outbox
from core.database.transactions import atomic_write, close_pool
from core.lib import leases
from core.models import ChannelAccount, Delivery, InboundMessage
from tests.channels_app.running import memory_account

pytestmark = pytest.mark.django_db(transaction=True)
QUICK = replace(CHANNEL.pace, find_seconds=0.0)


@dataclass(slots=True)
class Finder(MemoryOutbound):
    """Recognises ``ours``, and fails at the ids of ``errors``; private chats share their ids."""

    ours: set[int] = field(default_factory=set)
    errors: dict[int, ChannelError] = field(default_factory=dict)
    tried: list[int] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    refusal: ChannelError | None = None

    def sequence(self, chat: str) -> str:
        return chat if chat.startswith("-") else "private"

    async def is_ours(
        self, *, account: Account, target: Target, message_id: str, block: Block
    ) -> bool:
        assert (account.name, target.chat) == ("main", "c")
        number = int(message_id)
        if number in self.errors:
            raise self.errors[number]
        self.tried.append(number)
        self.blocks.append(block)
        return number in self.ours

    async def delete_message(self, *, account: Account, target: Target, message_id: str) -> None:
        assert (account.name, target.chat) == ("main", "c")
        if self.refusal is not None:
            raise self.refusal
        self.removed.append(message_id)


class OnlyFinder:
    """A channel that finds messages and removes none."""

    def __init__(self, finder: Finder) -> None:
        self.sequence, self.is_ours = finder.sequence, finder.is_ours


class PacerOnce:
    """Grants a search the latest time for which it may wait, and then one after that."""

    asked: ClassVar[list[dict[str, Any]]] = []

    def reserve(self, **asked: Any) -> float:
        self.asked.append(asked)
        most: float = asked["most"]
        return most if len(self.asked) == 1 else most + 2


@pytest.fixture
def finder(transactional_db: None) -> Finder:
    """Return a platform's outbound side."""
    PacerOnce.asked.clear()
    rate_limit.pacer.cache_clear()
    return Finder(PLATFORM)


@pytest.fixture
def account(transactional_db: None) -> ChannelAccount:
    """Return an account with a message of id 10 that came long ago."""
    account = memory_account()
    long_ago = timezone.now() - timedelta(hours=1)
    InboundMessage.objects.create(
        account=account, chat="d", external_message_id="10", received_at=long_ago
    )
    return account


def put(account: ChannelAccount, key: str = "x", payload: Block | None = None) -> Delivery:
    """Return a claimed delivery to the chat ``c``."""
    with atomic_write():
        row = outbox.enqueue(
            key=key,
            account_id=account.pk,
            conversation=key,
            target={"chat": "c", "thread": "", "reply_to": ""},
            payload=payload or {"text": "hello"},
        )
    return claimed(row)


def claimed(row: Delivery) -> Delivery:
    found = outbox.claim(delivery_id=row.id)
    assert found is not None
    return found


def in_doubt(row: Delivery, after_id: int | None = 10) -> Delivery:
    """Return a claimed delivery after a try with an unknown outcome, claimed again."""
    outbox.unsure(delivery=row, error="", repeatable=False, after_id=after_id, at_once=True)
    return claimed(row)


def search(delivery: Delivery, outbound: Any, **more: Any) -> None:
    channel: Any = replace(CHANNEL, outbound=outbound, **{"pace": QUICK, **more})
    try:
        asyncio.run(find_sent.clear_doubt(channel=channel, delivery=delivery))
    finally:
        close_pool()


def state(delivery: Delivery) -> tuple[str, bool, int | None]:
    """Return the message id, whether it is in doubt, and the last id tried: stored and known."""
    stored = Delivery.objects.get(id=delivery.id)
    for name in ("external_message_id", "doubt_chat", "after_id", "error"):
        assert getattr(stored, name) == getattr(delivery, name)
    return stored.external_message_id, stored.doubt_chat != "", stored.after_id


def sent_meanwhile(account: ChannelAccount, number: int) -> Delivery:
    """Return a delivery in doubt, after which another message got the id ``number``."""
    row, other = put(account), put(account, "other")
    outbox.unsure(delivery=row, error="", repeatable=False, after_id=10, at_once=True)
    outbox.sent(delivery=other, external_message_id=str(number))
    return claimed(row)


def test_rc8_a_lost_message_is_found_at_the_first_id_that_is_ours(
    account: ChannelAccount, finder: Finder
) -> None:
    """And nothing is tried that is known to be another message."""
    row = sent_meanwhile(account, 12)
    finder.ours = {14, 15}
    search(row, finder)
    assert finder.tried == [11, 13, 14]
    assert finder.blocks[0] == {"text": "hello"}
    assert state(row) == ("14", False, None)
    assert finder.removed == []


def test_rc8_where_none_is_found_it_stays_in_doubt_from_the_newest_known_id(
    account: ChannelAccount, finder: Finder
) -> None:
    """A request may be carried out late: it is searched for again after the next id is known."""
    row = sent_meanwhile(account, 12)
    search(row, finder)
    assert finder.tried == [11, *range(13, 19)]
    assert state(row) == ("", True, 12)
    assert not row.may_repeat
    outbox.sent(delivery=row, external_message_id="20")
    again = claimed(row)
    finder.tried.clear()
    finder.ours = {16}
    search(again, finder)
    assert finder.tried == [*range(13, 20)]
    assert finder.removed == ["16"]
    assert state(again) == ("20", False, None)
    assert not again.may_repeat


def test_rc8_a_search_goes_on_where_it_was_interrupted(
    account: ChannelAccount, finder: Finder
) -> None:
    row = sent_meanwhile(account, 16)
    finder.errors = {14: ChannelError("busy", retry_after=3.0)}
    with pytest.raises(ChannelError):
        search(row, finder)
    assert state(row) == ("", True, 13)
    finder.errors = {}
    finder.ours = {15}
    search(row, finder)
    assert finder.tried == [11, 12, 13, 14, 15]
    assert state(row) == ("15", False, None)


def test_rc8_a_search_stops_before_its_lease_ends(
    account: ChannelAccount, finder: Finder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the pace of searches, unless that leaves too little; progress is stored."""
    row = sent_meanwhile(account, 16)
    monkeypatch.setattr(leases, "elapsed", lambda: 50.0)
    row.lease = leases.Lease(seconds=0.4)
    monkeypatch.setattr(find_sent, "pacer", PacerOnce)
    with pytest.raises(find_sent.NotYetError) as later:
        search(row, finder)
    assert later.value.seconds == PacerOnce.asked[1]["most"] + 2
    assert PacerOnce.asked[0] == {
        "account_id": account.pk,
        "chat": "c",
        "pace": QUICK,
        "is_group": False,
        "most": pytest.approx(0.3),
        "kind": "search",
    }
    assert finder.tried == [11]
    assert state(row) == ("", True, 11)


@pytest.mark.parametrize(
    ("refusal", "ends"),
    [
        (ChannelError("too old", permanent=True), True),
        (ChannelError("busy", retry_after=1.0), False),
        (ChannelError("blocked", permanent=True, trouble="blocked"), False),
    ],
)
def test_rc8_a_repeated_message_that_may_not_be_removed_is_told(
    account: ChannelAccount, finder: Finder, refusal: ChannelError, ends: bool
) -> None:
    """Another failure of its removal is one of the search."""
    row = sent_meanwhile(account, 12)
    outbox.sent(delivery=row, external_message_id="15")
    row = claimed(row)
    finder.ours, finder.refusal = {13}, refusal
    if ends:
        search(row, finder)
        assert (state(row), row.may_repeat) == (("15", False, None), True)
    else:
        with pytest.raises(ChannelError):
            search(row, finder)
        assert state(row) == ("15", True, 11)


def test_rc8_where_nothing_can_be_removed_a_repeated_message_is_told(
    account: ChannelAccount, finder: Finder
) -> None:
    row = sent_meanwhile(account, 12)
    outbox.sent(delivery=row, external_message_id="15")
    row = claimed(row)
    finder.ours = {13}
    search(row, OnlyFinder(finder))
    assert (state(row), row.may_repeat) == (("15", False, None), True)


def test_rc8_of_more_ids_than_are_tried_the_reader_is_told(
    account: ChannelAccount, finder: Finder
) -> None:
    row = sent_meanwhile(account, 12)
    outbox.sent(delivery=row, external_message_id="90")
    row = claimed(row)
    search(row, finder)
    assert finder.tried == [*range(60, 90)]
    assert (state(row), row.may_repeat, row.error) == (("90", False, None), True, outbox.REPEATED)


def test_rc8_a_search_for_a_deleted_message_ends_with_its_ids(
    account: ChannelAccount, finder: Finder
) -> None:
    row = in_doubt(put(account, payload={"kind": "delete"}))
    search(row, finder)
    assert finder.tried == [*range(11, 17)]
    assert state(row) == ("", False, None)


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        ({"kind": "photo", "image": 0}, {"kind": "photo", "caption": ""}),
        (
            {"kind": "document", "file": "f", "caption": "c"},
            {"kind": "document", "caption": "c"},
        ),
        ({"text": "t", "entities": []}, {"text": "t", "entities": []}),
    ],
)
def test_rc8_a_message_is_known_by_its_content(payload: Block, shown: Block) -> None:
    assert find_sent.shown_by(Delivery(payload=payload)) == shown
    assert find_sent.shown_by(Delivery(payload=sealed_block({"text": "code"}))) == {"text": "code"}


def test_rc8_a_message_not_found_is_sent_again_once_the_platform_is_well(
    account: ChannelAccount, finder: Finder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing can be found, and where no id is known; an edit is no message more."""

    async def ill(self: MemoryGateway, account: Account) -> None:
        assert account.name == "main"
        raise ChannelError("ill", permanent=True, retry_after=7.0, trouble="auth")

    row = in_doubt(put(account), after_id=None)
    for outbound in (finder, CHANNEL.outbound):
        row.may_repeat = row.settles_doubt = False
        search(row, outbound)
        assert (row.may_repeat, row.settles_doubt, finder.tried) == (True, True, [])
    monkeypatch.setattr(MemoryGateway, "check", ill)
    row.may_repeat = row.settles_doubt = False
    with pytest.raises(ChannelError, match="ill") as refused:
        search(row, CHANNEL.outbound)
    error = refused.value
    assert (error.permanent, error.retry_after, error.trouble) == (False, 7.0, "auth")
    assert (row.may_repeat, row.settles_doubt) == (False, False)
    row.external_message_id = "8"
    search(row, CHANNEL.outbound)
    assert (row.may_repeat, row.settles_doubt) == (False, False)
