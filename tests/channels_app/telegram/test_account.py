"""Accounts in the admin and by command, and Telegram's reports about chats."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from channels_app.worker.runner import Runner
from core.models import ChannelAccount, Delivery, InboundMessage, StoredFile, User
from tests.channels_app.admin.conftest import opened
from tests.channels_app.running import until
from tests.channels_app.telegram.local import Local
from tests.channels_app.telegram.people import Params, message, number, person

pytestmark = pytest.mark.django_db(transaction=True)
TOKEN = f"123456:{'Z' * 34}"


@pytest.fixture
def browser(client: Client, owner: User) -> Client:
    owner.is_staff = owner.is_superuser = True
    owner.save()
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    return client


def save(browser: Client, account: ChannelAccount | None = None, **more: str) -> str:
    """Send the form of an account; return the page, empty when the account was saved."""
    data = {
        "channel": "telegram",
        "name": "new",
        "enabled": "on",
        "config": '{"mode": "polling"}',
        **more,
    }
    place = f"{account.pk}/change/" if account else "add/"
    answer = browser.post(f"/admin/core/channelaccount/{place}", data)
    return "" if answer.status_code == 302 else answer.content.decode()


def test_d6_an_account_that_lacks_something_cannot_be_enabled(browser: Client) -> None:
    assert "bot token is missing" in save(browser)
    page = save(browser, config="{}", secret_name="token", secret_value=TOKEN)
    assert "needs a webhook_secret" in page
    assert TOKEN not in page
    assert not ChannelAccount.objects.filter(channel="telegram").exists()
    assert save(browser, secret_name="token", secret_value=TOKEN) == ""
    row = ChannelAccount.objects.get(channel="telegram")
    assert (row.status, row.open_secrets()) == ("starting", {"token": TOKEN})
    assert TOKEN not in browser.get(f"/admin/core/channelaccount/{row.pk}/change/").content.decode()


def test_c1_a_bot_is_made_in_one_go_by_the_fields_of_its_channel(browser: Client) -> None:
    """[C1] [D6] First the channel, then its fields; the webhook's secret is generated, kept when
    the form is saved again, and never shown.
    """
    add = "/admin/core/channelaccount/add/"
    chooser = browser.get(add).content.decode()
    assert "?channel=telegram" in chooser
    assert "?channel=bridge" in chooser
    assert "?channel=memory" not in chooser
    page = browser.get(f"{add}?channel=telegram").content.decode()
    for said in ("Bot token", "From @BotFather.", "the gateway generates one", "Bot API server"):
        assert said in page
    fields = {"field_token": TOKEN, "field_webhook_secret": "", "field_mode": "webhook"}
    assert save(browser, None, config="{}", **fields, field_denied_reply=" Not today. ") == ""
    row = ChannelAccount.objects.get(channel="telegram")
    assert row.config == {"mode": "webhook", "denied_reply": "Not today."}
    secrets = row.open_secrets()
    assert secrets["token"] == TOKEN
    assert len(secrets["webhook_secret"]) >= 32
    assert row.status == "starting"
    page = browser.get(f"/admin/core/channelaccount/{row.pk}/change/").content.decode()
    assert "Not today." in page
    assert TOKEN not in page
    assert secrets["webhook_secret"] not in page
    empty = {"field_token": "", "field_webhook_secret": "", "field_mode": "polling"}
    changed = {"channel": "memory", "config": '{"username": "x_bot"}', "field_denied_reply": ""}
    assert save(browser, row, **empty, **changed) == ""
    row.refresh_from_db()
    assert row.channel == "telegram"
    assert row.config == {"mode": "polling", "username": "x_bot"}
    assert row.open_secrets() == secrets


def test_a_token_of_another_enabled_account_is_refused_beside_its_field(
    browser: Client, local: Local
) -> None:
    """Two accounts with one bot would take each other's messages."""
    fields = {"config": "{}", "field_webhook_secret": "", "field_mode": "polling"}
    page = save(browser, None, **fields, field_token=local.tokens["main"])
    field, _, rest = page.partition("telegram/main has the same bot token: disable one of the two")
    assert rest
    assert field.rindex("field-field_token") > field.rfind("field-field_mode")
    assert not ChannelAccount.objects.filter(name="new").exists()
    assert save(browser, None, **fields, field_token=local.tokens["main"], enabled="") == ""
    ChannelAccount.objects.filter(name="main").update(enabled=False)
    again = ChannelAccount.objects.get(name="new")
    assert save(browser, again, **fields, field_token="") == ""


