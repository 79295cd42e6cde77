"""Codes beside other people's codes and requests, in the audit, and as people type them."""

import re
import time
import unicodedata
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from allowlist import audit, link_codes
from allowlist.link_codes import Address, WrongCode
from allowlist.models import AuditEntry, LinkAttempt, LinkCode, UnknownRequest
from channels_app.intake import slash_commands
from core.models import ChannelAccount, ChannelIdentity, InboundMessage, User
from tests.allowlist.conftest import MakeUser, request_of

pytestmark = pytest.mark.django_db
# A phone number, and a number of any kind.
NUMBER = "+4915112345678"


@pytest.fixture
def ann(make_user: MakeUser) -> User:
    """Return a user allowed on Telegram as 42."""
    return make_user("ann", im=["42"])


@pytest.fixture
def ben(make_user: MakeUser) -> User:
    """Return another user."""
    return make_user("ben", im=["43"])


@pytest.fixture
def memory(db: None) -> ChannelAccount:
    """Return an account of another channel."""
    return ChannelAccount.objects.create(channel="memory", name="main")


def made(user: User, now: datetime) -> str:
    """Return a new code."""
    return link_codes.make(user=user, via="web chat", now=now)


def waiting(account: ChannelAccount, now: datetime, **other: str) -> UnknownRequest:
    """Make the pending request of sender NUMBER, with a held message."""
    row = request_of(account, now, **{"sender": NUMBER} | other)
    InboundMessage.objects.create(
        account=account,
        kind=row.kind,
        sender=row.sender,
        chat=row.sender,
        text="hello",
        state=InboundMessage.State.HELD,
        received_at=now,
    )
    return row


def test_a_new_code_ends_the_older_ones_of_its_user_and_of_no_other(
    ann: User, ben: User, memory: ChannelAccount, now: datetime
) -> None:
    """Two people ask at about the same time; codes that have expired are removed."""
    first, other = made(ann, now), made(ben, now)
    code = made(ann, now)
    with pytest.raises(WrongCode):
        link_codes.use(code=first, address=Address(memory, "im", "1"), now=now)
    assert link_codes.use(code=other, address=Address(memory, "im", "2"), now=now) == ben
    assert link_codes.use(code=code, address=Address(memory, "im", "3"), now=now) == ann
    made(ann, now + timedelta(hours=1))
    assert LinkCode.objects.get().user == ann


def separated(by: str) -> Callable[[str], str]:
    """Return how a code is written with another character, or several, in its middle."""
    return lambda code: code.replace("-", by)


def full_width(code: str) -> str:
    """Return a code in the letters and digits of Chinese and Japanese keyboards."""
    return "".join(chr(ord(each) + 0xFEE0) for each in code)


HYPHENS = "\u00ad\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
SPACES = " \u00a0\u2009\u202f\u3000\u200b"
FORMS: list[Callable[[str], str]] = [
    str,
    str.lower,
    full_width,
    *(separated(each) for each in ("", *HYPHENS, *SPACES, " - ", " \u2013 ", "_")),
    lambda code: f"\u201c{code}\u201d",
    lambda code: f" {code}.",
]


@pytest.mark.parametrize("form", FORMS)
def test_a_code_is_typed_as_people_type(
    ann: User, memory: ChannelAccount, now: datetime, form: Callable[[str], str]
) -> None:
    """Without look-alikes, so that no letter is another. No form of it is stored."""
    code = made(ann, now)
    assert re.fullmatch("[A-HJ-NP-Z2-9]{4}-[A-HJ-NP-Z2-9]{4}", code)
    assert len(set(link_codes.ALPHABET)) == len(link_codes.ALPHABET) == 32
    said = f"/link {form(code)}"
    command = slash_commands.parse(said)
    assert command is not None
    assert link_codes.use(code=command.argument, address=Address(memory, "im", "1"), now=now) == ann
    rest = unicodedata.normalize("NFKC", link_codes.without_codes(said)).upper()
    assert code[:4] not in rest
    assert code[5:] not in rest


def test_a_text_that_is_far_too_long_for_a_code_costs_no_time(
    memory: ChannelAccount, now: datetime
) -> None:
    """Anybody may send one: marks above and below a letter are put in order, which takes the square
    of their number, and no message is accepted meanwhile.
    """
    odd = "A" + "\u0301" * 30_000 + "\u0316" * 30_000
    start = time.process_time()
    with pytest.raises(WrongCode):
        link_codes.use(code=odd, address=Address(memory, "im", "1"), now=now)
    assert time.process_time() - start < 1


def test_a_code_among_at_most_so_many_other_signs_counts(
    ann: User, memory: ChannelAccount, now: datetime
) -> None:
    code = made(ann, now)
    with pytest.raises(WrongCode):
        link_codes.use(code=code.ljust(65), address=Address(memory, "im", "1"), now=now)
    assert link_codes.use(code=code.ljust(64), address=Address(memory, "im", "1"), now=now) == ann


