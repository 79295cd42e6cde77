"""Accounts that are polled by one worker at a time, told to their platforms, and checked."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from pytest_django import Settings

from channels_app import registry
from channels_app.base import Account, ChannelError, Health
from channels_app.owner import notices
from channels_app.worker import account_watcher
from channels_app.worker.account_watcher import Gateways
from channels_app.worker.runner import Runner
from core.conversations import outbox
from core.database import transactions
from core.lib.encryption import DecryptError, encrypt
from core.lib.installed import Installed
from core.models import ChannelAccount, Delivery, User
from tests.channels_app.running import memory_account, owner
from tests.channels_app.worker import polled_channel
from tests.channels_app.worker.polled_channel import CHANNEL, ID, Clock, Platform, create, refusal

__all__ = ["owner"]
pytestmark = pytest.mark.django_db(transaction=True)
LEASE, SECOND = timedelta(seconds=15), timedelta(seconds=1)
SILENT = "The platform does not answer."


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> Iterator[Platform]:
    """Register the channel; return its inbound side."""
    found = Platform()
    monkeypatch.setattr(CHANNEL, "gateway", found)
    monkeypatch.setitem(registry.CHANNELS, ID, f"{polled_channel.__name__}.CHANNEL")
    registry.own.cache_clear()
    yield found
    registry.own.cache_clear()


@pytest.fixture
def clock(transactional_db: None, platform: Platform) -> Iterator[Clock]:
    """Return the event loop of the workers."""
    found = Clock()
    yield found
    found.end()
    transactions.close_pool()


@pytest.fixture
def first(clock: Clock) -> Gateways:
    return Gateways("first")


@pytest.fixture
def second(clock: Clock) -> Gateways:
    return Gateways("second")


@pytest.fixture
def told(owner: User) -> User:
    """Return the owner, with a chat to which notices are sent."""
    owner.only_listed = True
    owner.last_account, owner.last_target = memory_account(), {"chat": "7"}
    owner.save()
    return owner


def of(row: ChannelAccount) -> ChannelAccount:
    """Return an account as it is stored now."""
    return ChannelAccount.objects.get(id=row.id)


def status(row: ChannelAccount) -> tuple[str, str]:
    """Return the status of an account, and its text."""
    found = of(row)
    return found.status, found.status_text


def unreadable(row: ChannelAccount) -> str:
    """Return the message about secrets of an account that cannot be decrypted."""
    with pytest.raises(DecryptError) as caught:
        of(row).open_secrets()
    return str(caught.value)


def change(row: ChannelAccount, **columns: Any) -> None:
    """Change the stored account."""
    ChannelAccount.objects.filter(id=row.id).update(**columns)


def holder(row: ChannelAccount) -> str:
    """Return the worker that has just taken or renewed the lease on an account."""
    found = of(row)
    assert found.poller_until is not None
    assert LEASE / 2 < found.poller_until - transactions.now() <= LEASE
    return found.poller


def texts() -> list[str]:
    """Return the notices to the owner, in their order."""
    return [row.payload["text"] for row in Delivery.objects.order_by("id")]


def held(row: ChannelAccount) -> Delivery:
    """Store a delivery that waits because the credentials of an account are refused."""
    with transactions.atomic_write():
        made = outbox.enqueue(
            key="k", account_id=row.id, conversation="c", target={"chat": "7"}, payload={}
        )
    later = transactions.now() + timedelta(hours=1)
    Delivery.objects.filter(id=made.id).update(tries=1, retry_at=later)
    change(row, deliveries_held="refused")
    return made


def is_due(delivery: Delivery) -> bool:
    """Return whether a delivery waits no more."""
    return Delivery.objects.get(id=delivery.id).retry_at is None


def test_an_account_is_polled_by_one_worker(
    clock: Clock, platform: Platform, first: Gateways, second: Gateways
) -> None:
    rows = [create("a"), create("b")]
    clock.look(first, second, first)
    assert platform.calls == {"poll": {"a": 1, "b": 1}}
    assert platform.polled() == ["a", "b"]
    for row in rows:
        assert status(row) == ("running", "polling")
        assert holder(row) == "first"
    assert not second.pollers


def test_a_worker_looks_again_after_two_seconds(clock: Clock, first: Gateways) -> None:
    assert clock.begin(first.look_after()).result() == 2


def test_another_worker_goes_on_where_one_has_stopped(
    clock: Clock, platform: Platform, first: Gateways, second: Gateways
) -> None:
    rows = [create("a"), create("b")]
    clock.look(first)
    assert clock.begin(first.close()).done()
    assert platform.polled() == []
    assert [(of(row).poller, of(row).poller_until) for row in rows] == [("", None)] * 2
    clock.look(second)
    assert platform.polled() == ["a", "b"]
    assert [holder(row) for row in rows] == ["second", "second"]


def test_the_lease_of_a_worker_that_died_passes_to_another(
    clock: Clock, platform: Platform, first: Gateways, second: Gateways
) -> None:
    """The first one was only slow: it ends its poller, and leaves the lease alone."""
    row, other = create("a"), create("b")
    clock.look(first)
    change(row, poller_until=transactions.now() - SECOND)
    clock.look(second)
    assert platform.calls["poll"] == {"a": 2, "b": 1}
    clock.look(first)
    assert platform.polled() == ["a", "b"]
    assert (list(first.pollers), list(second.pollers)) == ([other.id], [row.id])
    assert clock.begin(first.close()).done()
    assert (of(row).poller, of(other).poller) == ("second", "")


@pytest.mark.parametrize(
    ("worker", "ends", "is_free"),
    [
        pytest.param("", None, True, id="none"),
        pytest.param("other", -SECOND, True, id="over"),
        pytest.param("other", LEASE / 2, False, id="held"),
        pytest.param("other", LEASE - SECOND, False, id="held, new"),
        pytest.param("other", 5 * LEASE, True, id="the clock was set back"),
        pytest.param("", LEASE, False, id="a change waits"),
        pytest.param("", -SECOND, True, id="a change is due"),
        pytest.param("mine", SECOND, True, id="my own"),
    ],
)
def test_a_lease_is_taken_or_renewed_where_no_other_worker_has_one(
    platform: Platform, worker: str, ends: timedelta | None, is_free: bool
) -> None:
    row, other = create("a"), create("b")
    until = None if ends is None else transactions.now() + ends
    for each in (row, other):
        change(each, poller=worker, poller_until=until)
    assert account_watcher.hold(account_id=row.id, worker="mine") is is_free
    assert of(row).poller == ("mine" if is_free else worker)
    assert (of(other).poller, of(other).poller_until) == (worker, until)
    if is_free:
        assert holder(row) == "mine"


def test_no_lease_is_taken_on_a_disabled_account(platform: Platform) -> None:
    row = create("a")
    change(row, enabled=False)
    assert not account_watcher.hold(account_id=row.id, worker="mine")
    assert of(row).poller == ""


def test_a_poller_ends_where_the_account_was_disabled_meanwhile(
    clock: Clock, platform: Platform, first: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the look, and before its lease was renewed."""
    row, other = create("a"), create("b")
    clock.look(first)
    found = account_watcher.look()
    change(row, enabled=False)
    monkeypatch.setattr(account_watcher, "look", lambda: found)
    clock.look(first)
    assert platform.polled() == ["b"]
    assert list(first.pollers) == [other.id]