def test_the_token_of_another_bot_is_refused_once_there_are_messages(
    browser: Client, local: Local
) -> None:
    """Its messages in a chat are counted anew from 1: those with the number of an old one would be
    passed over as repeated."""
    row = ChannelAccount.objects.get(name="main")
    fields = {"name": "main", "config": "{}", "field_webhook_secret": "", "field_mode": "polling"}
    assert save(browser, row, **fields, field_token=f"900:{'R' * 34}") == ""
    other = f"901:{'O' * 34}"
    InboundMessage.objects.create(
        account=row, chat="556", external_message_id="7", received_at="2026-01-01T00:00Z"
    )
    for enabled in ("on", ""):
        page = save(browser, row, **fields, field_token=other, enabled=enabled)
        assert "another account at the platform" in page
    row.refresh_from_db()
    assert row.open_secrets()["token"] == f"900:{'R' * 34}"
    assert save(browser, row, **fields, field_token=f"900:{'N' * 34}") == ""


def test_an_account_that_is_deleted_leaves_no_webhook(browser: Client, local: Local) -> None:
    """Another program could not fetch the messages of the bot."""
    for name, status in (("main", 200), ("other", 401)):
        row = ChannelAccount.objects.get(name=name)
        token = local.tokens[name]
        ChannelAccount.objects.filter(pk=row.pk).update(status="running")
        local.api.webhooks[token] = {"url": "x"}
        if status != 200:
            local.api.fail("deleteWebhook", status, "Unauthorized")
        place = f"/admin/core/channelaccount/{row.pk}/delete/"
        page = browser.post(place, {"post": "yes"}, follow=True).content.decode()
        assert not ChannelAccount.objects.filter(pk=row.pk).exists()
        assert (token in local.api.webhooks) is (status != 200)
        assert ("the platform was not told" in page) is (status != 200)


def test_no_success_is_claimed_before_the_platform_has_answered(browser: Client) -> None:
    """A wrong token may be saved; the status shows whether the bot works."""
    data = {"channel": "telegram", "name": "new", "enabled": "on", "config": '{"mode": "polling"}'}
    given = {**data, "secret_name": "token", "secret_value": TOKEN}
    page = browser.post("/admin/core/channelaccount/add/", given, follow=True).content.decode()
    assert "added successfully" not in page
    assert "A worker asks the platform within seconds whether it accepts this" in page


def test_c1_secrets_that_cannot_be_opened_are_given_anew(browser: Client, local: Local) -> None:
    """[C1] Secrets that a wrong key hides are not replaced by generated ones."""
    row = ChannelAccount.objects.get(name="main")
    ChannelAccount.objects.filter(id=row.id).update(secrets="garbage")
    fields = {"name": "main", "config": "{}", "field_webhook_secret": "", "field_mode": "polling"}
    assert "bot token is missing" in save(browser, row, **fields, field_token="")
    assert save(browser, row, **fields, field_token="", enabled="") == ""
    row.refresh_from_db()
    assert row.secrets == "garbage"
    assert save(browser, row, **fields, field_token=TOKEN) == ""
    row.refresh_from_db()
    assert row.open_secrets() == {"token": TOKEN}