def test_the_audit_names_the_maker_of_a_code_and_the_address_that_used_it(
    ann: User, memory: ChannelAccount, now: datetime
) -> None:
    """And the address that sent a wrong one."""
    code = made(ann, now)
    with pytest.raises(WrongCode):
        link_codes.use(code="AAAA-AAAA", address=Address(memory, "email", "M@Example.org"), now=now)
    link_codes.use(code=code, address=Address(memory, "im", NUMBER), now=now)
    subject = f"user:{ann.pk}"
    used = {"identity": f"im:{NUMBER}", "on": "memory/main"}
    wrong = "memory/main email:m@example.org"
    rows = AuditEntry.objects.order_by("id").values_list("action", "actor", "subject", "data")
    assert list(rows) == [
        ("link.made", audit.actor_of(ann), subject, {"via": "web chat"}),
        ("link.refused", wrong, wrong, {}),
        ("link.used", audit.actor_of(ann), subject, used),
    ]


def test_an_impossible_address_is_refused_with_the_reason(
    ann: User, telegram: ChannelAccount, now: datetime
) -> None:
    """On Telegram an address is a number; the code can still be used."""
    code = made(ann, now)
    words = "This address cannot be linked: on telegram an identity is the numeric id, digits only."
    with pytest.raises(WrongCode, match=f"^{re.escape(words)}$"):
        link_codes.use(code=code, address=Address(telegram, "im", "ann"), now=now)
    assert not LinkAttempt.objects.exists()
    assert link_codes.use(code=code, address=Address(telegram, "im", "44"), now=now) == ann


OTHERS = [{"kind": "phone"}, {"sender": "8"}, {"account": "other"}]


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_a_block_of_another_address_is_none_of_this_one(
    ann: User, memory: ChannelAccount, now: datetime, other: dict[str, str]
) -> None:
    """Another kind, another sender, the same sender of another account."""
    account, names = elsewhere(memory, other)
    waiting(account, now, **names, state="blocked")
    code = made(ann, now)
    assert link_codes.use(code=code, address=Address(memory, "im", NUMBER), now=now) == ann


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_wrong_codes_of_another_address_are_none_of_this_one(
    ann: User, memory: ChannelAccount, now: datetime, other: dict[str, str]
) -> None:
    """Attempts are counted by account, kind and sender."""
    account, names = elsewhere(memory, other)
    address = Address(account, **{"kind": "im", "sender": NUMBER} | names)
    for _ in range(link_codes.SENDER_ATTEMPTS):
        with pytest.raises(WrongCode):
            link_codes.use(code="AAAA-AAAA", address=address, now=now)
    assert (
        link_codes.use(code=made(ann, now), address=Address(memory, "im", NUMBER), now=now) == ann
    )


@pytest.mark.parametrize("other", [*OTHERS, {"state": "denied"}], ids=str)
def test_a_linked_address_ends_its_own_pending_request_and_no_other(
    ann: User, memory: ChannelAccount, now: datetime, other: dict[str, str]
) -> None:
    """Its held messages are received from the person; those of the other request are not."""
    address = Address(memory, "im", NUMBER)
    account, names = elsewhere(memory, other)
    apart = waiting(account, now, **names)
    with_state = (apart.state, apart.granted_user)
    assert link_codes.end_request(address=address, user=ann, now=now) == (None, [])
    apart.refresh_from_db()
    assert (apart.state, apart.granted_user) == with_state
    if "state" not in other:
        row = waiting(memory, now)
        ended, messages = link_codes.end_request(address=address, user=ann, now=now)
        assert (ended, [each.user for each in messages]) == (row, [ann])
        row.refresh_from_db()
        assert (row.state, row.granted_user, row.decided_at) == ("approved", ann, now)
    assert InboundMessage.objects.filter(state="held").count() == 1


def elsewhere(
    account: ChannelAccount, other: dict[str, str]
) -> tuple[ChannelAccount, dict[str, str]]:
    """Return the account and the fields of another address."""
    names = {name: value for name, value in other.items() if name != "account"}
    if "account" in other:
        account = ChannelAccount.objects.create(channel="memory", name=other["account"])
    return account, names


def test_a_page_knows_the_code_that_it_shows(
    ann: User, ben: User, memory: ChannelAccount, now: datetime
) -> None:
    """By a part of the hash, until the code is used, replaced or over."""
    made(ben, now)
    code = made(ann, now)
    mark = link_codes.mark(code)
    assert re.fullmatch("[0-9a-f]{12}", mark)
    assert link_codes.open_mark(user=ann, now=now) == mark
    assert link_codes.open_mark(user=ann, now=now + timedelta(minutes=10)) == ""
    link_codes.use(code=code, address=Address(memory, "im", NUMBER), now=now)
    assert link_codes.open_mark(user=ann, now=now) == ""
    assert ChannelIdentity.objects.filter(user=ann, value=NUMBER).exists()


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("/link ABCD-EFGH", "/link …"),
        ("say /LINK@gate_bot abcd efgh please", "say /LINK@gate_bot … please"),
        ("/link ABCDEFGHI", "/link ABCDEFGHI"),
        ("link ABCD-EFGH", "link ABCD-EFGH"),
        ("/link\u00a0ABCD\u2011EFGH", "/link …"),
    ],
)
def test_no_code_after_a_link_command_is_stored(text: str, stored: str) -> None:
    """Wherever in a text it stands, and however it is written."""
    assert link_codes.without_codes(text) == stored


def test_a_command_is_stored_without_its_code() -> None:
    """Even a code of another form."""
    for space in (" ", "\u00a0", "\n"):
        assert link_codes.hide(f"  /link{space}ABCD EFGH and more ") == "/link …"
