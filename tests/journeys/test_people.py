"""docs/channels.md and docs/unknown-senders.md on Telegram: a bot, its owner, other people."""

import base64
import io
import re

import httpx
import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.channels_app.telegram.fake_api import Shown
from tests.channels_app.telegram.people import number, person
from tests.gateway_project.processes.ups import manage
from tests.journeys.conftest import OWNER_ON_TELEGRAM, Installation, ask, sign_in
from tests.journeys.documents import block, says
from tests.journeys.model import HEARD, Rule
from tests.servers import wait_until


def request_notice(running: Installation, sender: int) -> Shown:
    """Return the owner's notice of an unknown sender on Telegram."""
    return running.hears(OWNER_ON_TELEGRAM, f"user_id={sender}")


def press(running: Installation, notice: Shown, label: str, *, by: int = OWNER_ON_TELEGRAM) -> None:
    """Tap a button of a message."""
    data = next(
        button["callback_data"]
        for row in notice.keyboard
        for button in row
        if button["text"] == label
    )
    running.happens(
        {
            "update_id": number(),
            "callback_query": {
                "id": str(number()),
                "from": person(by),
                "chat_instance": "1",
                "data": data,
                "message": {
                    "message_id": notice.id,
                    "date": 1,
                    "chat": {"id": notice.chat, "type": "private"},
                },
            },
        }
    )


def owner_is_on_telegram(running: Installation) -> None:
    """Make Telegram the owner's last-used channel."""
    words = f"I am here {number()}"
    running.writes(OWNER_ON_TELEGRAM, words)
    running.hears(OWNER_ON_TELEGRAM, f"You said: {words}")


def test_the_owner_is_answered_on_telegram(telegram: Installation) -> None:
    """docs/channels.md: 👀 on the message until it is answered, one answer, no reaction left."""
    says("docs/channels.md", "👀 is on a message from its arrival until its answer was delivered")
    telegram.model.rules.insert(0, Rule("^take your time", text="one two three four", slow=True))
    sent = telegram.writes(OWNER_ON_TELEGRAM, "take your time")
    place = (telegram.bot, OWNER_ON_TELEGRAM, sent)
    wait_until(lambda: place in telegram.api.reactions, what="the reaction")
    telegram.hears(OWNER_ON_TELEGRAM, "one two three four")
    wait_until(lambda: place not in telegram.api.reactions, what="its end")


def test_an_unknown_sender_is_approved_with_one_tap_and_held_messages_are_answered(
    telegram: Installation, sender: int
) -> None:
    """docs/unknown-senders.md, 2 to 6: a notice with four buttons, approved, answered once."""
    owner_is_on_telegram(telegram)
    telegram.writes(sender, "may I come in?")
    notice = request_notice(telegram, sender)
    labels = [button["text"] for row in notice.keyboard for button in row]
    assert labels == ["Approve", "Approve 24 h", "Deny", "Block"]
    assert telegram.shown(sender) == []
    press(telegram, notice, "Approve", by=sender)  # only the owner's tap counts
    press(telegram, notice, "Approve")
    telegram.hears(sender, "You said: may I come in?")
    wait_until(lambda: "Approved" in request_notice(telegram, sender).text, what="the verdict")
    assert request_notice(telegram, sender).keyboard == []
    telegram.writes(sender, "thank you")
    telegram.hears(sender, "You said: thank you")
    said = [each.text for each in telegram.shown(sender)]
    assert said == ["You said: may I come in?", "You said: thank you"]


@pytest.mark.parametrize("choice", ["Deny", "Block"])
def test_denied_and_blocked_senders_are_not_answered(
    telegram: Installation, sender: int, choice: str
) -> None:
    """docs/unknown-senders.md, *Decisions*: the held messages go; the owner is not told again."""
    says("docs/unknown-senders.md", "**Deny** deletes the held messages")
    owner_is_on_telegram(telegram)
    telegram.writes(sender, "and me?")
    notice = request_notice(telegram, sender)
    press(telegram, notice, choice)
    wait_until(lambda: request_notice(telegram, sender).keyboard == [], what="the verdict")
    told = len(telegram.shown(OWNER_ON_TELEGRAM))
    telegram.writes(sender, "please")
    owner_is_on_telegram(telegram)
    assert len(telegram.shown(OWNER_ON_TELEGRAM)) == told + 1
    assert telegram.shown(sender) == []


