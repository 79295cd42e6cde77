"""Long polling, 409, health, and accounts that are switched while everything runs."""

from datetime import timedelta

import pytest
from django.utils import timezone

from channels_app.base import Account, ChannelError, Health
from channels_app.ops import health
from channels_app.telegram import bot_api
from channels_app.worker import account_watcher
from channels_app.worker.runner import Runner
from core.models import ChannelAccount, InboundMessage
from tests.channels_app.running import telegram_account, until
from tests.channels_app.telegram.local import Local
from tests.channels_app.telegram.people import message

pytestmark = pytest.mark.django_db(transaction=True)


def polled(local: Local) -> ChannelAccount:
    """Create a third bot, without a public address."""
    row = telegram_account(base=local.api.base, name="polled", mode="polling")
    local.tokens["polled"] = row.open_secrets()["token"]
    return row


def test_a_polled_bot_answers_like_any_other_and_confirms_after_the_commit(
    runner: Runner, local: Local
) -> None:
    polled(local)
    token = local.tokens["polled"]
    updates = [message(f"number {number}", user=556) for number in range(3)]
    with local.api.lock:
        local.api.waiting[token] = list(updates)
    said = "number 0\nnumber 1\nnumber 2"
    until(lambda: "\n".join(local.texts(556, account="polled")) == said)
    # The next call confirms the committed updates: Telegram deletes them.
    until(lambda: local.api.waiting[token] == [])
    assert ChannelAccount.objects.get(name="polled").status == "running"


def test_an_update_that_comes_twice_is_answered_once(runner: Runner, local: Local) -> None:
    polled(local)
    update = message("only once", user=556)
    with local.api.lock:
        local.api.waiting[local.tokens["polled"]] = [update, dict(update)]
    until(lambda: local.texts(556, account="polled") == ["only once"])
    assert InboundMessage.objects.count() == 1


def test_updates_are_confirmed_when_their_ids_go_on_at_a_lower_number(
    runner: Runner, local: Local
) -> None:
    """Telegram chooses another number after a week without updates. With the old one it would give
    the same updates again at once, for ever, and none after the first hundred."""
    polled(local)
    waiting = local.api.waiting.setdefault(local.tokens["polled"], [])
    for number, text in ((900, "before"), (7, "after a week")):
        with local.api.lock:
            waiting.append({**message(text, user=556), "update_id": number})
        until(lambda said=text: local.texts(556, account="polled")[-1:] == [said])
        until(lambda: not waiting)


def test_rc9_409_is_shown_and_not_fought(runner: Runner, local: Local) -> None:
    local.say("I am the owner", user=555)
    row = polled(local)
    token = local.tokens["polled"]
    local.api.webhooks[token] = {"url": "https://elsewhere.example/hook"}
    until(lambda: "Conflict" in ChannelAccount.objects.get(id=row.id).status_text)
    until(lambda: any("Another program fetches" in each for each in local.texts(555)))
    assert "Conflict" in " ".join(account_watcher.problems())
    calls = local.api.polls.get(token, 0)
    assert calls <= 1


def test_disabling_stops_the_poller_without_a_restart(runner: Runner, local: Local) -> None:
    row = polled(local)
    until(lambda: local.api.polls.get(local.tokens["polled"], 0) >= 1)
    ChannelAccount.objects.filter(id=row.id).update(enabled=False)
    account_watcher.mark_saved(account_id=row.id)
    until(lambda: ChannelAccount.objects.get(id=row.id).status == "stopped")
    until(lambda: ChannelAccount.objects.get(id=row.id).poller == "")
    assert row.id not in runner._gateways.pollers


def test_saving_sets_the_webhook_with_secret_and_kinds_and_drops_nothing(
    runner: Runner, local: Local
) -> None:
    row = ChannelAccount.objects.get(name="main")
    account_watcher.mark_saved(account_id=row.id)
    until(lambda: local.api.webhooks)
    given = local.api.webhooks[local.tokens["main"]]
    assert given["url"].endswith("/telegram/main/webhook")
    assert given["secret_token"] == "Whs_0123"
    assert "callback_query" in given["allowed_updates"]
    assert given["drop_pending_updates"] is False
    until(lambda: ChannelAccount.objects.get(id=row.id).status == "running")


