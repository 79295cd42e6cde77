"""[D4]: ``POST /process`` and the callback: nothing lost, nothing twice, nothing forged."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from allowlist import keys
from allowlist.models import UnknownRequest
from channels_app.agent_sessions import sessions
from channels_app.base import Target
from channels_app.bridge import channel, signing
from channels_app.bridge.channel import CHANNEL, fetcher, message_id, post, refusal
from channels_app.delivery.sending import account_of
from channels_app.models import SeenSignature
from core.conversations import outbox
from core.lib.encryption import encrypt
from core.lib.safe_fetch import is_public, is_public_or_private
from core.models import ChannelAccount, ChatSession, Delivery, InboundMessage, Run, User
from tests.channels_app.bridge.conftest import SECRET, Bridge, Callback
from tests.channels_app.running import until

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9"
    "awAAAABJRU5ErkJggg=="
)
pytestmark = pytest.mark.usefixtures("runner", "owner")


def script(folder: Path, match: str, steps: list[Any]) -> str:
    """Write a script of the model to a file."""
    path = folder / "script.json"
    path.write_text(json.dumps([{"match": match, "steps": steps}]))
    return str(path)


def test_a_request_is_queued_and_answered_by_a_signed_callback(
    bridge: Bridge, callback: Callback
) -> None:
    """[D4] 202 with the id at once; the text is converted, ``format`` is always plain."""
    status, answer = bridge.ask(
        text="**Hi** there", request_id="r1", context="keep-me", user_name="Ada"
    )
    assert (status, answer["request_id"]) == (202, "r1")
    until(lambda: callback.got)
    (body,) = callback.got
    assert body["request_id"] == "r1"
    assert body["context"] == "keep-me"
    assert body["chat_id"] == "555"
    assert body["format"] == "plain"
    assert "*Hi*" in body["text"]
    assert "**" not in body["text"]
    assert body["session_id"] == Run.objects.get().session.public_id
    headers = callback.headers[0]
    signing.check(
        secret=SECRET,
        timestamp=headers[signing.TIMESTAMP],
        signature=headers[signing.SIGNATURE],
        body=callback.bodies[0],
        now=time.time(),
    )


@pytest.mark.parametrize(
    ("chosen", "shown"),
    [
        ("whatsapp", "*Done*: _all_ of [it]"),
        ("plain", "Done: all of [it]"),
        ("none", "**Done**: *all* of [it]"),
    ],
)
def test_t4_a_callback_has_the_format_of_the_setting(
    chosen: str, shown: str, bridge: Bridge, callback: Callback, settings: Any
) -> None:
    """[T4] The channel's text is converted to OUTBOUND_MARKDOWN_FORMAT."""
    settings.OUTBOUND_MARKDOWN_FORMAT = chosen
    assert bridge.ask(text="**Done**: *all* of [it]", request_id="r1")[0] == 202
    until(lambda: callback.got)
    assert callback.got[0]["text"] == shown


def test_t4_an_answer_in_the_response_is_raw_markdown(bridge: Bridge, settings: Any) -> None:
    """[T4] Regardless of the setting: a client of ``/inbound`` renders it itself."""
    settings.OUTBOUND_MARKDOWN_FORMAT = "plain"
    answer = json.loads(bridge.inbound(text="**Done**: *all* of [it]")[1])
    assert (answer["text"], answer["format"]) == ("**Done**: *all* of [it]", "markdown")


def test_the_requests_of_a_conversation_are_answered_in_order_each_once(
    bridge: Bridge, callback: Callback
) -> None:
    """[D4] one callback a request: messages are not joined."""
    for number in range(5):
        assert bridge.ask(text=f"say {number}", request_id=f"r{number}")[0] == 202
    until(lambda: len(callback.got) == 5)
    assert [body["request_id"] for body in callback.got] == [f"r{number}" for number in range(5)]
    assert all(f"say {number}" in body["text"] for number, body in enumerate(callback.got))


