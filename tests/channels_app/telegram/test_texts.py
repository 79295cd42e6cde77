"""[T2], [T4], [T5]: texts at every endpoint of a running gateway, whose model repeats them.

Plain text arrives byte for byte, Markdown unchanged where clients render it; a text that would show
nothing is sent as written; while an answer grows no marker is visible and no full message changes.
"""

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from tests.channels_app.telegram.conftest import FAST
from tests.channels_app.telegram.fake_api import FakeBotApi
from tests.channels_app.telegram.people import Bots
from tests.gateways import Gateway
from tests.servers import wait_until

pytestmark = pytest.mark.slow
KEY = """
from allowlist import keys
from core.models import User
print(keys.create(name="k", user=User.objects.get(is_owner=True), scopes=["chat", "inbound"])[1])
"""
PLAIN = (
    "src/**/*.ts and user__name__field",
    "MY__VAR__NAME (*_*) 10*20*30 = 6000",
    "call __init__ at C:\\temp\\*.log",
    "I can`t, f**k off, s**t",
)
MARKDOWN = "**Volume:** 10*20*30 = 6000, see `a_b` and 10<sup>6</sup>"
NOTHING = ("<!-- nothing to see -->", "```\n```")
LONG = "\n\n".join(
    f"{number}. **Point {number}** with `code`, see [the page](https://example.com/{number}): "
    + "some words about it " * 12
    for number in range(24)
)


def ask(gateway: Gateway, key: str, path: str, body: dict[str, Any] | None = None) -> str:
    """Return the body of an endpoint's answer."""
    request = Request(  # noqa: S310
        f"{gateway.base_url}{path}",
        data=json.dumps(body).encode() if body is not None else None,
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    with urlopen(request, timeout=60) as answer:  # noqa: S310
        return str(answer.read().decode())


@pytest.fixture(scope="module")
def bots(
    module_gateways: Callable[..., Gateway],
    api: FakeBotApi,
    tmp_path_factory: pytest.TempPathFactory,
) -> Bots:
    """Start a gateway whose other channels want plain text, and a bot."""
    script = tmp_path_factory.mktemp("script") / "script.json"
    rule = {"match": "^long", "steps": [{"text": LONG, "tokens_per_second": 250}]}
    script.write_text(json.dumps([rule]))
    gateway = module_gateways(**FAST, LLM_SCRIPT=str(script), OUTBOUND_MARKDOWN_FORMAT="plain")
    found = Bots(gateway, api)
    found.add("main", people=[{"name": "owner", "id": 556, "owner": True}])
    return found


@pytest.fixture(scope="module")
def key(bots: Bots) -> str:
    """Return the owner's key at the module's gateway."""
    return bots.gateway.manage("shell", "-v", "0", "-c", KEY).split()[-1]


def texts_of(gateway: Gateway, key: str, said: str) -> dict[str, tuple[str, str]]:
    """Return (text, format) of an answer at each endpoint for programs."""
    asked: dict[str, Any] = {"user_id": "x", "text": said}
    whole = json.loads(ask(gateway, key, "/inbound", asked))
    events = ask(gateway, key, "/inbound", asked | {"stream": True})
    done = next(
        frame
        for frame in map(json.loads, re.findall(r"^data: (.*)$", events, re.MULTILINE))
        if frame["event"] == "done"
    )
    completion = json.loads(
        ask(
            gateway,
            key,
            "/v1/chat/completions",
            {"model": "default", "messages": [{"role": "user", "content": said}]},
        )
    )
    path = f"/api/sessions/{quote(whole['session_id'])}/messages"
    stored = [m for m in json.loads(ask(gateway, key, path))["results"] if m["role"] != "user"]
    return {
        "/inbound": (whole["text"], whole["format"]),
        "/inbound, streamed": (done["text"], done["format"]),
        "/v1": (completion["choices"][0]["message"]["content"], whole["format"]),
        "/api": (stored[0]["text"], whole["format"]),
    }


def test_t2_plain_answers_arrive_byte_for_byte_and_markdown_raw(bots: Bots, key: str) -> None:
    """[T2], [T4]: no invisible character, at no endpoint; the store keeps what was written."""
    for said in (*PLAIN, MARKDOWN):
        shape = "markdown" if said == MARKDOWN else "plain"
        for endpoint, found in texts_of(bots.gateway, key, said).items():
            assert found == (said, shape), endpoint


def arrives(bots: Bots, text: str) -> None:
    """Wait until the bot has sent exactly this."""
    wait_until(lambda: text in bots.texts(556))


def test_t5_telegram_shows_every_character_and_numbers_stay(bots: Bots) -> None:
    """[T2], [T5]."""
    for said in PLAIN:
        bots.say(said, user=556)
        arrives(bots, said)
    bots.say(MARKDOWN, user=556)
    wait_until(lambda: "Volume: 10*20*30 = 6000, see a_b and 10⁶" in bots.texts(556))


def test_t5_an_answer_that_shows_nothing_is_sent_as_it_was_written(bots: Bots) -> None:
    """[T5]: never no message at all."""
    for said in NOTHING:
        bots.say(said, user=556)
        arrives(bots, said)


def test_c5_a_long_answer_grows_without_markers_and_full_messages_stay(bots: Bots) -> None:
    """[T6]: each visible state of each message."""
    before = len(bots.texts(556))
    bots.say("long", user=556)
    wait_until(lambda: "23. Point 23 with" in bots.texts(556)[-1])
    first, second = bots.api.shown(bots.tokens["main"], 556)[before:]
    states = [*first.history, *second.history]
    assert len(states) > 4
    assert not [text for text in states if re.search(r"\*\*|\]\(|`|\[", text)]
    began = [call.params.get("text") for call in bots.api.calls].index(second.history[0])
    edits = [each for each in bots.api.calls[began:] if each.method == "editMessageText"]
    ours = [each for each in edits if str(each.params["message_id"]) == str(first.id)]
    assert {each.params["text"] for each in ours} <= {first.text}