@pytest.mark.parametrize(
    "changed",
    [
        {"config": {"mode": "polling", "denied_reply": "No."}},
        {"secrets": "second"},
        {"name": "c"},
    ],
    ids=["config", "secrets", "name"],
)
def test_changed_settings_are_those_of_the_next_poll(
    clock: Clock, platform: Platform, first: Gateways, changed: dict[str, Any]
) -> None:
    """Other accounts are polled on."""
    row, last = create("a"), create("b")
    clock.look(first)
    if "secrets" in changed:
        changed = {"secrets": encrypt({"token": "second"})}
    change(row, **changed)
    kept = next(account for account in platform.polling if account.id == last.id)
    clock.look(first)
    old, new = platform.polling
    assert (old, new.id) == (kept, row.id)
    stored = of(row)
    assert (new.name, new.config) == (stored.name, stored.config)
    assert new.secrets == stored.open_secrets()
    assert holder(row) == "first"


def test_other_columns_end_no_poller(clock: Clock, platform: Platform, first: Gateways) -> None:
    row = create("a")
    clock.look(first)
    change(row, health={"pending": 1}, status="error", outage_at=transactions.now())
    clock.look(first)
    assert platform.calls == {"poll": {"a": 1}}


@pytest.mark.parametrize(
    "columns",
    [
        {"config": {"mode": "webhook"}},
        {"config": {"mode": "polling", "incomplete": True}},
        {"secrets": "no secret"},
        {"channel": "memory"},
        {"channel": "unknown"},
    ],
    ids=["webhook", "incomplete", "unreadable", "of a channel that polls none", "unknown"],
)
def test_an_account_that_is_not_to_be_polled_is_let_go(
    clock: Clock, platform: Platform, first: Gateways, columns: dict[str, Any]
) -> None:
    """Other accounts are polled on."""
    before, row, after = create("a"), create("b"), create("c")
    clock.look(first)
    change(row, **columns)
    clock.look(first)
    assert platform.polled() == ["a", "c"]
    assert list(first.pollers) == [before.id, after.id]
    assert (of(row).poller, of(row).poller_until) == ("", None)
    assert of(row).status != "stopped"
    assert [holder(each) for each in (before, after)] == ["first", "first"]