def test_an_owner_active_elsewhere_gets_the_notice_on_telegram_and_decides_by_the_card(
    page: Page, telegram: Installation, sender: int
) -> None:
    """docs/unknown-senders.md: the last-used channel cannot be written to and no window is open,
    so the notice goes to the other one; the web chat shows its card with four buttons when it is
    opened. Pressed there, the message on Telegram has no buttons any more."""
    says("docs/unknown-senders.md", "on each other channel of yours that can")
    page.goto("about:blank")
    headers = {"Authorization": f"Bearer {telegram.key('laptop')}"}
    asked = {"text": "I write from a program", "user_id": "elsewhere"}
    answer = httpx.post(f"{telegram.url}/inbound", json=asked, headers=headers, timeout=60)
    assert answer.status_code == 200
    telegram.writes(sender, "does the owner hear of me?")
    notice = request_notice(telegram, sender)
    assert "does the owner hear of me?" in notice.text
    assert len(notice.keyboard) > 0
    page.goto(telegram.url)
    card = page.locator(".notice", has_text=f"user_id={sender}")
    expect(card).to_contain_text("does the owner hear of me?")
    for label in ("Approve 24 h", "Deny", "Block"):
        expect(card.get_by_role("button", name=label, exact=True)).to_be_attached()
    card.get_by_role("button", name="Approve", exact=True).click()
    telegram.hears(sender, "You said: does the owner hear of me?")
    expect(card.get_by_role("button", name="Approve", exact=True)).to_have_count(0)
    wait_until(lambda: request_notice(telegram, sender).keyboard == [], what="the verdict")


def test_a_request_is_decided_in_a_shell(telegram: Installation, sender: int) -> None:
    """README: ``requests list``, ``requests approve ID``, ``access_check``."""
    says("README.md", "`manage.py requests list` and `… requests approve ID` do the same")
    telegram.writes(sender, "shell, please")
    listed: list[str] = []

    def is_listed() -> bool:
        listed[:] = telegram.manage("manage.py requests list").splitlines()
        return any(str(sender) in line for line in listed)

    wait_until(is_listed, what="the request")
    line = next(each for each in listed if str(sender) in each)
    identifier = next(word for word in line.split() if re.fullmatch(r"[\w-]{22}", word))
    assert "Approved" in telegram.manage(f"manage.py requests approve {identifier}")
    telegram.hears(sender, "You said: shell, please")
    asked = says("README.md", "manage.py access_check --channel telegram --id 42")
    denied = manage(*asked.split()[1:], env=telegram.up.env)
    assert (denied.returncode, "no user lists im:42" in denied.stdout) == (1, True)
    assert "allowed" in telegram.manage(asked.replace("42", str(sender)))


def test_people_come_from_a_file(telegram: Installation, tmp_path: object) -> None:
    """docs/unknown-senders.md: the import of users, its file, its command."""
    file = f"{tmp_path}/user.yml"
    with open(file, "w", encoding="utf-8") as written:  # noqa: PTH123 - the path is a string
        written.write(block("docs/unknown-senders.md", "Ada Lovelace", "yaml"))
    line = says("docs/unknown-senders.md", "manage.py import_users user.yml").replace(
        "user.yml", file
    )
    assert "nothing was changed" in telegram.manage(f"{line} --dry-run")
    assert "ada" in telegram.manage(line)
    telegram.writes(4242, "I was imported")
    telegram.hears(4242, "You said: I was imported")