def test_an_account_page_shows_the_platforms_report_and_tests_it(
    browser: Client, local: Local
) -> None:
    """Issue 5, items 1 and 3: pending count and last error in the admin, and the button."""
    row = ChannelAccount.objects.get(name="main")
    row.health = {"pending": 7, "last_error": "Connection refused", "last_error_at": 1_790_000_000}
    row.save()
    place = f"/admin/core/channelaccount/{row.pk}/"
    for page in (f"{place}change/", "/admin/core/channelaccount/"):
        html = browser.get(page).content.decode()
        assert "pending: 7, last error: Connection refused, last error at: 2026-09-21" in html
    assert f"{place}test/" in browser.get(f"{place}change/").content.decode()
    assert browser.get(f"{place}test/").status_code == 405
    assert "@bot900_bot" in browser.post(f"{place}test/", follow=True).content.decode()
    assert browser.post("/admin/core/channelaccount/999999/test/").status_code == 404


def test_the_button_tests_the_connection(browser: Client, local: Local) -> None:
    rows = ChannelAccount.objects.filter(name="main")
    data = {"action": "test_connection", "_selected_action": [row.pk for row in rows]}
    page = browser.post("/admin/core/channelaccount/", data, follow=True).content.decode()
    assert "@bot900_bot" in page
    local.api.fail("getMe", 401, "Unauthorized")
    page = browser.post("/admin/core/channelaccount/", data, follow=True).content.decode()
    assert "Unauthorized" in page


def test_the_command_sets_shows_and_deletes_the_webhook(local: Local) -> None:
    def run(verb: str, account: str = "main") -> str:
        out = StringIO()
        call_command("telegram_webhook", verb, account, stdout=out)
        return out.getvalue()

    assert "The webhook is not set" in run("info")
    assert "/telegram/main/webhook" in run("set")
    assert local.api.webhooks[local.tokens["main"]]["secret_token"] == "Whs_0123"
    assert "The webhook works" in run("info")
    assert "keeps pending updates" in run("delete")
    assert not local.api.webhooks
    with pytest.raises(CommandError, match="no Telegram account"):
        run("info", "nobody")
    local.api.fail("getWebhookInfo", 401, "Unauthorized")
    with pytest.raises(CommandError, match="Unauthorized"):
        run("info")
    ChannelAccount.objects.filter(name="main").update(secrets="of another key")
    with pytest.raises(CommandError, match="cannot be opened"):
        run("info")


def test_c8_a_webhook_is_set_where_the_menu_of_commands_is_refused(local: Local) -> None:
    """Telegram limits how often a menu is set: after some changes no message would have come."""
    local.api.fail("setMyCommands", 429, "Too Many Requests: retry after 99", retry_after=99)
    call_command("telegram_webhook", "set", "main", stdout=StringIO())
    assert local.tokens["main"] in local.api.webhooks


def test_c8_the_menu_of_commands_is_in_each_language(local: Local) -> None:
    call_command("telegram_webhook", "set", "main", stdout=StringIO())
    menus = {
        call.params.get("language_code", ""): call.params["commands"]
        for call in local.api.of("setMyCommands")
    }
    assert set(menus) == {"", "de", "fr", "es", "zh", "ja"}
    stops = {
        code: next(each["description"] for each in menu if each["command"] == "stop")
        for code, menu in menus.items()
    }
    assert stops[""] == "Stop the answer that is being written"
    assert stops["de"] == "Die Antwort anhalten, die gerade entsteht"
    assert len(set(stops.values())) == len(menus)


def test_a_bot_that_is_blocked_or_removed_tells_the_owner_once(
    runner: Runner, local: Local
) -> None:
    local.say("so am I", user=556)
    local.say("I am here", user=555)
    until(lambda: local.texts(555) == ["I am here"])
    for _ in range(3):
        change = {
            "chat": {"id": 556, "type": "private"},
            "from": person(556),
            "date": 1,
            "new_chat_member": {"status": "kicked", "user": person(900)},
        }
        assert (
            local.post({"update_id": number(), "my_chat_member": change})[1]["outcome"] == "blocked"
        )
    until(lambda: len(local.texts(555)) == 2)
    assert "has blocked the bot" in local.texts(555)[1]
    change = {**change, "new_chat_member": {"status": "member", "user": person(900)}}
    joined = local.post({"update_id": number(), "my_chat_member": change})
    assert joined[1]["outcome"] == "membership"