def test_a_repeated_request_is_the_same_request(bridge: Bridge, callback: Callback) -> None:
    """[D4] the same ``request_id``, with a new signature: one run, one callback."""
    now = time.time()  # one second twice would be a replay
    for second in range(3):
        status, answer = bridge.ask(text="hello", request_id="r1", at=now - second)
        assert (status, answer["request_id"]) == (202, "r1")
    until(lambda: callback.got)
    assert bridge.ask(text="after", request_id="r2")[0] == 202
    until(lambda: len(callback.got) == 2)
    assert [body["request_id"] for body in callback.got] == ["r1", "r2"]
    assert InboundMessage.objects.count() == Run.objects.count() == 2


def test_forged_stale_and_replayed_requests_are_refused(bridge: Bridge) -> None:
    """[D4] 300 s either way; nothing of them is stored."""
    data = json.dumps({"user_id": "555", "text": "hello"}).encode()
    good = signing.headers(secret=SECRET, now=time.time(), body=data)
    wrong: list[tuple[bytes, dict[str, str]]] = [
        (data + b" ", good),
        (data, {}),
        (data, signing.headers(secret="another secret!!", now=time.time(), body=data)),
        (data, signing.headers(secret=SECRET, now=time.time() - 400, body=data)),
        (data, signing.headers(secret=SECRET, now=time.time() + 400, body=data)),
        (data, {**good, signing.TIMESTAMP: str(int(time.time()) - 1)}),
        (data, {**good, signing.TIMESTAMP: "１２３"}),
        (data, {**good, signing.SIGNATURE: "v1=é"}),
    ]
    for body, headers in wrong:
        assert bridge.post(body, headers)[0] == 401
    assert not InboundMessage.objects.exists()
    assert bridge.post(data, good)[0] == 202
    assert bridge.post(data, good)[0] == 409
    assert InboundMessage.objects.count() == 1


def test_d4_a_request_is_replayed_in_vain_after_the_clock_jumped_and_came_back(
    bridge: Bridge,
) -> None:
    """[D4] also one without a ``request_id``."""
    data = json.dumps({"user_id": "555", "text": "hello"}).encode()
    signed = signing.headers(secret=SECRET, now=time.time(), body=data)
    first = bridge.post(data, signed)
    SeenSignature.objects.all().delete()  # by a request of the time between
    assert bridge.post(data, signed) == first
    assert first[0] == 202
    assert InboundMessage.objects.count() == Run.objects.count() == 1


def test_signatures_are_forgotten_once_they_are_stale(bridge: Bridge) -> None:
    """[D4] the table does not grow."""
    bridge.ask(text="one")
    SeenSignature.objects.update(at=SeenSignature.objects.get().at.replace(year=2020))
    bridge.ask(text="two")
    assert SeenSignature.objects.count() == 1


def test_an_unknown_sender_is_denied_and_recorded(bridge: Bridge, owner: User) -> None:
    """[A3] [A5]"""
    status, answer = bridge.ask(user_id="999", text="let me in", user_name="Mallory")
    assert status == 401
    assert answer == {
        "ok": False,
        "status": 401,
        "error": "Permission denied",
        "text": "",
        "format": "plain",
    }
    request = UnknownRequest.objects.get()
    assert (request.sender, request.account) == ("999", bridge.account)
    assert not Run.objects.exists()


def test_images_come_with_the_answer(
    bridge: Bridge, callback: Callback, settings: Any, tmp_path: Path
) -> None:
    """[D4] [T7] ``images`` and ``image``, as data URLs, in the one callback."""
    picture = {"native": {"type": "image", "props": {"url": PIXEL, "alt": "A pixel"}}}
    settings.LLM_SCRIPT = script(tmp_path, "picture", [picture, {"text": "Here."}])
    bridge.ask(text="a picture please", request_id="r1")
    until(lambda: callback.got)
    (body,) = callback.got
    assert body["images"] == [PIXEL]
    assert body["image"] == PIXEL
    assert "Here." in body["text"]


def test_a_failing_model_is_told_in_the_callback(
    bridge: Bridge, callback: Callback, settings: Any, tmp_path: Path
) -> None:
    """[D4] ``error``, and its kind as at ``/inbound``; the conversation goes on."""
    broken = {"error": "server", "message": "It broke"}
    settings.LLM_SCRIPT = script(tmp_path, "^break", [broken])
    bridge.ask(text="break", request_id="r1")
    bridge.ask(text="hello", request_id="r2")
    until(lambda: len(callback.got) == 2)
    assert "It broke" in callback.got[0]["error"]
    assert callback.got[0]["code"] == "server"
    assert not {"error", "code"} & callback.got[1].keys()