def test_a_check_that_ends_late_does_not_swallow_a_change_that_was_saved(local: Local) -> None:
    """The check began before the account was saved: its platform still gets the change."""
    row = ChannelAccount.objects.get(name="main")
    account_watcher.mark_saved(account_id=row.id)
    account_watcher.note(account_id=row.id, health=Health())
    account_watcher.show(account_id=row.id, status="running", text="polling")
    assert [each.id for each in account_watcher.look()[1]] == [row.id]
    assert account_watcher.take_change(account_watcher.look()[1][0], worker="one")
    account_watcher.end_change(
        account_id=row.id, worker="one", status="running", text="webhook", again=False
    )
    account_watcher.note(account_id=row.id, health=Health(problem="no"))
    row.refresh_from_db()
    assert row.status == "error"


def test_telegrams_report_about_the_webhook_is_shown(runner: Runner, local: Local) -> None:
    for name in ("main", "other"):
        local.api.webhooks[local.tokens[name]] = {"url": "https://here.example"}
    local.api.webhook_info = {
        "pending_update_count": 7,
        "last_error_message": "Wrong response: 502",
        "last_error_date": 1,
    }
    # The runner may have looked before Telegram said so.
    until(lambda: "Wrong response" in ChannelAccount.objects.get(name="main").status_text)
    row = ChannelAccount.objects.get(name="main")
    assert row.status == "error"
    assert "Wrong response: 502" in row.status_text
    assert row.health["pending"] == 7
    assert any("Wrong response" in each for each in account_watcher.problems())


def test_d8_readyz_says_how_much_waits_at_a_platform_also_without_an_error(local: Local) -> None:
    """[D8] An account that was never checked, or is disabled, holds nothing back."""
    row = ChannelAccount.objects.get(name="main")
    account_watcher.note(account_id=row.id, health=Health(facts={"pending": 7, "last_error": ""}))
    problems, waiting, _ = health.readiness()
    assert waiting == {"telegram/main": 7}
    assert not any("telegram" in each for each in problems)
    ChannelAccount.objects.update(enabled=False)
    assert health.readiness()[1] == {}


def test_rw7_updates_that_were_not_answered_are_forgotten_after_a_week(
    local: Local, request: pytest.FixtureRequest
) -> None:
    """[RW7] By then Telegram repeats none; a group that changes its title all day would
    fill the table."""
    row = ChannelAccount.objects.get(name="main")
    week = timezone.now() - timedelta(days=7, seconds=1)
    for number, at in enumerate((week, timezone.now())):
        InboundMessage.objects.create(
            account=row, external_update_id=f"u{number}", state="ignored", received_at=at
        )
    InboundMessage.objects.create(account=row, state="quarantined", received_at=week)
    request.getfixturevalue("runner")
    until(lambda: InboundMessage.objects.count() == 2)
    kept = InboundMessage.objects.order_by("id").values_list("external_update_id", "state")
    assert list(kept) == [("u1", "ignored"), ("", "quarantined")]


def test_rc9_a_webhook_that_another_deployment_took_is_shown(
    local: Local, request: pytest.FixtureRequest
) -> None:
    """[RC9] Two deployments with one token: the one that lost the webhook reports it."""
    local.api.webhooks[local.tokens["main"]] = {"url": "https://other.example/hook"}
    request.getfixturevalue("runner")  # begun now: its first look is at the other's address
    until(lambda: ChannelAccount.objects.get(name="main").status == "error")
    assert "Another deployment" in ChannelAccount.objects.get(name="main").status_text
    assert any("Another deployment" in each for each in account_watcher.problems())