@pytest.mark.parametrize("seen", ["first", "second"])
def test_a_disabled_account_is_polled_no_more_and_unregistered_once(
    clock: Clock, platform: Platform, first: Gateways, second: Gateways, seen: str
) -> None:
    """Whichever worker sees it first: the one with the poller, or another."""
    row, other = create("a"), create("b")
    clock.look(first)
    change(row, enabled=False)
    account_watcher.mark_saved(account_id=row.id)
    clock.look(*((first, second) if seen == "first" else (second, first)))
    assert platform.polled() == ["b"]
    assert platform.calls["retire"] == {"a": 1}
    assert status(row) == ("stopped", "")
    assert of(row).poller == ""
    assert status(other) == ("running", "polling")


def test_a_disabled_account_that_is_let_go_shows_no_state_of_its_poller(platform: Platform) -> None:
    """A poller that ends late may have written one after the account was stopped."""
    row, other = create("a"), create("b")
    for each in (row, other):
        change(each, poller="other", enabled=False, status="error", status_text="x")
    account_watcher.let_go(account_id=row.id, worker="mine")
    assert status(row) == ("stopped", "")
    assert status(other) == ("error", "x")
    assert of(row).poller == "other"


@pytest.mark.parametrize("kind", ["check", "prepare"])
def test_a_platform_that_does_not_answer_ends_no_lease(
    clock: Clock, platform: Platform, first: Gateways, second: Gateways, kind: str
) -> None:
    """Of another account: a second worker would poll it, too, and each be the other's conflict."""
    row, lost = create("a"), create("b")
    clock.look(first)
    for name in ("c", "d"):
        account_watcher.mark_saved(account_id=create(name, mode="webhook").id)
    platform.silent.add(kind)
    look = clock.begin(first.look_after())
    change(row, poller_until=transactions.now() + SECOND)
    change(lost, poller="second")
    clock.go_on(account_watcher.LOOK_SECONDS)
    assert holder(row) == "first"
    assert platform.polled() == ["a"]
    assert not look.done()
    clock.go_on(20)
    assert look.done()
    assert platform.calls[kind] == {"c": 1, "d": 1}


def test_a_check_that_fails_leaves_no_other_running_alone(
    clock: Clock, platform: Platform, first: Gateways
) -> None:
    """Its answer would meet that of the next look, and no lease would be renewed meanwhile."""
    for name in ("c", "d"):
        create(name, mode="webhook")
    platform.errors["check"].append(RuntimeError("a defect of the plugin"))
    platform.silent.add("check")
    look = clock.begin(first.look_after())
    assert not look.done()
    clock.go_on(account_watcher.CALL_SECONDS)
    with pytest.raises(RuntimeError, match="a defect of the plugin"):
        look.result()
    assert platform.calls["check"] == {"c": 1, "d": 1}


@pytest.mark.parametrize("trouble", ["conflict", "auth"])
def test_rc9_no_worker_polls_for_a_minute_after_a_lasting_error(
    clock: Clock, platform: Platform, first: Gateways, second: Gateways, trouble: str, told: User
) -> None:
    """[RC9] Other accounts are polled meanwhile. The lease is kept: a second worker that took it
    would poll within the minute, and the two would be each other's conflict from then on."""
    row = create("a")
    platform.errors["poll"].append(refusal(trouble))
    clock.look(first)
    assert status(row) == ("error", "The platform refuses.")
    create("b")
    for _ in range(5):
        change(row, poller_until=transactions.now() + SECOND)
        clock.look(first, second)
        assert holder(row) == "first"
        clock.go_on(10)
    clock.go_on(9.9)
    assert platform.calls["poll"] == {"a": 1, "b": 1}
    assert status(row)[0] == "error"
    clock.go_on(0.2)
    assert platform.calls["poll"] == {"a": 2, "b": 1}
    assert status(row) == ("running", "polling")
    words = notices.WORDS[trouble]
    assert texts() == [f"{ID}/a: {words} (The platform refuses.)."]