def test_commands_of_a_chat(telegram: Installation) -> None:
    """[C8] Each command that ``/help`` lists works; ``/new`` forgets the earlier messages."""
    telegram.writes(OWNER_ON_TELEGRAM, "the word is heron")
    telegram.hears(OWNER_ON_TELEGRAM, "You said: the word is heron")
    for typed, words in (("/help", "/whoami"), ("/whoami", "5550"), ("/requests", "")):
        before = len(telegram.shown(OWNER_ON_TELEGRAM))
        telegram.writes(OWNER_ON_TELEGRAM, typed)
        wait_until(
            lambda before=before: len(telegram.shown(OWNER_ON_TELEGRAM)) > before,  # type: ignore[misc]
            what=typed,
        )
        assert words in telegram.shown(OWNER_ON_TELEGRAM)[-1].text
    before = len(telegram.shown(OWNER_ON_TELEGRAM))
    telegram.writes(OWNER_ON_TELEGRAM, "/new")
    wait_until(lambda: len(telegram.shown(OWNER_ON_TELEGRAM)) > before, what="a fresh start")
    telegram.writes(OWNER_ON_TELEGRAM, "what was the word?")
    telegram.hears(OWNER_ON_TELEGRAM, "You said: what was the word?")
    assert "heron" not in telegram.model.prompts()[-1]


def test_commands_typed_into_the_web_chat_are_answered_there(
    page: Page, telegram: Installation, sender: int
) -> None:
    """docs/http.md, *Commands*: in the web chat the gateway answers, not the model; an unknown
    sender is denied there by the id that ``/requests`` shows.
    """
    says("docs/http.md", "are answered by the gateway itself, here and in the web chat")
    answer = page.locator(".answer .prose").last
    ask(page, "the word is plover")
    expect(answer).to_have_text("You said: the word is plover")
    asked = len(telegram.model.asked)
    for typed, words in (("/whoami", "the owner"), ("/help", "/requests"), ("/status", "Waiting")):
        ask(page, typed)
        expect(answer).to_contain_text(words)
    telegram.writes(sender, "turn me away")

    def is_listed() -> bool:
        ask(page, "/requests")
        expect(answer).to_contain_text(re.compile(r"There are no unknown requests|×"))
        return str(sender) in answer.inner_text()

    wait_until(is_listed, what="the request")
    found = re.search(rf"([\w-]{{22}})\s+telegram {sender}", answer.inner_text())
    assert found is not None, answer.inner_text()
    ask(page, f"/deny {found[1]}")
    expect(answer).to_contain_text(re.compile("denied", re.IGNORECASE))
    assert not is_listed()
    ask(page, "/new")
    expect(answer).not_to_contain_text(re.compile(r"There are no unknown requests|×"))
    assert len(telegram.model.asked) == asked
    ask(page, "what was the word?")
    expect(answer).to_have_text("You said: what was the word?")
    assert "plover" not in telegram.model.prompts()[-1]


def test_a_voice_message_is_heard_and_a_photo_is_seen(telegram: Installation) -> None:
    """docs/settings.md: ``TRANSCRIPTION_MODEL`` hears a recording; the model is sent the photo."""
    says("docs/settings.md", "whether the model is sent pictures")
    telegram.api.files["files/voice-1"] = b"OggS" + bytes(200)
    telegram.writes(OWNER_ON_TELEGRAM, "", voice={"file_id": "voice-1", "duration": 2})
    telegram.hears(OWNER_ON_TELEGRAM, HEARD)
    assert b"OggS" in telegram.model.heard[-1]
    picture = io.BytesIO()
    Image.new("RGB", (40, 30), "red").save(picture, "JPEG")
    telegram.api.files["files/photo-1"] = picture.getvalue()
    photo = [{"file_id": "photo-1", "width": 40, "height": 30}]
    telegram.writes(OWNER_ON_TELEGRAM, "", photo=photo, caption="which colour is it?")
    telegram.hears(OWNER_ON_TELEGRAM, "which colour is it?")
    content = telegram.model.asked[-1]["messages"][-1]["content"]
    seen = [each["image_url"]["url"] for each in content if each["type"] == "image_url"]
    assert len(seen) == 1
    sent = Image.open(io.BytesIO(base64.b64decode(seen[0].partition(",")[2])))
    red, green, _blue = sent.convert("RGB").getpixel((20, 15))  # type: ignore[misc]
    assert (red > 200, green < 60) == (True, True)


