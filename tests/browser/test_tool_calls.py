"""A tool that waits for a yes, in a real browser: decided on a phone (V67)."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Seen, fits, shell
from tests.gateways import Gateway

pytestmark = pytest.mark.slow
OpenPage = Callable[..., tuple[Page, Seen]]
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
# A paused run of Ben's; the owner has no channel, so the question comes to open web chats.
ASK = """
from channels_app.tool_requests import asking
from core.conversations.tool_calls import Asked
from core.database.transactions import atomic_write
from core.models import ChannelAccount, ChatSession, Run, User
ben, _ = User.objects.get_or_create(username="ben", defaults={{"display_name": "Ben <b>Okri</b>"}})
account, _ = ChannelAccount.objects.get_or_create(channel="http", name="")
with atomic_write():
    session, _ = ChatSession.objects.get_or_create(user=ben, account=account, chat="1")
    run = Run.objects.create(
        session=session, user=ben, origin="http", state="succeeded", text="Mail it, please."
    )
    question = Asked("1", "send_mail", {arguments!r}, cost="about 0.02 $")
    asking.ask(run=run, messages=[], questions=[question])
print(run.tool_calls.get().pk)
"""
MAIL = (
    '{"to": "grandma@example.org", "subject": "The <script>alert(1)</script> plan", "body": '
    '"Dear grandma, the trains leave at nine, at ten and at half past eleven. Which one shall I '
    'book for you? The last one is the cheapest, and there is a window seat left."}'
)
STATE = "from core.models import ToolCall; print(ToolCall.objects.get(pk={}).state)"


def ask(gateway: Gateway, arguments: str = MAIL) -> str:
    """Ask the owner; return the call's key."""
    return shell(gateway, ASK.format(arguments=arguments))


def photograph(page: Page, name: str) -> None:
    """Keep what the window shows, light and dark, when the folder of the pictures is named."""
    folder = os.environ.get("TEST_PICTURES")
    for theme in ("light", "dark") if folder else ():
        page.evaluate(
            "theme => { document.documentElement.dataset.theme = theme;"
            "document.documentElement.classList.toggle('dark', theme === 'dark') }",
            theme,
        )
        width = page.viewport_size["width"]  # type: ignore[index]
        page.screenshot(path=Path(str(folder)) / f"tools-{name}-{width}-{theme}.png")


def test_v67_a_call_is_decided_on_a_phone(open_page: OpenPage, stage: Gateway) -> None:
    """A card comes to the open chat, in it Edit leads to the page; the decision there shows in the
    chat.
    """
    page, seen = open_page(stage, **PHONE)
    expect(page.get_by_label("Message", exact=True)).to_be_visible()
    key = ask(stage)
    card = page.locator("section.notice")
    expect(card).to_contain_text("send_mail")
    expect(card).to_contain_text("Ben <b>Okri</b>")
    expect(card.get_by_role("button", name="Allow", exact=True)).to_be_in_viewport(ratio=1)
    photograph(page, "card")
    fits(page)
    with page.expect_popup() as opened:
        card.get_by_role("link", name="Edit").click()
    admin = opened.value
    expect(admin.locator(".dashboard-arguments").first).to_contain_text("grandma@example.org")
    photograph(admin, "page")
    fits(admin)
    page_of_call = admin.url
    admin.goto(f"{stage.base_url}/admin/core/inboundmessage/")
    for shown in ("[data-dashboard-calls]", ".dashboard-allow"):
        expect(admin.locator(shown)).not_to_have_attribute("hidden", "")
    name = admin.locator("#header-inner h1 a").last
    assert name.evaluate("(it) => it.scrollWidth <= it.clientWidth")
    admin.goto(page_of_call)
    admin.get_by_text("Edit the arguments").click()
    admin.get_by_label("Arguments, a JSON object").fill('{"to": ')
    admin.get_by_role("button", name="Allow edited").click()
    expect(admin.get_by_role("alert")).to_contain_text("not valid JSON")
    photograph(admin, "problem")
    admin.get_by_label("Arguments, a JSON object").fill('{"to": "grandpa@example.org"}')
    admin.get_by_role("button", name="Allow edited").click()
    expect(admin.locator("body")).to_contain_text("arguments edited")
    photograph(admin, "decided")
    expect(card).to_contain_text("Allowed.")
    expect(card.get_by_role("button", name="Deny")).to_have_count(0)
    photograph(page, "settled")
    assert shell(stage, STATE.format(key)) == "allowed"
    assert [each for each in seen.problems if "400" not in each] == []
