"""The edges of authentication: where a key may stand in a request, whom it makes its caller, and
which limits count a request, in which order.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from secrets import token_hex
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from allowlist import keys
from allowlist.models import ApiKey
from channels_app.asgi import authentication, throttling
from channels_app.asgi.admission import BusyError, entrance
from channels_app.asgi.authentication import (
    Shown,
    caller_of,
    callers_of,
    end_of_key,
    slot,
    token_of,
)
from channels_app.asgi.http import RefusedError, Request
from channels_app.asgi.principal import Principal
from core.database import transactions
from core.database.transactions import in_thread
from core.models import ChannelAccount, Run, User
from core.signals import pubsub
from tests.loops import end_tasks

ADDRESS = "203.0.113.7"
WRONG = "lk_000000000000_" + "x" * 43


@pytest.fixture(autouse=True)
def limits(settings: Settings) -> None:
    """Set no limit: each test has its own."""
    settings.RATE_PER_MINUTE_ADDRESS = settings.RATE_PER_MINUTE_KEY = 0
    settings.RATE_PER_MINUTE_USER = settings.WRONG_KEYS_PER_MINUTE = 0


@pytest.fixture
def person(db: None) -> User:
    """A person without a key."""
    return User.objects.create(username="ann")


@pytest.fixture
def bridge(db: None) -> ChannelAccount:
    """An account of a bridge."""
    return ChannelAccount.objects.create(channel="bridge", name="irc")


def token(**named: Any) -> str:
    """Return the token of a new key with the scope ``chat``."""
    return keys.create(**{"name": "k", "scopes": ["chat"], **named})[1]


def request(*, query: str = "", client: str = ADDRESS, **fields: str) -> Request:
    """Return the head of a request."""
    return Request(
        {
            "type": "http",
            "method": "POST",
            "path": "/x",
            "query_string": query.encode(),
            "client": (client, 5),
            "headers": [
                (name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()
            ],
        }
    )


def outcome(work: Callable[..., object], *given: Any, **named: Any) -> int:
    """Return 200, or the status of the refusal."""
    try:
        work(*given, **named)
    except RefusedError as error:
        return error.status
    return 200


def asks(shown: str, *, address: str = ADDRESS, scope: str = "chat") -> int:
    """Return the status of a request with this token."""
    return outcome(caller_of, token=shown, scope=scope, address=address)


# Where a key stands ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, ""),
        ({"authorization": "Bearer lk_a"}, "lk_a"),
        ({"authorization": "bEARER  lk_a "}, "lk_a"),
        ({"x_api_key": "lk_b"}, "lk_b"),
        ({"authorization": "Bearer lk_a", "x_api_key": "lk_b"}, "lk_a"),
        ({"authorization": "Basic lk_a", "x_api_key": "lk_b"}, "lk_b"),
        ({"authorization": "Basic lk_a"}, ""),
        ({"authorization": "Bearer", "x_api_key": "lk_b"}, "lk_b"),
        ({"authorization": "lk_a"}, ""),
    ],
)
def test_a_key_is_a_bearer_token_or_stands_in_its_own_header(
    fields: dict[str, str], found: str
) -> None:
    assert token_of(request(**fields)) == found


@pytest.mark.parametrize("name", ["key", "api_key", "token", "access_token"])
def test_a_key_in_the_address_is_refused_even_beside_a_right_one(name: str) -> None:
    """Addresses are logged."""
    assert outcome(token_of, request(query=f"a=b&{name}=lk_a", authorization="Bearer lk_a")) == 400
    assert token_of(request(query=f"my{name}=x&{name}s=x", authorization="Bearer lk_a")) == "lk_a"


# Whose it is -------------------------------------------------------------------------------------


def test_the_caller_is_whose_key_it_is(person: User, bridge: ChannelAccount) -> None:
    own, of_bridge = (
        token(name="own", user=person, scopes=["chat", "inbound"], model_only=True),
        token(name="bridge", account=bridge),
    )
    found = caller_of(token=own, scope="inbound", address=ADDRESS)
    number = ApiKey.objects.get(name="own").pk
    assert found == Principal(
        user=person, key_id=number, scopes=["chat", "inbound"], model_only=True
    )
    found = caller_of(token=of_bridge, scope="chat", address=ADDRESS)
    number = ApiKey.objects.get(name="bridge").pk
    assert found == Principal(account=bridge, key_id=number, scopes=["chat"])


def test_each_of_several_requests_gets_its_own_caller_or_refusal(
    person: User, bridge: ChannelAccount
) -> None:
    """A wrong secret behind the public part of a right key is a wrong key."""
    own, other = token(user=person), token(account=bridge)
    tokens = [own, WRONG, own[:16] + other[16:], other, "", own]
    found = callers_of([Shown(each, "chat", ADDRESS) for each in tokens])
    described = [
        each.user or each.account if isinstance(each, Principal) else outcome(fail, each)
        for each in found
    ]
    assert described == [person, 401, 401, bridge, 401, person]


def test_the_keys_of_several_requests_are_read_in_one_query(
    person: User, bridge: ChannelAccount
) -> None:
    shown = [Shown(each, "chat", ADDRESS) for each in (token(user=person), token(account=bridge))]
    callers_of(shown)  # notes that they were used
    with CaptureQueriesContext(connection) as queries:
        assert [type(each) for each in callers_of(shown)] == [Principal, Principal]
    assert len(queries) == 1


def fail(error: Exception) -> None:
    """Raise it."""
    raise error


def test_a_request_without_a_right_key_is_challenged_and_told_no_reason(person: User) -> None:
    revoked = token(user=person)
    ApiKey.objects.update(revoked_at=person.date_joined)
    for each in ("", WRONG, "nonsense", revoked):
        with pytest.raises(RefusedError) as caught:
            caller_of(token=each, scope="chat", address=ADDRESS)
        assert (caught.value.status, str(caught.value)) == (401, "Permission denied")
        assert caught.value.headers == {"WWW-Authenticate": 'Bearer realm="latchkey"'}


def test_a_key_without_the_scope_is_told_which_is_missing(person: User) -> None:
    own = token(user=person, scopes=["chat"])
    with pytest.raises(RefusedError, match="no scope 'inbound'") as caught:
        caller_of(token=own, scope=ApiKey.Scope.INBOUND, address=ADDRESS)
    assert caught.value.status == 403


# Which limits count it ---------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the tokens that are looked up; each is unknown."""
    tokens: list[str] = []

    def named(shown: Iterable[str]) -> dict[str, ApiKey]:
        tokens.extend(shown)
        return {}

    monkeypatch.setattr(keys, "named", named)
    return tokens