@pytest.mark.parametrize(
    ("error", "seconds", "shown"),
    [
        (refusal(), 3, ("error", "The platform refuses.")),
        (refusal("gone"), 3, ("error", "The platform refuses.")),
        (refusal(retry_after=7), 7, ("error", "The platform refuses.")),
        (ValueError("x"), 3, ("error", account_watcher.FAILED)),
        (None, 3, ("running", "polling")),
    ],
    ids=["refused", "of another kind", "with a pause", "defect", "ended"],
)
def test_other_errors_pause_a_poller_for_seconds(
    clock: Clock,
    platform: Platform,
    first: Gateways,
    told: User,
    error: Exception | None,
    seconds: float,
    shown: tuple[str, str],
) -> None:
    """The owner is not notified."""
    row = create("a")
    if error is None:
        platform.ended.add("a")
    else:
        platform.errors["poll"].append(error)
    clock.look(first)
    platform.ended.clear()
    assert (status(row), platform.polled()) == (shown, [])
    clock.go_on(seconds - 0.1)
    clock.look(first)
    assert platform.calls["poll"].total() == 1
    clock.go_on(0.2)
    assert platform.polled() == ["a"]
    assert status(row) == ("running", "polling")
    assert texts() == []


def test_a_changed_account_is_polled_at_once_also_during_a_pause(
    clock: Clock, platform: Platform, first: Gateways
) -> None:
    row = create("a")
    platform.errors["poll"].append(refusal("auth"))
    clock.look(first)
    change(row, secrets=encrypt({"token": "second"}))
    clock.look(first)
    assert [account.secrets for account in platform.polling] == [{"token": "second"}]
    clock.go_on(100)
    assert platform.calls["poll"].total() == 2


def test_a_saved_account_is_polled_at_once_also_during_a_pause(
    clock: Clock, platform: Platform, first: Gateways, second: Gateways
) -> None:
    """Without a change, as after the cause was mended elsewhere: it was shown as running while
    nothing was fetched."""
    row = create("a")
    platform.errors["poll"].append(refusal("conflict"))
    clock.look(first)
    assert status(row)[0] == "error"
    account_watcher.mark_saved(account_id=row.id)
    clock.look(second, first)
    assert status(row) == ("running", "polling")
    assert platform.polled() == ["a"]
    assert platform.calls["poll"].total() == 2


def test_a_saved_account_is_told_to_its_platform_by_one_worker(
    clock: Clock, platform: Platform, first: Gateways, second: Gateways, settings: Settings
) -> None:
    row, other = create("a", mode="webhook"), create("b", mode="webhook")
    change(row, status_text="x")
    change(other, status="error", status_text="x")
    settings.GATEWAY_URL = "https://gateway.example"
    account_watcher.mark_saved(account_id=row.id)
    assert status(row) == ("starting", "")
    assert status(other) == ("error", "x")
    platform.silent.add("prepare")
    looks = [clock.begin(worker.look_after()) for worker in (first, second)]
    assert [each.done() for each in looks] == [False, True]
    assert status(row) == ("starting", "…")
    platform.silent.clear()
    account_watcher.mark_saved(account_id=row.id)
    clock.go_on(20)
    clock.look(second)
    assert status(row) == ("running", "prepared")
    assert platform.calls["prepare"] == {"a": 2}
    assert platform.addresses == ["https://gateway.example"] * 2
    assert "retire" not in platform.calls


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("mode", ["webhook", "polling"])
def test_a_change_whose_worker_was_killed_is_told_by_the_next_one(
    clock: Clock,
    platform: Platform,
    first: Gateways,
    second: Gateways,
    mode: str,
    enabled: bool,
) -> None:
    """It had taken the change, and the platform may not know it: a webhook that was to go stays,
    and prevents polling, or no message would ever come."""
    row = create("a", mode=mode)
    change(row, enabled=enabled, status="running")
    account_watcher.mark_saved(account_id=row.id)
    platform.silent = {"prepare", "retire"}
    clock.begin(first.look_after()).cancel()
    platform.silent.clear()
    clock.look(second)
    assert status(row) == ("starting" if enabled else "stopping", "…")
    assert platform.polled() == []
    change(row, poller_until=transactions.now() - SECOND)
    clock.look(second)
    assert platform.calls["prepare" if enabled else "retire"] == {"a": 2}
    assert status(row)[0] == ("running" if enabled else "stopped")
    assert platform.polled() == (["a"] if enabled and mode == "polling" else [])