def test_rq13_an_unknown_senders_chats_cause_no_notice(local: Local) -> None:
    """[RQ13] [RW17] Any user may make groups, add the bot and remove it, all day."""
    local.say("I am here", user=555)
    sent = Delivery.objects.count()
    for group in range(3):
        change = {
            "chat": {"id": -100_777 - group, "type": "supergroup"},
            "from": person(4711),
            "date": 1,
            "new_chat_member": {"status": "kicked", "user": person(900)},
        }
        assert (
            local.post({"update_id": number(), "my_chat_member": change})[1]["outcome"] == "kicked"
        )
    assert Delivery.objects.count() == sent


def test_c6_a_document_is_fetched_kept_and_named(runner: Runner, local: Local) -> None:
    local.api.files["files/doc1"] = b"hello file"
    document = {"file_id": "doc1", "file_name": "notes.txt", "mime_type": "text/plain"}
    local.post(message(user=556, document=document, caption="read"))
    until(lambda: local.texts(556))
    stored = StoredFile.objects.get()
    assert local.texts(556) == [
        f"[document message received]\nName: notes.txt\nFile: /files/{stored.public_id}\n"
        'Type: text/plain\nText: <quoted sender="notes.txt">\nhello file\n</quoted>\nCaption: read'
    ]
    assert InboundMessage.objects.get().media[0]["file"] == stored.public_id


def test_c6_a_file_over_20_mb_is_not_fetched(runner: Runner, local: Local) -> None:
    video = {"file_id": "v", "file_size": 30 * 1024 * 1024, "duration": 9}
    local.post(message(user=556, video=video))
    until(lambda: local.texts(556))
    assert "30 MB; at most 20 MB" in local.texts(556)[0]
    assert not local.api.of("getFile")


def test_c6_a_file_that_telegram_does_not_give_is_told_in_words(
    runner: Runner, local: Local
) -> None:
    local.post(message(user=556, voice={"file_id": "nope", "duration": 2}))
    until(lambda: local.texts(556))
    assert local.texts(556)[0].startswith("[Failed to process audio]")


def test_an_album_is_answered_once(runner: Runner, local: Local) -> None:
    for place in range(3):
        local.api.files[f"files/p{place}"] = b"jpeg"
        caption: Params = {"caption": "three cats"} if place == 0 else {}
        photo = [{"file_id": f"p{place}", "width": 10, "height": 10}]
        local.post(message(user=556, photo=photo, media_group_id="album-1", **caption))
    until(lambda: local.texts(556))
    (text,) = local.texts(556)
    assert text.count("[image message received]") == 3
    assert text.count("three cats") == 1


def test_an_old_page_takes_back_nothing_that_it_does_not_change(browser: Client) -> None:
    """Saved in a second tab, it enabled the account again, with the settings of then."""
    fields = {"field_token": TOKEN, "field_mode": "polling", "field_denied_reply": "Not today."}
    assert save(browser, None, config='{"a": 1, "b": 2}', **fields) == ""
    row = ChannelAccount.objects.get(channel="telegram")
    sent = opened(browser, row)
    assert sent["initial-config"] == '{"a": 1, "b": 2}'
    now = {"mode": "webhook", "denied_reply": "Never.", "a": 3}
    ChannelAccount.objects.filter(pk=row.pk).update(config=now, enabled=False)
    assert save(browser, row, **{**sent, "name": "other", "field_denied_reply": "Later."}) == ""
    row.refresh_from_db()
    assert (row.name, row.enabled) == ("other", False)
    assert row.config == {"mode": "webhook", "denied_reply": "Later.", "a": 3}
    assert save(browser, row, **{**sent, "name": "other", "config": '{"b": 4}'}) == ""
    row.refresh_from_db()
    assert row.config == {"mode": "webhook", "denied_reply": "Later.", "b": 4}
    assert row.open_secrets()["token"] == TOKEN