def test_an_accounts_trouble_is_not_the_gateways(
    local: Local, request: pytest.FixtureRequest
) -> None:
    """One bot's wrong token is a number of /metrics, a notice and the owner's page; other users are
    served as before.
    """
    local.say("I am the owner", user=555, account="other")
    local.api.revoked.add(local.tokens["main"])
    request.getfixturevalue("runner")
    until(lambda: ChannelAccount.objects.get(name="main").status == "error")
    until(
        lambda: any("revoked in @BotFather" in each for each in local.texts(555, account="other"))
    )
    assert "revoked in @BotFather" in ChannelAccount.objects.get(name="main").status_text
    assert not any("main" in each for each in health.problems_now())
    assert b"latchkey_accounts_in_error 0.0" not in health.metrics_text()


def test_one_worker_polls_at_a_time_and_another_takes_over(local: Local) -> None:
    row = polled(local)
    assert account_watcher.hold(account_id=row.id, worker="one")
    assert not account_watcher.hold(account_id=row.id, worker="two")
    assert account_watcher.hold(account_id=row.id, worker="one")
    ChannelAccount.objects.filter(id=row.id).update(
        poller_until=timezone.now() - timedelta(seconds=1)
    )
    assert account_watcher.hold(account_id=row.id, worker="two")


def test_the_connection_test_shows_the_bot_or_telegrams_error(local: Local) -> None:
    row = ChannelAccount.objects.get(name="main")
    assert account_watcher.test_now(row).startswith("@bot900_bot")
    local.api.fail("getMe", 401, "Unauthorized")
    with pytest.raises(ChannelError, match="Unauthorized"):
        account_watcher.test_now(row)


@pytest.mark.parametrize(
    ("status", "body", "permanent", "retry_after", "unsure", "trouble"),
    [
        (429, b'{"parameters": {"retry_after": 7}}', False, 7.0, False, ""),
        (429, b'{"parameters": {"retry_after": "soon"}}', False, 1, False, ""),
        (429, b'{"parameters": {"retry_after": [7]}}', False, 1, False, ""),
        (429, b'{"parameters": {"retry_after": NaN}}', False, 1, False, ""),
        (429, b'{"parameters": {"retry_after": 1e400}}', False, 86_400, False, ""),
        (429, b'{"parameters": ["retry_after"]}', False, 1, False, ""),
        (409, b'{"description": "Conflict: terminated by other getUpdates request"}', False, None,
         False, "conflict"),
        (400, b'{"description": "Bad Request: can\'t parse entities"}', True, None, False, ""),
        (403, b'{"description": "Forbidden: bot was blocked by the user"}', True, None, False,
         "blocked"),
        (403, b'{"description": "Forbidden: the group chat was deleted"}', True, None, False,
         "chat_not_found"),
        (400, b'{"description": "Bad Request: not enough rights to send photos to the chat"}', True,
         None, False, ""),
        (400, b'{"description": "Bad Request: not enough rights to send documents to the chat"}',
         True, None, False, "too_large"),
        (400, b'{"description": "Bad Request: not enough rights to send text messages to the chat"}'
         , True, None, False, "kicked"),
        (400, b'{"description": "Bad Request: wrong file_id or the file is temporarily unavailable"'
         b"}", False, None, False, ""),
        (500, b"oops", False, None, False, ""),
        (502, b"<html>", False, None, True, ""),
        (401, b"[", True, None, False, "auth"),
    ],
)  # fmt: skip
def test_the_meaning_of_each_refusal(
    status: int,
    body: bytes,
    permanent: bool,
    retry_after: float | None,
    unsure: bool,
    trouble: str,
) -> None:
    error = bot_api.refusal(status, body, token="1:secret")
    assert (error.permanent, error.retry_after, error.unsure, error.trouble) == (
        permanent,
        retry_after,
        unsure,
        trouble,
    )


def test_an_error_never_repeats_the_token() -> None:
    said = b'{"description": "Not Found: /bot123:abcdefgh/sendMessage"}'
    assert "abcdefgh" not in str(bot_api.refusal(404, said, token="123:abcdefgh"))
    account = Account(1, "telegram", "x", {"api_base": "http://127.0.0.1:1"}, {"token": "9:canary"})
    assert "canary" not in repr(account)