def test_a_platform_is_told_of_a_change_by_the_worker_that_polls_the_account(
    clock: Clock, platform: Platform, first: Gateways, second: Gateways
) -> None:
    """A webhook that another one sets would end the poll with a conflict, of which the owner would
    be told."""
    row = create("a")
    clock.look(first)
    change(row, config={"mode": "webhook"})
    account_watcher.mark_saved(account_id=row.id)
    clock.look(second)
    assert platform.calls["prepare"] == {}
    clock.look(first)
    assert platform.polled() == []
    assert platform.calls["prepare"] == {"a": 1}
    assert (of(row).poller, of(row).poller_until) == ("", None)


def test_a_platform_is_told_of_the_settings_that_are_stored_now(platform: Platform) -> None:
    """Of two changes in the moment between a look and the call."""
    row = create("a", mode="webhook")
    account_watcher.mark_saved(account_id=row.id)
    seen = of(row)
    change(row, config={"mode": "webhook", "denied_reply": "No."})
    account_watcher.mark_saved(account_id=row.id)
    taken = account_watcher.take_change(seen, worker="one")
    assert taken is not None
    assert taken.config == {"mode": "webhook", "denied_reply": "No."}


def test_a_defect_of_a_plugin_is_an_error_of_its_account(
    clock: Clock, platform: Platform, first: Gateways
) -> None:
    """Others are polled."""
    row = create("a", mode="webhook")
    clock.look(first)  # which checks it: not again within a minute
    create("b")
    account_watcher.mark_saved(account_id=row.id)
    platform.errors["prepare"].append(RuntimeError("a defect of the plugin"))
    clock.look(first)
    assert platform.polled() == ["b"]
    assert status(row) == ("error", account_watcher.NOT_TOLD)