def test_a_callback_that_fails_is_tried_again_and_keeps_the_order(
    bridge: Bridge, callback: Callback
) -> None:
    """[D4] 500, 503 with Retry-After, then 200: nothing lost, nothing twice, in order."""
    callback.answers = [(500, {}), (503, {"Retry-After": "1"})]
    bridge.ask(text="one", request_id="r1")
    bridge.ask(text="two", request_id="r2")
    until(lambda: len(callback.got) == 2, seconds=30)
    assert [body["request_id"] for body in callback.got] == ["r1", "r2"]
    assert callback.tries == 4


def test_a_slow_callback_is_told_again_under_the_same_id(
    bridge: Bridge, callback: Callback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[D4] it may have taken the first: ``delivery_id`` lets it drop the second."""
    monkeypatch.setattr(channel, "CALL_SECONDS", 0.5)
    callback.silent = 1
    bridge.ask(text="one", request_id="r1")
    until(lambda: Delivery.objects.filter(state="sent").exists(), seconds=30)
    assert len(callback.got) == 2
    assert len(callback.texts()) == 1


def test_a_redirect_is_never_followed(bridge: Bridge, callback: Callback) -> None:
    """[D4] it waits for the owner as a dead letter, and later deliveries are not delayed."""
    place = f"http://127.0.0.1:{callback.port}/elsewhere"
    callback.answers = [(307, {"Location": place})]
    bridge.ask(text="one", request_id="r1")
    bridge.ask(text="two", request_id="r2")

    def answered() -> list[str]:  # not the notice to the owner, who also writes here
        return [body["request_id"] for body in callback.got if body["request_id"]]

    until(answered)
    dead = Delivery.objects.get(state=Delivery.State.DEAD)
    assert "redirect" in dead.error
    assert callback.elsewhere == 0
    assert answered() == ["r2"]
    outbox.retry(dead.id)
    until(lambda: answered() == ["r2", "r1"])


def test_a_private_address_needs_the_owners_word_for_that_account(
    bridge: Bridge, callback: Callback
) -> None:
    """[D4]"""
    config = {**bridge.account.config, "allow_private": ""}
    ChannelAccount.objects.filter(id=bridge.account.id).update(config=config)
    bridge.ask(text="one", request_id="r1")
    until(lambda: Delivery.objects.filter(state=Delivery.State.DEAD).exists())
    assert "address not allowed" in Delivery.objects.earliest("id").error
    assert callback.tries == 0


@pytest.mark.parametrize(
    ("address", "public", "private"),
    [
        ("93.184.216.34", True, True),
        ("127.0.0.1", False, True),
        ("10.1.2.3", False, True),
        ("192.168.1.1", False, True),
        ("fd00::1", False, True),
        ("::1", False, True),
        ("::ffff:10.0.0.1", False, True),
        ("169.254.169.254", False, False),
        ("::ffff:169.254.169.254", False, False),
        ("fe80::1", False, False),
        ("0.0.0.0", False, False),
        ("224.0.0.1", False, False),
        ("240.0.0.1", False, False),
    ],
)
def test_private_addresses(address: str, public: bool, private: bool) -> None:
    """[D4] never the metadata addresses of clouds, even with the setting."""
    import ipaddress

    found = ipaddress.ip_address(address)
    assert (is_public(found), is_public_or_private(found)) == (public, private)
    assert fetcher({}).allowed is is_public
    assert fetcher({"allow_private": True}).allowed is is_public_or_private


def test_a_personal_key_and_an_account_without_a_callback_are_refused(
    bridge: Bridge, owner: User
) -> None:
    """[A10] [D4]"""
    mine = keys.create(name="mine", user=owner, scopes=["inbound"])[1]
    bare = ChannelAccount.objects.create(channel="bridge", name="bare")
    other = keys.create(name="bare", account=bare, scopes=["inbound"])[1]
    chat = keys.create(name="chat", account=bridge.account, scopes=["chat"])[1]
    for key, status in ((mine, 403), (other, 409), (chat, 403), ("nope", 401)):
        asking = Bridge(bridge.account, key, bridge.loop)
        assert asking.ask(text="hello")[0] == status


def test_wrong_fields_are_named(bridge: Bridge) -> None:
    """[D4]"""
    for body, field in (
        ({"text": ""}, "text"),
        ({"text": 5}, "text"),
        ({"text": "x", "user_id": ""}, "user_id"),
        ({"text": "x", "user_id": 5}, "user_id"),
        ({"text": "x", "images": ["http://x"]}, "images"),
        ({"text": "x", "request_id": "r" * 200}, "request_id"),
    ):
        status, answer = bridge.ask(**body)
        assert status in {400, 413}
        assert answer["field"] == field


def test_a_result_of_an_agent_is_pushed_to_the_bridge(
    bridge: Bridge, callback: Callback, owner: User
) -> None:
    """[S3] a bridge shows results: the callback answers no request."""
    from channels_app.agent_sessions import results

    session = sessions.open_session(user=owner, account=bridge.account)
    results.put_text(session=session, content="**done**")
    until(lambda: callback.got)
    (body,) = callback.got
    assert (body["request_id"], body["chat_id"], body["text"]) == ("", "555", "*done*")


def test_requests_over_inbound_are_not_called_back(bridge: Bridge, callback: Callback) -> None:
    """[D4] only ``/process`` has callbacks."""
    from django.utils import timezone

    from channels_app.intake.inbound import receive_sender
    from core.conversations.inbox import Draft

    draft = Draft(account=bridge.account, sender="555", chat="555", text="hello")
    receipt = receive_sender(draft=draft, now=timezone.now())
    assert receipt.run is not None
    number = receipt.run.id
    until(lambda: Run.objects.get(id=number).state == Run.State.SUCCEEDED)
    assert not Delivery.objects.exists()


def test_a_command_is_answered_under_its_request(bridge: Bridge, callback: Callback) -> None:
    """[C8] [D4] With the context and the session, like any other answer."""
    bridge.ask(text="/whoami", request_id="r1", context="keep-me")
    until(lambda: callback.got)
    assert callback.got[0]["request_id"] == "r1"
    assert callback.got[0]["context"] == "keep-me"
    assert callback.got[0]["session_id"] == ChatSession.objects.get().public_id
    assert "You are owner" in callback.got[0]["text"]


def test_missing_settings_of_an_account_are_named(account: ChannelAccount) -> None:
    """[C1]"""
    assert CHANNEL.config.problems(account_of(account)) == []
    account.config = {"callback_url": "ftp://x", "kind": "fax"}
    account.secrets = encrypt({"signing_secret": "short"})
    assert len(CHANNEL.config.problems(account_of(account))) == 3


@pytest.mark.parametrize(
    ("status", "permanent", "after"),
    [
        (400, True, None),
        (404, True, None),
        (301, True, None),
        (500, False, None),
        (429, False, 7.0),
    ],
)
def test_statuses_of_a_callback(status: int, permanent: bool, after: float | None) -> None:
    """[D4] 4xx other than 429 is terminal."""
    error = refusal(status, {"retry-after": "7"} if status == 429 else {})
    assert (error.permanent, error.retry_after, error.unsure) == (permanent, after, False)


def test_a_callback_may_have_any_id(account: ChannelAccount, callback: Callback) -> None:
    """A chat may have a line break in its name; a header may not."""
    key = "link:1:a\nb\u00e9:7"
    call = post(account_of(account), Target(chat="a\nb"), {"text": "x"}, key)
    assert asyncio.run(call) == key
    assert [each["delivery_id"] for each in callback.got] == [key]


def test_an_id_of_the_bridge_can_be_stored() -> None:
    """PostgreSQL takes no NUL: the callback was sent again and again, for a day."""
    assert message_id(b'{"message_id": "a\\u0000b"}') == "ab"
    assert message_id(b'{"message_id": 7}') == message_id(b"[") == ""