def test_a_rotated_token_is_taken_without_a_restart(page: Page, telegram: Installation) -> None:
    """docs/channels.md: revoked at @BotFather, the new one pasted, and the bot answers."""
    says("docs/channels.md", "A change of any field takes effect within seconds, without a restart")
    telegram.api.revoked.add(telegram.bot)
    place = f"{telegram.url}/admin/core/channelaccount/?q=bot"

    def status() -> str:
        page.goto(place)
        return page.locator("#result_list, table").first.inner_text()

    wait_until(lambda: "does not accept the bot token" in status(), what="the error")
    old = telegram.bot
    telegram.bot = f"{old.partition(':')[0]}:{'C' * 35}"  # @BotFather leaves the bot's number
    page.get_by_role("link", name="telegram/bot").first.click()
    page.locator("[name=field_token]").fill(telegram.bot)
    page.locator("[name=_save]").first.click()
    telegram.writes(OWNER_ON_TELEGRAM, "do you hear me again?")
    telegram.hears(OWNER_ON_TELEGRAM, "You said: do you hear me again?")
    wait_until(lambda: "running" in status(), what="the status")
    assert old != telegram.bot


def test_a_person_signs_in_is_switched_off_and_deleted(page: Page, telegram: Installation) -> None:
    """README: a link from the admin; switched off, what was open ends; deleted, nothing opens."""
    add = f"{telegram.url}/admin/core/user/add/"
    page.goto(add)
    page.locator("[name=username]").fill("eve")
    page.locator("[name=display_name]").fill("Eve")
    page.locator("[name=_save]").first.click()
    key = telegram.key("of-eve", "eve")
    says("README.md", "*People*, *Create a sign-in link*")
    page.goto(f"{telegram.url}/admin/core/user/?q=eve")
    page.get_by_role("link", name="Eve").first.click()
    page.get_by_role("button", name="Create a sign-in link").click()
    shown = page.get_by_text(re.compile(r"http://\S+/sign-in/[\w-]+")).first
    found = re.search(r"http://\S+/sign-in/[\w-]+", shown.inner_text())
    assert found is not None
    browser = page.context.browser
    assert browser is not None
    context = browser.new_context()
    hers = context.new_page()
    sign_in(hers, found[0])
    ask(hers, "hello from Eve")
    expect(hers.locator(".answer .prose")).to_have_text("You said: hello from Eve")
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=telegram.url, headers=headers, timeout=60) as client:
        assert client.post("/inbound", json={"text": "hi"}).status_code == 200
        page.goto(f"{telegram.url}/admin/core/user/?q=eve")
        page.get_by_role("link", name="Eve").first.click()
        page.locator("[name=is_active]").uncheck()
        page.locator("[name=_save]").first.click()
        wait_until(lambda: client.get("/v1/models").status_code == 401, what="the refusal")
        expect(hers).to_have_url(re.compile("/sign-in"))  # the open page goes there by itself
        expect(hers.get_by_label("Message", exact=True)).to_have_count(0)
        page.goto(f"{telegram.url}/admin/core/user/?q=eve")
        page.get_by_role("link", name="Eve").first.click()
        page.locator("a[href$='/delete/']").first.click()
        expect(page.locator("body")).to_contain_text("leave the disk within 25 hours")
        page.locator("form input[type=submit], form button[type=submit]").last.click()
        page.goto(f"{telegram.url}/admin/core/user/?q=eve")
        expect(page.get_by_role("link", name="Eve")).to_have_count(0)
        assert client.post("/inbound", json={"text": "hi"}).status_code == 401
    context.close()