def test_a_plugin_that_fails_on_settings_holds_up_no_other_account(
    clock: Clock, platform: Platform, first: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    def problems(_: object, account: Account) -> list[str]:
        return [account.config["a defect of the plugin"]] if account.name == "a" else []

    monkeypatch.setattr(polled_channel.Config, "problems", problems)
    create("a")
    create("b")
    clock.look(first)
    assert platform.polled() == ["b"]


def test_an_outdated_worker_lets_go_of_the_accounts(clock: Clock, platform: Platform) -> None:
    worker, row = Runner(), create("a")
    assert clock.begin(worker._look_after_accounts()).result() == account_watcher.LOOK_SECONDS
    assert (platform.polled(), of(row).poller) == (["a"], worker.name)
    worker.outdated = "The database is newer."
    assert clock.begin(worker._look_after_accounts()).done()
    assert (platform.polled(), of(row).poller) == ([], "")
    worker.loop.close()


def test_changes_are_told_before_polling_begins_and_at_once_for_several(
    clock: Clock, platform: Platform, first: Gateways
) -> None:
    """A webhook that is still set prevents polling."""
    rows = [create("a"), create("b")]
    for row in rows:
        account_watcher.mark_saved(account_id=row.id)
    platform.silent.add("prepare")
    look = clock.begin(first.look_after())
    clock.go_on(20)
    assert look.done()
    assert platform.calls == {"prepare": {"a": 1, "b": 1}}
    platform.silent.clear()
    for row in rows:
        change(row, poller_until=transactions.now() - SECOND)
    clock.look(first)
    assert platform.calls == {"prepare": {"a": 2, "b": 2}, "poll": {"a": 1, "b": 1}}


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("failure", ["refused", "unreadable"])
def test_a_change_that_a_platform_did_not_take_is_an_error_of_the_account(
    clock: Clock, platform: Platform, first: Gateways, enabled: bool, failure: str
) -> None:
    row = create("a", mode="webhook")
    clock.look(first)  # which checks it: not again within a minute
    change(row, enabled=enabled)
    account_watcher.mark_saved(account_id=row.id)
    words = "The platform refuses."
    if failure == "refused":
        platform.errors["prepare" if enabled else "retire"].append(refusal())
    else:
        change(row, secrets="no secret")
        words = unreadable(row)
    clock.look(first)
    assert status(row) == ("error", words)


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("mode", ["webhook", "polling"])
@pytest.mark.parametrize("failure", ["refused", "silent"])
def test_a_change_that_a_platform_did_not_take_for_the_moment_is_told_again(
    clock: Clock,
    platform: Platform,
    first: Gateways,
    second: Gateways,
    mode: str,
    enabled: bool,
    failure: str,
) -> None:
    """Half a minute later: a platform that has only the old secret would be refused for ever, and
    a webhook would stay. Nothing is polled before."""
    row = create("a", mode=mode)
    change(row, enabled=enabled, status="running")
    account_watcher.mark_saved(account_id=row.id)
    call = "prepare" if enabled else "retire"
    if failure == "silent":
        platform.silent.add(call)
    else:
        platform.errors[call].append(refusal())
    look = clock.begin(first.look_after())
    clock.go_on(20)
    assert look.done()
    platform.silent.clear()
    left = of(row).poller_until
    assert left is not None
    assert timedelta(seconds=20) < left - transactions.now() <= timedelta(seconds=30)
    clock.look(first, second)
    assert platform.calls[call] == {"a": 1}
    assert platform.polled() == []
    change(row, poller_until=transactions.now() - SECOND)
    clock.look(second)
    assert platform.calls[call] == {"a": 2}
    assert status(row)[0] == ("running" if enabled else "stopped")
    assert platform.polled() == (["a"] if enabled and mode == "polling" else [])


def test_an_account_that_is_saved_is_told_at_once_whatever_failed_before(
    clock: Clock, platform: Platform, first: Gateways
) -> None:
    """A change that is refused for good is not told again by itself."""
    row, other = create("a", mode="webhook"), create("b", mode="webhook")
    clock.look(first)
    for each, error in ((row, refusal()), (other, ChannelError("No.", permanent=True))):
        account_watcher.mark_saved(account_id=each.id)
        platform.errors["prepare"].append(error)
        clock.look(first)
    assert (of(other).poller, of(other).poller_until) == ("", None)
    assert status(other) == ("error", "No.")
    account_watcher.mark_saved(account_id=row.id)
    clock.look(first)
    assert platform.calls["prepare"] == {"a": 2, "b": 1}
    assert status(row) == ("running", "prepared")


@pytest.mark.parametrize("enabled", [True, False])
def test_a_platform_has_twenty_seconds_to_take_a_change(
    clock: Clock, platform: Platform, first: Gateways, enabled: bool
) -> None:
    row = create("a", mode="webhook")
    clock.look(first)
    change(row, enabled=enabled)
    account_watcher.mark_saved(account_id=row.id)
    platform.silent = {"prepare", "retire"}
    look = clock.begin(first.look_after())
    clock.go_on(19.9)
    assert not look.done()
    assert status(row) == ("starting" if enabled else "stopping", "…")
    clock.go_on(0.2)
    assert look.done()
    assert status(row) == ("error", SILENT)


def test_a_change_that_is_saved_during_another_stays_pending(
    clock: Clock, platform: Platform, first: Gateways
) -> None:
    """The answer is that to the earlier one."""
    row = create("a", mode="webhook")
    clock.look(first)
    account_watcher.mark_saved(account_id=row.id)
    platform.silent.add("prepare")
    look = clock.begin(first.look_after())
    account_watcher.mark_saved(account_id=row.id)
    clock.go_on(20)
    assert look.done()
    assert status(row) == ("starting", "")
    platform.silent.clear()
    clock.look(first)
    assert status(row) == ("running", "prepared")


def test_saving_a_disabled_account_calls_its_platform_unless_it_is_stopped(
    platform: Platform,
) -> None:
    rows = {name: create(name) for name in ("running", "error", "stopped", "other")}
    for name, row in rows.items():
        change(row, enabled=name == "other", status=name, status_text="x")
        if name != "other":
            account_watcher.mark_saved(account_id=row.id)
    assert [status(row) for row in rows.values()] == [
        ("stopping", ""),
        ("stopping", ""),
        ("stopped", "x"),
        ("other", "x"),
    ]
    _, changed = account_watcher.look()
    assert [row.name for row in changed] == ["running", "error"]


def test_an_account_without_a_platform_is_not_marked_when_it_is_saved(platform: Platform) -> None:
    row = ChannelAccount.objects.create(channel="http", status="stopped", status_text="x")
    account_watcher.mark_saved(account_id=row.id)
    assert status(row) == ("stopped", "x")


def test_an_account_that_is_saved_while_its_channel_cannot_be_loaded_is_told_later(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = ChannelAccount.objects.create(channel="pigeon", status="running", status_text="x")
    monkeypatch.setattr(registry, "installed", lambda: Installed(broken={"pigeon": "No module."}))
    account_watcher.mark_saved(account_id=row.id)
    assert status(row) == ("starting", "")


def test_saving_releases_the_deliveries_of_the_account(platform: Platform) -> None:
    row = create("a")
    delivery = held(row)
    account_watcher.mark_saved(account_id=row.id)
    assert of(row).deliveries_held == ""
    assert is_due(delivery)


def test_a_pending_change_of_a_channel_that_was_removed_stays(
    clock: Clock, platform: Platform, first: Gateways
) -> None:
    """The accounts of other channels are looked after."""
    row, other = ChannelAccount.objects.create(channel="removed"), create("b")
    change(row, status="starting")
    clock.look(first)
    assert status(row) == ("starting", "")
    assert status(other) == ("running", "polling")


def test_one_worker_of_several_takes_a_change(platform: Platform) -> None:
    rows = {name: create(name) for name in ("starting", "stopping", "other")}
    for name, row in rows.items():
        status_now = "stopping" if name == "stopping" else "starting"
        change(row, status=status_now, status_text="x", enabled=name != "stopping")
    for name in ("starting", "stopping"):
        row = of(rows[name])
        taken = [account_watcher.take_change(row, worker=each) for each in ("one", "two")]
        assert [each is not None for each in taken] == [True, False]
        assert status(row) == (name, "…")
        assert of(row).poller == "one"
        left = of(row).poller_until
        assert left is not None
        assert timedelta(seconds=20) < left - transactions.now() <= timedelta(seconds=25)
        ended = partial(account_watcher.end_change, account_id=row.id, status="error", again=False)
        ended(worker="two", text="x")
        assert status(row) == (name, "…")
        ended(worker="one", text="y" * 600)
        assert status(row) == ("error", "y" * 500)
        assert (of(row).poller, of(row).poller_until) == ("", None)
        assert account_watcher.take_change(row, worker="one") is None
    assert status(rows["other"]) == ("starting", "x")
    assert of(rows["other"]).poller == ""


@pytest.mark.parametrize("name", ["one", "x" * 600])
def test_a_status_is_shown_unless_a_change_is_pending(platform: Platform, name: str) -> None:
    rows = [create(each) for each in ("a", "b", "c", "d")]
    for row, before in zip(rows, ("stopped", "starting", "stopping", "error"), strict=True):
        change(row, status=before)
    for row in rows[:3]:
        account_watcher.show(account_id=row.id, status="running", text=name)
    assert [status(row) for row in rows] == [
        ("running", name[:500]),
        ("starting", ""),
        ("stopping", ""),
        ("error", ""),
    ]


def test_accounts_that_are_not_polled_are_checked_once_a_minute(
    clock: Clock, platform: Platform, first: Gateways
) -> None:
    """Each worker does, for none knows of the others."""
    rows = [create("a", mode="webhook"), create("b", mode="webhook"), create("c")]
    change(rows[1], enabled=False)
    platform.health = Health(facts={"pending": 7})
    clock.look(first, first)
    assert platform.calls == {"poll": {"c": 1}, "check": {"a": 1}}
    assert status(rows[0]) == ("running", "")
    assert [of(row).health for row in rows] == [{"pending": 7}, {}, {}]
    clock.now += 59.9
    clock.look(first)
    assert platform.calls["check"] == {"a": 1}
    clock.now += 0.1
    clock.look(first)
    assert platform.calls["check"] == {"a": 2}


def test_a_polled_account_whose_deliveries_are_held_is_checked_and_released(
    clock: Clock, platform: Platform, first: Gateways
) -> None:
    row, other = create("a"), create("b")
    delivery = held(row)
    change(other, deliveries_held="refused")
    platform.errors["check"] += [refusal(), refusal()]
    clock.look(first)
    assert platform.calls["check"] == {"a": 1, "b": 1}
    assert not is_due(delivery)
    change(other, deliveries_held="")
    clock.now += 60
    clock.look(first)
    assert platform.calls["check"] == {"a": 2, "b": 1}
    assert is_due(delivery)
    assert of(row).deliveries_held == ""


def test_a_problem_is_shown_until_a_check_finds_none(
    clock: Clock, platform: Platform, first: Gateways, told: User
) -> None:
    row = create("a", mode="webhook")

    def checked() -> tuple[str, str]:
        """Return the status of the account after the next check."""
        clock.now += 60
        clock.look(first)
        return status(row)

    assert checked() == ("running", "")
    platform.health = Health(problem="x" * 600, facts={"pending": 7})
    assert checked() == ("error", "x" * 500)
    assert of(row).health == {"pending": 7}
    platform.health = Health()
    assert checked() == ("running", "")
    platform.errors["check"] += [refusal(), refusal("gone")]
    assert [checked(), checked()] == [("error", "The platform refuses.")] * 2
    secrets = row.secrets
    change(row, secrets="no secret")
    assert checked() == ("error", unreadable(row))
    change(row, secrets=secrets, status_text="")
    assert checked() == ("running", "")
    assert texts() == []
    platform.errors["check"].append(refusal("auth"))
    assert checked() == ("error", "The platform refuses.")
    assert texts() == [f"{ID}/a: {notices.WORDS['auth']} (The platform refuses.)."]


def test_a_platform_has_twenty_seconds_to_answer_a_check(
    clock: Clock, platform: Platform, first: Gateways
) -> None:
    row = create("a", mode="webhook")
    platform.silent.add("check")
    look = clock.begin(first.look_after())
    clock.go_on(19.9)
    assert not look.done()
    clock.go_on(0.2)
    assert look.done()
    assert status(row) == ("error", SILENT)


def test_a_failed_delivery_and_a_check_are_one_notice_a_day(
    clock: Clock, platform: Platform, first: Gateways, told: User
) -> None:
    """Also for several workers, and after a restart."""
    row = create("a", mode="webhook")
    notices.trouble(account=row, chat="", trouble="auth", words="refused")
    platform.errors["check"] += [refusal("auth")] * 2
    clock.look(first, Gateways("new"))
    assert platform.calls["check"] == {"a": 2}
    assert len(texts()) == 1


@pytest.mark.parametrize("problem", ["", "of the check"])
def test_a_check_changes_no_state_of_an_account_that_was_disabled_or_saved_meanwhile(
    platform: Platform, problem: str
) -> None:
    rows = [create(name, mode="webhook") for name in ("disabled", "saved", "stopping", "other")]
    for row, before in zip(rows, ("stopped", "starting", "stopping", "stopped"), strict=True):
        change(row, status=before, status_text="x", enabled=before != "stopped" or row is rows[3])
    for row in rows[:3]:
        account_watcher.note(account_id=row.id, health=Health(problem, {"pending": 1}))
    shown = [("stopped", "x"), ("starting", "x"), ("stopping", "x"), ("stopped", "x")]
    assert [status(row) for row in rows] == shown
    assert [of(row).health for row in rows] == [{}, {"pending": 1}, {"pending": 1}, {}]


def test_a_check_without_a_problem_leaves_the_text_of_a_running_account(
    platform: Platform,
) -> None:
    """And releases deliveries only where some are held."""
    row = create("a", mode="webhook")
    delivery = held(row)
    change(row, status="running", status_text="prepared", deliveries_held="")
    account_watcher.note(account_id=row.id, health=Health())
    assert status(row) == ("running", "prepared")
    assert not is_due(delivery)


def test_the_looked_at_accounts_are_enabled_ones_and_those_with_a_pending_change(
    platform: Platform,
) -> None:
    rows = {name: create(name) for name in ("enabled", "disabled", "starting", "stopping")}
    for name, row in rows.items():
        change(row, status=name, enabled=name in {"enabled", "starting"})
    ChannelAccount.objects.create(channel="http")
    enabled, changed = account_watcher.look()
    assert sorted(row.name for row in enabled) == ["enabled", "starting"]
    assert sorted(row.name for row in changed) == ["starting", "stopping"]


def test_pending_updates_and_problems_are_those_of_enabled_accounts(platform: Platform) -> None:
    """In the order of the accounts, whichever was changed last."""
    rows = {name: create(name) for name in ("b", "a", "disabled", "well", "unchecked")}
    for name in ("well", "disabled", "a", "b"):
        change(
            rows[name],
            health={"pending": len(name), "last_error": ""},
            enabled=name != "disabled",
            status="running" if name == "well" else "error",
            status_text=f"the text of {name}",
        )
    change(rows["unchecked"], health={"last_error": ""})
    assert list(account_watcher.waiting().items()) == [
        (f"{ID}/b", 1),
        (f"{ID}/a", 1),
        (f"{ID}/well", 4),
    ]
    assert account_watcher.problems() == [
        f"{ID}/b: the text of b",
        f"{ID}/a: the text of a",
    ]


def test_a_test_names_the_account_and_closes_its_connections(platform: Platform) -> None:
    assert account_watcher.test_now(create("a")) == "@a"
    assert platform.closed == 1


def test_a_test_does_not_wait_for_a_silent_platform(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account_watcher, "CALL_SECONDS", 0)
    platform.silent.add("test")
    with pytest.raises(ChannelError, match="does not answer"):
        account_watcher.test_now(create("a"))
    assert platform.closed == 1


def test_an_account_without_a_platform_cannot_be_tested(platform: Platform) -> None:
    with pytest.raises(ChannelError, match="no platform"):
        account_watcher.test_now(ChannelAccount.objects.create(channel="http"))


def test_an_account_with_unreadable_secrets_cannot_be_tested(platform: Platform) -> None:
    row = create("a")
    row.secrets = "no secret"
    with pytest.raises(DecryptError):
        account_watcher.test_now(row)
