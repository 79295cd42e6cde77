"""Ways to decide about a call of a tool: a button on Telegram, a card of the web chat, the page in
the admin. Each sends what the app or the page sends, and returns the words that come back.
"""

import html
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
from websockets.sync.client import connect

from tests.channels_app.telegram.fake_api import Shown
from tests.channels_app.telegram.people import number, person
from tests.journeys.conftest import Installation
from tests.servers import wait_until

LABELS = {"once": "Allow", "deny": "Deny"}
CSRF = re.compile(r'name="csrfmiddlewaretoken" value="(\w+)"')
DIGEST = re.compile(r'name="digest" value="(\w+)"')
PAGE = re.compile(r"/admin/core/toolcall/\d+/decide/")
# How a socket is told what others have decided.
OF_OTHERS = ("✓ Allowed.", "✗ Denied.")


@dataclass(frozen=True)
class Decider:
    """Somebody with a Telegram id and a browser that is signed in."""

    running: Installation
    telegram: int
    browser: httpx.Client


@dataclass(frozen=True)
class Question:
    """A question as the owner got it: the message, and the address of its page in the admin."""

    shown: Shown
    page: str

    def data(self, choice: str) -> str:
        """Return the data of a button."""
        buttons = [button for row in self.shown.keyboard for button in row]
        return next(
            str(each["callback_data"]) for each in buttons if each["text"] == LABELS[choice]
        )

    @property
    def call(self) -> str:
        """Return the public id of the call."""
        return self.data("once").split(":")[2]

    @property
    def digest(self) -> str:
        """Return the hash of the call, as the button has it."""
        return self.data("once").split(":")[3]


# Takes a choice, "once" or "deny"; returns what is said about it.
Decide = Callable[[str], str]


def signed_in(running: Installation, token: str) -> httpx.Client:
    """Return a browser that has opened a sign-in link and pressed its button."""
    browser = httpx.Client(base_url=running.url, timeout=60, follow_redirects=True)
    form = CSRF.search(browser.get(f"/sign-in/{token}").text)
    assert form is not None
    browser.post(f"/sign-in/{token}", data={"csrfmiddlewaretoken": form[1]}).raise_for_status()
    return browser


def page_of(owner: Decider, shown: Shown) -> str:
    """Return the address of a question's page, as the owner's list of calls links it."""
    call = Question(shown, "").call
    found = PAGE.search(owner.browser.get("/admin/core/toolcall/", params={"q": call}).text)
    assert found is not None
    return found[0]


def on_telegram(who: Decider, question: Question) -> Decide:
    """Return how a button is tapped."""

    def decide(choice: str) -> str:
        tap = str(number())
        shown = {"message_id": question.shown.id, "date": 1}
        place = {"chat": {"id": who.telegram, "type": "private"}}
        press = {"id": tap, "from": person(who.telegram), "chat_instance": "1"}
        press |= {"data": question.data(choice), "message": shown | place}
        who.running.happens({"update_id": number(), "callback_query": press})

        def lines() -> list[str]:
            calls = who.running.api.of("answerCallbackQuery")
            mine = [each for each in calls if str(each.params["callback_query_id"]) == tap]
            return [each.params["text"] for each in mine]

        wait_until(lines, what="the answer to the tap")
        return lines()[0]

    return decide


def in_web_chat(who: Decider, question: Question) -> Decide:
    """Return how a button of a card is pressed."""

    def decide(choice: str) -> str:
        cookies = "; ".join(f"{each.name}={each.value}" for each in who.browser.cookies.jar)
        with connect(
            f"{who.running.url.replace('http', 'ws', 1)}/ws",
            additional_headers={"Cookie": cookies, "Origin": who.running.url},
            proxy=None,
        ) as socket:
            frame = {"type": "decide", "tool_call": question.call, "digest": question.digest}
            socket.send(json.dumps(frame | {"choice": choice}))
            while True:
                answer: dict[str, Any] = json.loads(socket.recv(timeout=60))
                if answer["type"] == "error":
                    return json.dumps(answer)
                is_about_it = answer.get("tool_call") == question.call and answer.get("decided")
                if is_about_it and not answer["text"].endswith(OF_OTHERS):
                    return str(answer["text"])

    return decide


def in_admin(who: Decider, question: Question) -> Decide:
    """Return how a button of the call's page is pressed, which is opened now."""
    opened = who.browser.get(question.page).text
    digest = DIGEST.search(opened)
    form = CSRF.search(opened)
    token = form[1] if form is not None else who.browser.cookies.get("csrftoken", "")
    fields = {
        "csrfmiddlewaretoken": token,
        "digest": digest[1] if digest is not None else question.digest,
    }

    def decide(choice: str) -> str:
        answer = who.browser.post(question.page, data=fields | {"choice": choice})
        return f"{answer.status_code} {html.unescape(answer.text)}"

    return decide


PLACES = {"telegram": on_telegram, "web chat": in_web_chat, "admin": in_admin}
# The answer to a guest.
REFUSED = {"telegram": "Only the owner can decide.", "web chat": '"status": 404', "admin": "404"}
