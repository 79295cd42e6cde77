"""The owner's desk in a real browser: a stranger knocks and is let in [A3] [A5] [A6] [A7]."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Seen
from tests.gateways import Gateway
from tests.pipeline.client import people

pytestmark = pytest.mark.slow
Visit = Callable[..., tuple[Page, Seen]]


@pytest.mark.parametrize("width", [1400, 390])
def test_a7_a_stranger_knocks_is_approved_in_the_admin_and_what_was_held_is_answered(
    visit: Visit, gateway: Gateway, width: int
) -> None:
    bridge = people(gateway, number=0)[-1]
    stranger = f"eve-{width}@example.org"
    refused = bridge.say("May I come in?", user_id=stranger)
    assert (refused.status, refused.body["error"]) == (401, "Permission denied")
    page, seen = visit(
        gateway,
        "/admin/allowlist/unknownrequest/",
        viewport={"width": width, "height": 800},
    )
    row = page.locator("#result_list tbody tr").filter(has_text=stranger)
    expect(row).to_contain_text("May I come in?")
    row.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator("body")).to_contain_text("Approved by Ada Lovelace")
    page.goto(f"{gateway.base_url}/admin/core/chatsession/?q=May+I+come+in")
    session = page.locator("#result_list tbody tr").filter(has_text="May I come in?").first
    session.get_by_role("link").first.click()
    for _ in range(20):  # the held message runs within seconds; the page does not push
        if page.get_by_text("May I come in?").count() >= 2:
            break
        page.wait_for_timeout(500)
        page.reload()
    assert page.get_by_text("May I come in?").count() >= 2  # the question, and the echo of it
    assert bridge.say("And again", user_id=stranger).body["text"] == "And again"
    assert seen.problems == []
