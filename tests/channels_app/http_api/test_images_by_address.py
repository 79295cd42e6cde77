"""Pictures that a client of ``/inbound`` names by their address [D1]."""

import asyncio

import pytest

from allowlist import keys
from channels_app.asgi import throttling
from channels_app.asgi.http import RefusedError
from channels_app.http_api import fields
from core.lib.safe_fetch import Fetched
from core.models import ChannelAccount, InboundMessage, User
from tests.redteam.gateway_data import GatewayData

PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 20
ADDRESS = "https://pictures.example/cat"


async def get(url: str) -> Fetched:
    """Return the content of the public address."""
    assert url == ADDRESS
    return Fetched(url, "image/png", PNG)


def test_a_public_picture_is_fetched_and_becomes_a_data_url() -> None:
    """As at ``/v1``: neither the model nor later readers of the chat need another server."""
    body = {"text": "what is this?", "images": [{"url": ADDRESS, "name": "cat"}, ADDRESS]}
    asked = fields.read(body, keyed=True)
    asyncio.run(fields.fetch_pictures(asked.media, get=get))
    assert [each["kind"] for each in asked.media] == ["image", "image"]
    assert asked.media[0]["name"] == "cat"
    assert {each["url"][:22] for each in asked.media} == {"data:image/png;base64,"}
    # The same request is the same request, however the picture looks the next time.
    assert fields.read(body, keyed=True).digest == asked.digest


@pytest.mark.parametrize("name", ["audios", "videos", "files"])
def test_only_pictures_are_fetched(name: str) -> None:
    with pytest.raises(RefusedError, match=name) as caught:
        fields.read({"text": "x", name: [ADDRESS]})
    assert (caught.value.status, caught.value.field) == (400, name)


def test_all_pictures_of_a_message_are_limited_to_the_size_of_a_body(settings: object) -> None:
    """413: a short request must not make the gateway carry any number of large pictures."""
    settings.MAX_BODY_BYTES = 60  # type: ignore[attr-defined]
    asked = fields.read({"text": "x", "images": [ADDRESS, ADDRESS]})
    with pytest.raises(RefusedError) as caught:
        asyncio.run(fields.fetch_pictures(asked.media, get=get))
    assert (caught.value.status, caught.value.field) == (413, "images")


@pytest.mark.django_db(transaction=True)
def test_a_private_address_is_refused_and_a_stranger_has_nothing_fetched() -> None:
    """The guarded fetcher; a denied sender's message is held without the picture."""
    gateway = GatewayData()
    user = User.objects.create(username="ada", only_listed=True)
    account = ChannelAccount.objects.create(channel="bridge", name="mail")
    gateway.tokens["ada"] = keys.create(name="a", user=user, scopes=["inbound"])[1]
    gateway.tokens["bridge"] = keys.create(name="b", account=account, scopes=["inbound"])[1]
    body = {"text": "look", "images": ["http://127.0.0.1:9/x.png"], "async": True}
    answer = gateway.ask("ada", "POST", "/inbound", body)
    assert (answer.status, b'"field":"images"' in answer.body) == (400, True)
    assert not InboundMessage.objects.exists()
    assert gateway.ask("bridge", "POST", "/inbound", {**body, "user_id": "eve"}).status == 401
    held = InboundMessage.objects.get()
    assert (held.state, held.text, held.media) == ("held", "look", [])


@pytest.mark.django_db(transaction=True)
def test_a_stranger_behind_a_bridge_has_nothing_fetched_at_v1() -> None:
    """The allowlist comes first: 401, not the address's own answer; the text is held."""
    gateway = GatewayData()
    account = ChannelAccount.objects.create(channel="bridge", name="mail")
    gateway.tokens["bridge"] = keys.create(name="b", account=account, scopes=["chat"])[1]
    picture = {"type": "image_url", "image_url": {"url": "http://127.0.0.1:9/x.png"}}
    content = [{"type": "text", "text": "look"}, picture]
    messages = [{"role": "user", "content": content}]
    body = {"model": "default", "user": "eve", "messages": messages}
    assert gateway.ask("bridge", "POST", "/v1/chat/completions", body).status == 401
    held = InboundMessage.objects.get()
    assert (held.state, held.text.splitlines()[0]) == ("held", "look")
    assert "127.0.0.1" not in str((held.media, held.options, held.text))


@pytest.mark.django_db(transaction=True)
def test_ri17_one_sender_of_a_bridge_does_not_use_up_the_others_at_v1(
    settings: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[RI17] Counted by sender, as at ``/inbound``; the model is not asked."""
    monkeypatch.setattr(throttling, "people", throttling.Rate())
    settings.RATE_PER_MINUTE_USER = 2  # type: ignore[attr-defined]
    gateway = GatewayData()
    account = ChannelAccount.objects.create(channel="bridge", name="mail")
    gateway.tokens["bridge"] = keys.create(name="b", account=account, scopes=["chat"])[1]
    messages = [{"role": "user", "content": "hello"}]

    def ask(sender: str) -> int:
        body = {"model": "default", "user": sender, "messages": messages}
        return gateway.ask("bridge", "POST", "/v1/chat/completions", body).status

    assert [ask("eve"), ask("eve"), ask("eve"), ask("mallory")] == [401, 401, 429, 401]