def test_an_address_over_its_limit_costs_no_look_up(asked: list[str], settings: Settings) -> None:
    """Without a broker too: then each process counts for itself."""
    settings.RATE_PER_MINUTE_ADDRESS = 2
    assert [asks(each) for each in ("a", "b", "c", "d")] == [401, 401, 429, 429]
    assert asked == ["a", "b"]
    assert asks("e", address="203.0.113.8") == 401


def test_processes_count_an_address_in_the_broker(
    asked: list[str], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here two counters of one name are two processes."""
    settings.RATE_PER_MINUTE_ADDRESS, address = 2, token_hex(8)
    found = []
    for each in ("a", "b", "c"):
        monkeypatch.setattr(throttling, "addresses", throttling.Rate("address"))
        found.append(asks(each, address=address))
    assert (found, asked) == ([401, 401, 429], ["a", "b"])
    for count in (authentication.count_address, authentication.count_everywhere):
        monkeypatch.setattr(throttling, "addresses", throttling.Rate("address"))
        assert outcome(count, address) == 429
        assert outcome(count, token_hex(8)) == 200


def test_of_several_requests_those_over_the_limit_of_their_address_are_refused(
    asked: list[str], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttling, "addresses", throttling.Rate("address"))
    settings.RATE_PER_MINUTE_ADDRESS = 1
    near, far = token_hex(8), token_hex(8)
    shown = [Shown("a", "chat", near), Shown("b", "chat", near), Shown("c", "chat", far)]
    assert [outcome(fail, each) for each in callers_of(shown)] == [401, 429, 401]
    assert asked == ["a", "c"]


def test_the_network_of_an_address_is_counted(asked: list[str], settings: Settings) -> None:
    settings.RATE_PER_MINUTE_ADDRESS = 1
    assert asks("a", address="2001:db8:1:2::1") == 401
    assert asks("a", address="2001:db8:1:2::2") == 429
    assert outcome(authentication.count_address, "2001:db8:1:2::3") == 429
    assert outcome(authentication.count_address, "2001:db8:1:3::3") == 200


def test_only_wrong_keys_count_as_such(person: User, settings: Settings) -> None:
    own = token(user=person, scopes=["inbound"])
    settings.WRONG_KEYS_PER_MINUTE = 2
    assert [asks(each) for each in ("", "", own, own, WRONG, "x")] == [401, 401, 403, 403, 401, 401]
    assert [asks(each) for each in (WRONG, "", own)] == [429, 401, 403]
    assert asks(WRONG, address="2001:db8::1") == 401
    assert asks(WRONG, address="2001:db8::2") == 401
    assert asks(WRONG, address="2001:db8::3") == 429


def test_a_key_and_its_person_are_counted_and_a_bridge_is_no_person(
    person: User, bridge: ChannelAccount, settings: Settings
) -> None:
    first, second = token(user=person), token(user=person)
    other = token(user=User.objects.create(username="bea"))
    of_bridge, more = token(account=bridge), token(account=bridge)
    settings.RATE_PER_MINUTE_KEY, settings.RATE_PER_MINUTE_USER = 3, 4
    assert [asks(first) for _ in range(4)] == [200] * 3 + [429]
    assert [asks(second) for _ in range(2)] == [200, 429], "the fifth of the person"
    assert asks(other) == 200
    settings.RATE_PER_MINUTE_USER = 1
    assert [asks(of_bridge) for _ in range(4)] == [200] * 3 + [429]
    assert asks(more) == 200
    assert throttling.people._seen.keys() == {
        f"user:{each.pk}" for each in User.objects.filter(api_keys__isnull=False)
    }


def test_a_key_that_lacks_the_scope_is_counted_for_its_address_only(
    person: User, settings: Settings
) -> None:
    own = token(user=person)
    settings.RATE_PER_MINUTE_KEY = settings.RATE_PER_MINUTE_USER = 1
    assert [asks(own, scope="inbound") for _ in range(2)] == [403, 403]
    assert [asks(own) for _ in range(2)] == [200, 429]


def test_a_sender_of_a_bridge_is_one_however_the_name_is_written(
    bridge: ChannelAccount, settings: Settings
) -> None:
    settings.RATE_PER_MINUTE_USER = 2
    other = ChannelAccount.objects.create(channel="bridge", name="xmpp")
    found = [outcome(authentication.count_sender, bridge, each) for each in ("Ann", " ann ", "ANN")]
    assert found == [200, 200, 429]
    assert outcome(authentication.count_sender, bridge, "bea") == 200
    assert outcome(authentication.count_sender, other, "ann") == 200


# On the event loop -------------------------------------------------------------------------------


async def authenticates(head: Request) -> int:
    """Return the status of a request."""
    try:
        await authentication.authenticate(head, scope="chat")
    except RefusedError as error:
        return error.status
    return 200


async def test_a_flood_is_refused_on_the_event_loop(asked: list[str], settings: Settings) -> None:
    """Before its key is read, and before it would wait for a database thread."""
    settings.RATE_PER_MINUTE_ADDRESS = 1
    head = request(authorization="Bearer a", client="2001:db8::1")
    assert await authenticates(head) == 401
    flood = asyncio.create_task(authenticates(request(query="key=x", client="2001:db8::2")))
    await asyncio.sleep(0)
    assert flood.done()
    assert await flood == 429
    assert await authenticates(request(client="2001:db8:1::1")) == 401
    assert asked == ["a", ""]


async def test_too_many_waiting_requests_are_refused_and_each_waits_while_it_is_looked_up(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("channels_app.asgi.admission.MOST_UNKNOWN", 1)
    first = asyncio.create_task(authenticates(request(authorization="Bearer a")))
    await asyncio.sleep(0)
    assert entrance.number == 1
    with pytest.raises(BusyError):
        await authentication.authenticate(request(authorization="Bearer b"), scope="chat")
    assert await first == 401
    assert entrance.number == 0
    assert asked == ["a"]


@pytest.fixture
def stored_token(transactional_db: None) -> str:
    """Return the token of a person, which other threads read too."""
    return token(user=User.objects.create(username="ann"))


async def test_a_request_is_authenticated_by_its_key_its_scope_and_its_address(
    stored_token: str, settings: Settings
) -> None:
    settings.WRONG_KEYS_PER_MINUTE = 1
    head = request(authorization=f"Bearer {stored_token}")
    found = await authentication.authenticate(head, scope="chat")
    assert found.user is not None
    assert found.user.username == "ann"
    with pytest.raises(RefusedError, match="scope 'inbound'"):
        await authentication.authenticate(head, scope="inbound")
    statuses = [
        await authenticates(request(x_api_key=WRONG, client=each))
        for each in (ADDRESS, ADDRESS, "203.0.113.8")
    ]
    assert statuses == [401, 429, 401]


# Open streams ------------------------------------------------------------------------------------


def opens(caller: Principal, **named: Any) -> int:
    """Return whether one more stream may be open for a moment."""

    def hold() -> None:
        with slot(caller, **named):
            pass

    return outcome(hold)


def test_a_person_has_a_number_of_streams_whatever_sender_is_named(settings: Settings) -> None:
    settings.MAX_STREAMS_PER_USER = 1
    ann, bea = Principal(user=User(pk=1)), Principal(user=User(pk=2))
    with slot(ann, sender="a"):
        assert opens(ann, sender="b") == 429
        assert opens(bea, sender="a") == 200
        assert opens(ann, wanted=False) == 200
        with slot(bea, wanted=False):
            assert opens(bea) == 200
    assert opens(ann) == 200


def test_each_sender_of_a_bridge_has_streams_of_their_own(settings: Settings) -> None:
    settings.MAX_STREAMS_PER_USER = 1
    bridge, other = (Principal(account=ChannelAccount(pk=each)) for each in (1, 2))
    with slot(bridge, sender="Ann"):
        assert opens(bridge, sender=" ANN ") == 429
        assert opens(bridge, sender="bea") == 200
        assert opens(other, sender="ann") == 200
        assert opens(Principal(user=User(pk=1))) == 200
        with slot(bridge):
            assert opens(bridge) == opens(bridge, sender="") == 429
    assert opens(bridge, sender="ann") == 200


# The end of a key --------------------------------------------------------------------------------


def key_of(token: str) -> ApiKey:
    """Return the row of a key."""
    [key] = keys.named([token]).values()
    return key


def test_a_stream_of_the_key_that_began_its_run_ends_with_the_run(person: User) -> None:
    """A revocation cancels the runs that a key began."""
    mine = key_of(token(user=person))
    caller = Principal(user=person, key_id=mine.pk)
    assert end_of_key(caller, Run(via_key=mine.pk)) is None
    assert end_of_key(caller, Run(via_key=mine.pk + 1)) is not None
    assert end_of_key(caller, Run(via_key=0)) is not None


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_told", [True, False])
async def test_a_key_that_is_revoked_ends_the_streams_that_it_resumed(
    is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the broker does not tell of it."""
    ann = await in_thread(User.objects.create, username="ann")
    mine, other = [await in_thread(key_of, await in_thread(token, user=ann)) for _ in range(2)]
    if not is_told:
        monkeypatch.setattr(authentication, "RECHECK_SECONDS", 0.02)
        monkeypatch.setattr(pubsub, "publish", lambda frames: None)
    ended = end_of_key(Principal(user=ann, key_id=mine.pk), Run(via_key=0))
    assert ended is not None
    task = asyncio.create_task(ended())
    revoke = partial(keys.revoke, actor="test", now=timezone.now())
    try:
        await in_thread(revoke, key=other)
        done, _ = await asyncio.wait({task}, timeout=0.2)
        assert not done
        await in_thread(revoke, key=mine)
        async with asyncio.timeout(20):
            await task
    finally:
        await end_tasks()
        transactions.close_pool()


def test_while_the_database_is_away_a_key_stays_valid(
    person: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mine = key_of(token(user=person))
    assert authentication.is_usable(mine.pk)
    assert not authentication.is_usable(mine.pk + 1)

    def fail(*_: object) -> None:
        raise OperationalError

    with monkeypatch.context() as patch:
        patch.setattr(ApiKey, "usable_of", fail)
        assert authentication.is_usable(mine.pk)
    assert "could not be checked" in caplog.text
    ApiKey.objects.update(expires_at=timezone.now())
    assert not authentication.is_usable(mine.pk)


def test_a_revocation_that_was_not_told_counts_within_a_minute() -> None:
    assert authentication.RECHECK_SECONDS <= 60
