"""Examinations: each trouble is said in plain words beside its field, and never with the key."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pytest_django import Settings

from core.providers import addresses, examine, listing, registry
from core.providers.base import ProviderError
from core.providers.examine import Examination
from core.providers.listing import ListedModel, find_ollama, list_models
from tests.core.providers.conftest import running
from tests.core.providers.model_server import Reply, chunk, hangs, hello, sse, streams
from tests.core.providers.rows import provider
from tests.core.providers.vendor_server import VendorServer, json_reply, page, redirect

KEY = "planted-Key/0123456789+abcdef"
CHAT = "/v1/chat/completions"
CALL = streams(
    sse(
        chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "report_ready"}}]}),
        chunk(finish="tool_calls"),
    )
)


@pytest.fixture
async def server() -> AsyncIterator[VendorServer]:
    """Start a server of all wires."""
    async with running(VendorServer()) as made:
        yield made


def row(server: VendorServer, **fields: Any) -> Any:
    """Return a provider at the server."""
    given = {"base_url": f"{server.root}/v1", "key": KEY, **fields}
    return provider(**given)


def openai_list(*names: str, **more: Any) -> Reply:
    """Return a list of models."""
    return json_reply({"object": "list", "data": [{"id": each, **more} for each in names]})


def by_request(*, tools: Reply = CALL, picture: Reply | None = None, plain: Reply) -> Reply:
    """Return a reply that depends on what a request has."""

    async def reply(request: web.Request) -> web.StreamResponse:
        body = orjson.loads(await request.read())
        if body.get("tools"):
            return await tools(request)
        has_picture = isinstance(body["messages"][0]["content"], list)
        return await (picture or plain)(request) if has_picture else await plain(request)

    return reply


async def examined(info: Any, name: str = "") -> Examination:
    """Return an examination; nothing of it shows the key."""
    async with asyncio.timeout(30):
        result = await examine.examine(info, name)
    assert KEY not in repr(result)
    return result


def texts(result: Examination, field: str = "") -> str:
    """Return the sentences, of a field or of all."""
    return " ".join(each.text for each in result.findings if field in ("", each.field))


# Answers -----------------------------------------------------------------------------------------


async def test_a_model_that_can_do_everything_is_ok(server: VendorServer) -> None:
    server.on("/v1/models", openai_list("big", "small", max_model_len=32768))
    server.on(CHAT, by_request(plain=streams(hello("Red."))))
    result = await examined(row(server), "big")
    assert result.ok
    assert result.answers
    assert (result.can_call_tools, result.can_see_images) == (True, True)
    assert result.context_tokens == 32768
    assert [each.name for each in result.models] == ["big", "small"]
    assert texts(result) == "The model's window is 32,768 tokens."
    assert all(each["stream"] and each["model"] == "big" for each in server.asked(CHAT))
    assert len(server.asked(CHAT)) == 2


async def test_a_provider_alone_is_asked_for_its_models_only(server: VendorServer) -> None:
    server.on("/v1/models", openai_list("big"))
    result = await examined(row(server))
    assert result.ok
    assert [path for path, _ in server.requests] == ["/v1/models"]


@pytest.mark.parametrize(
    "refusal",
    [
        json_reply({"error": {"message": "m does not support tools"}}, 400),
        json_reply({"error": {"message": "tools param requires --jinja flag"}}, 500),
        json_reply({"error": {"message": "No endpoints found that support tool use."}}, 404),
    ],
)
async def test_a_model_without_tools_answers_and_that_is_said(
    refusal: Reply, server: VendorServer
) -> None:
    """As Ollama, llama.cpp and OpenRouter refuse tools."""
    server.on("/v1/models", openai_list("m"))
    server.on(CHAT, by_request(tools=refusal, plain=streams(hello("Red"))))
    result = await examined(row(server), "m")
    assert result.ok
    assert result.can_call_tools is False
    assert texts(result, "can_call_tools") == "The model answers, but cannot call tools."


async def test_a_model_that_talks_instead_of_calling_is_said(server: VendorServer) -> None:
    server.on("/v1/models", openai_list("m"))
    endless = streams(hello(*["I am ready. "] * 5000), size=4000)
    server.on(CHAT, by_request(tools=endless, plain=streams(hello("Red"))))
    result = await examined(row(server), "m")
    assert result.ok
    assert "did not call a tool" in texts(result, "can_call_tools")


async def test_a_model_that_only_thinks_is_not_judged(server: VendorServer) -> None:
    server.on("/v1/models", openai_list("m"))
    thinking = streams(sse(chunk({"reasoning_content": "hm"}), chunk(finish="length")))
    server.on(CHAT, thinking)
    result = await examined(row(server), "m")
    assert result.ok
    assert (result.can_call_tools, result.can_see_images) == (None, None)


async def test_a_model_without_images_is_said(server: VendorServer) -> None:
    server.on("/v1/models", openai_list("m"))
    refusal = json_reply({"error": {"message": "image input is not supported"}}, 500)
    server.on(CHAT, by_request(picture=refusal, plain=streams(hello("x"))))
    result = await examined(row(server), "m")
    assert result.ok
    assert result.can_see_images is False
    assert texts(result, "can_see_images") == "The model answers, but cannot see pictures."
    # One that takes the picture and does not see it is not believed.
    server.on(CHAT, by_request(picture=streams(hello("No idea")), plain=streams(hello("x"))))
    assert (await examined(row(server), "m")).can_see_images is None


async def test_abilities_in_the_list_are_not_asked_again(server: VendorServer) -> None:
    entry = {
        "id": "a/b",
        "context_length": 1000,
        "architecture": {"input_modalities": ["text"]},
        "supported_parameters": ["temperature"],
    }
    server.on("/v1/models", json_reply({"data": [entry]}))
    server.on(CHAT, streams(hello("ready")))
    result = await examined(row(server, kind="openrouter"), "a/b")
    assert result.ok
    assert (result.can_call_tools, result.can_see_images) == (False, False)
    assert len(server.asked(CHAT)) == 1
    assert "tools" not in server.asked(CHAT)[0]


# Troubles ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "field", "says"),
    [
        (json_reply({"error": {"message": f"bad key {KEY}"}}, 401), "key", "refuses the key"),
        (json_reply({"error": {"message": f"{KEY}"}}, 403), "key", "says: [key]"),
        (json_reply({"error": {"message": "Insufficient credits"}}, 402), "key", "no credit left"),
        (json_reply({"error": {"message": "slow down"}}, 429), "base_url", "busy now"),
        (json_reply({"error": {"message": "loading model"}}, 503), "base_url", "busy now"),
        (json_reply({"error": {"message": "oh"}}, 500), "base_url", "failed. The server says: oh"),
        (page(), "base_url", "A web page"),
        (redirect("https://elsewhere.example/"), "base_url", "not a model server"),
        (json_reply({"hello": KEY}), "base_url", "no list of models"),
        (json_reply(7), "base_url", "no list of models"),
        (streams(b"SSH-2.0-OpenSSH_9.6\r\n"), "base_url", "no list of models"),
    ],
)
async def test_a_server_that_refuses_or_is_none_is_said_beside_the_field(
    reply: Reply, field: str, says: str, server: VendorServer
) -> None:
    server.on("/v1/models", reply)
    result = await examined(row(server), "m")
    assert not result.ok
    assert [each.field for each in result.findings] == [field]
    assert says in texts(result)
    assert server.asked(CHAT) == []


async def test_a_key_that_is_missing_is_asked_for(server: VendorServer) -> None:
    server.on("/v1/models", json_reply({"error": {"message": "no key"}}, 401))
    assert "wants a key" in texts(await examined(row(server, key="")), "key")
    result = await examined(provider(kind="openai"))
    assert texts(result, "key") == "OpenAI wants a key."


async def test_an_unknown_model_of_a_server_without_a_list_is_said(server: VendorServer) -> None:
    server.on(CHAT, json_reply({"error": {"message": "no such model"}}, 404))
    result = await examined(row(server), "m")
    assert "knows no such model, or the address is wrong" in texts(result, "name")


async def test_a_server_without_a_list_is_asked_for_an_answer(server: VendorServer) -> None:
    server.on(CHAT, by_request(plain=streams(hello("red"))))
    assert (await examined(row(server), "m")).ok
    result = await examined(row(server))
    assert "Nothing is found at this address" in texts(result, "base_url")


async def test_an_address_without_its_version_is_mended(server: VendorServer) -> None:
    server.on("/models", page())
    server.on("/v1/models", openai_list("m"))
    result = await examined(row(server, base_url=server.root))
    assert not result.ok
    assert f"A model server answers at {server.root}/v1" in texts(result, "base_url")


async def test_an_unknown_model_is_said_with_the_names_that_are_close(
    server: VendorServer,
) -> None:
    server.on("/v1/models", openai_list("gpt-4o-mini", "gpt-4o", "o3", "llama"))
    missing = json_reply({"error": {"message": "no such model", "code": "model_not_found"}}, 404)
    server.on(CHAT, missing)
    result = await examined(row(server), "gpt4o-mini")
    assert not result.ok
    said = texts(result, "name")
    assert "no model of this name. Close to it: gpt-4o-mini" in said
    assert "llama" not in said
    # A name that the list lacks may be another name of a model.
    server.on(CHAT, by_request(plain=streams(hello("red"))))
    assert (await examined(row(server), "gpt-4o-latest")).ok


async def test_a_server_that_is_off_or_unknown_is_said(
    server: VendorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await server.stop()
    result = await examined(row(server), "m")
    said = texts(result, "base_url")
    assert "Nothing answers at 127.0.0.1:" in said
    assert "host.docker.internal" in said

    async def resolve(host: str, port: int) -> list[str]:
        raise OSError(8, "unknown")

    made = addresses.session
    monkeypatch.setattr(
        addresses, "session", lambda allowed, **more: made(allowed, resolve=resolve)
    )
    result = await examined(provider(base_url="https://no.example/v1"), "m")
    assert "does not resolve: no.example" in texts(result, "base_url")
    await server.start()


async def test_a_server_that_speaks_no_tls_is_said(server: VendorServer) -> None:
    address = f"{server.root}/v1".replace("http://", "https://")
    result = await examined(row(server, base_url=address), "m")
    assert "does not speak HTTPS" in texts(result, "base_url")


def self_signed(folder: Path) -> ssl.SSLContext:
    """Return a server's context with a certificate that only itself vouches for."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    path = folder / "server.pem"
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    encoding = serialization.Encoding.PEM
    path.write_bytes(certificate.public_bytes(encoding) + key.private_bytes(encoding, form, plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


async def test_a_certificate_that_is_not_trusted_is_said(
    server: VendorServer, tmp_path: Path
) -> None:
    assert server.runner
    site = web.TCPSite(server.runner, "127.0.0.1", 0, ssl_context=self_signed(tmp_path))
    await site.start()
    port = server.runner.addresses[-1][1]
    result = await examined(row(server, base_url=f"https://127.0.0.1:{port}/v1"), "m")
    assert "The certificate of 127.0.0.1" in texts(result, "base_url")
    assert "SSL_CERT_FILE" in texts(result, "base_url")
    assert server.requests == []


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"base_url": "http://169.254.169.254/v1"}, "inside the network"),
        ({"allow_private": False}, "inside the network"),
        ({"base_url": "not an address"}, "no spaces"),
        ({"base_url": ""}, "names a server"),
        ({"base_url": "http://2130706433/v1"}, "not an address"),
    ],
)
async def test_an_address_that_is_not_allowed_is_not_asked(
    fields: dict[str, Any], says: str, server: VendorServer
) -> None:
    result = await examined(row(server, **fields), "m")
    assert says in texts(result, "base_url")
    assert server.requests == []


async def test_a_key_over_plain_http_to_a_public_address_is_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refused(*given: Any) -> Any:
        raise ProviderError("x", code="server")

    monkeypatch.setattr(examine, "models_of", refused)
    public = provider(base_url="http://93.184.216.34/v1", key=KEY, allow_private=False)
    assert "unencrypted" in texts(await examined(public), "base_url")
    assert "unencrypted" not in texts(await examined(replace(public, allow_private=True)))


async def test_a_slow_server_takes_no_longer_than_allowed(
    server: VendorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examine, "LIST_SECONDS", 0.1)
    server.on("/v1/models", hangs())
    result = await examined(row(server), "m")
    assert "does not answer in time" in texts(result, "base_url")
    monkeypatch.setattr(examine, "EXAMINE_SECONDS", 0.5)
    server.on("/v1/models", openai_list("m"))
    server.on(CHAT, hangs())
    result = await examined(row(server), "m")
    assert not result.ok
    assert "may still be loading" in texts(result, "base_url")
    # It answered, and only the picture took too long.
    server.on(CHAT, by_request(picture=hangs(), plain=streams(hello("a"))))
    result = await examined(row(server), "m")
    assert result.ok
    assert "Not all abilities" in texts(result, "name")


async def test_an_endless_list_is_not_kept_in_memory(
    server: VendorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MOST_BYTES", 50_000)
    server.on("/v1/models", openai_list(*(f"m{number}" for number in range(9000))))
    result = await examined(row(server), "m")
    assert not result.ok
    assert "too long" in texts(result)
    monkeypatch.undo()
    found = await list_models(row(server))
    assert len(found) == listing.MOST_MODELS


# The lists of each vendor ------------------------------------------------------------------------


async def test_openais_list_leaves_out_models_that_answer_no_chat(server: VendorServer) -> None:
    server.on("/v1/models", openai_list("gpt-5", "text-embedding-3-small", "whisper-1", "dall-e-3"))
    assert [each.name for each in await list_models(row(server, kind="openai"))] == ["gpt-5"]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


async def test_anthropics_list_is_read_page_by_page(server: VendorServer) -> None:
    first = {"data": [{"type": "model", "id": "claude-b"}], "has_more": True, "last_id": "claude-b"}
    second = {
        "data": [{"type": "model", "id": "claude-a", "max_input_tokens": 200000}],
        "has_more": False,
        "last_id": "claude-a",
    }
    server.on("/v1/models", json_reply(first), json_reply(second))
    found = await list_models(row(server, kind="anthropic", base_url=server.root))
    assert found == [ListedModel("claude-a", 200000), ListedModel("claude-b")]
    assert server.headers[0]["x-api-key"] == KEY
    assert server.headers[0]["anthropic-version"]
    assert "authorization" not in server.headers[0]
    # A server that always has more is not asked for ever.
    server.on("/v1/models", json_reply(first))
    await list_models(row(server, kind="anthropic", base_url=server.root))
    assert len(server.requests) == 2 + listing.MOST_PAGES


async def test_googles_list_has_windows_and_only_models_that_answer(server: VendorServer) -> None:
    models = [
        {
            "name": "models/gemini-2.5-flash",
            "inputTokenLimit": 1048576,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        },
        {"name": "models/embedding-001", "supportedGenerationMethods": ["embedContent"]},
    ]
    server.on("/v1beta/models", json_reply({"models": models}))
    found = await list_models(row(server, kind="google", base_url=server.root))
    assert found == [ListedModel("gemini-2.5-flash", 1048576)]
    assert server.headers[0]["x-goog-api-key"] == KEY


@pytest.mark.parametrize(
    ("kind", "entry", "expected"),
    [
        ("groq", {"id": "m", "context_window": 131072}, ListedModel("m", 131072)),
        (
            "mistral",
            {"id": "m", "max_context_length": 32768,
             "capabilities": {"vision": True, "function_calling": False}},
            ListedModel("m", 32768, images=True, tools=False),
        ),
        (
            "openrouter",
            {"id": "a/m", "context_length": 1000, "supported_parameters": ["tools"],
             "architecture": {"input_modalities": ["text", "image"]}},
            ListedModel("a/m", 1000, images=True, tools=True),
        ),
        ("deepseek", {"id": "m", "context_length": "many"}, ListedModel("m")),
        ("openai-compatible", {"id": "m", "max_model_len": True}, ListedModel("m")),
        ("openai-compatible", {"id": "m", "max_model_len": -1}, ListedModel("m")),
        ("openai-compatible", {"id": "m", "capabilities": "x", "architecture": 7},
         ListedModel("m")),
    ],
)  # fmt: skip
async def test_windows_and_abilities_in_lists_are_read(
    kind: str, entry: dict[str, Any], expected: ListedModel, server: VendorServer
) -> None:
    server.on("/v1/models", json_reply({"data": [entry]}))
    assert await list_models(row(server, kind=kind)) == [expected]


async def test_names_that_cannot_be_stored_or_shown_are_left_out(server: VendorServer) -> None:
    data = [
        {"id": "ok"},
        {"id": "x" * 201},
        {"id": ""},
        {"id": 7},
        {"id": "a\nb"},
        {"id": f"m-{KEY}"},
        {},
        "text",
        None,
    ]
    server.on("/v1/models", json_reply({"data": data}))
    assert [each.name for each in await list_models(row(server))] == ["ok"]


async def test_a_list_that_fails_says_why(server: VendorServer) -> None:
    server.on("/v1/models", json_reply({"error": {"message": f"bad {KEY}"}}, 401))
    with pytest.raises(ProviderError) as caught:
        await list_models(row(server))
    assert (caught.value.code, caught.value.reason) == ("unauthorised", "bad [key]")
    with pytest.raises(ProviderError) as caught:
        await list_models(row(server, allow_private=False))
    assert caught.value.code == "setup"
    await server.stop()
    with pytest.raises(ProviderError) as caught:
        await list_models(row(server))
    assert caught.value.code == "unreachable"
    await server.start()


# Anthropic and Google ----------------------------------------------------------------------------


def anthropic_says(*parts: dict[str, Any]) -> Reply:
    return json_reply({"type": "message", "content": list(parts), "stop_reason": "end_turn"})


def google_says(*parts: dict[str, Any]) -> Reply:
    return json_reply({"candidates": [{"content": {"role": "model", "parts": list(parts)}}]})


NATIVE: dict[str, tuple[str, str, str, Any, dict[str, Any]]] = {
    "anthropic": (
        "claude-x", "/v1/models", "/v1/messages", anthropic_says,
        {"type": "tool_use", "id": "t", "name": "report_ready", "input": {}},
    ),
    "google": (
        "gemini-x", "/v1beta/models", "/v1beta/models/gemini-x:generateContent", google_says,
        {"functionCall": {"name": "report_ready", "args": {}}},
    ),
}  # fmt: skip
LISTS = {
    "anthropic": json_reply({"data": [{"id": "claude-x", "max_input_tokens": 5000}]}),
    "google": json_reply({"models": [{"name": "models/gemini-x", "inputTokenLimit": 5000}]}),
}


@pytest.mark.parametrize("kind", ["anthropic", "google"])
async def test_vendors_with_a_wire_of_their_own_are_examined(
    kind: str, server: VendorServer
) -> None:
    name, models, path, says, call = NATIVE[kind]
    server.on(models, LISTS[kind])
    server.on(path, says(call), says({"type": "text", "text": "Red."}))
    info = row(server, kind=kind, base_url=server.root)
    result = await examined(info, name)
    assert result.ok
    assert (result.can_call_tools, result.can_see_images) == (True, True)
    assert result.context_tokens == 5000
    server.on(path, says({"type": "text", "text": "no"}), says())
    result = await examined(info, name)
    assert (result.can_call_tools, result.can_see_images) == (False, None)
    server.on(path, json_reply({"error": {"type": "not_found_error", "message": "model"}}, 404))
    result = await examined(info, name + "y")
    assert f"Close to it: {name}" in texts(result, "name")
    server.on(models, json_reply({"error": {"message": f"invalid {KEY}"}}, 401))
    assert "refuses the key" in texts(await examined(info, name), "key")


@pytest.mark.parametrize("kind", ["anthropic", "google"])
@pytest.mark.parametrize(
    "body", [None, [], "x", {"content": 7}, {"candidates": [7]}, {"candidates": []}]
)
async def test_odd_answers_are_not_judged(kind: str, body: Any, server: VendorServer) -> None:
    name, models, path, *_ = NATIVE[kind]
    server.on(models, LISTS[kind])
    server.on(path, json_reply(body))
    result = await examined(row(server, kind=kind, base_url=server.root), name)
    assert (result.can_call_tools, result.can_see_images) == (None, None)


async def test_the_name_of_a_model_cannot_change_the_address(server: VendorServer) -> None:
    server.on("/v1beta/models", LISTS["google"])
    await examined(row(server, kind="google", base_url=server.root), "../../evil?x=1#")
    assert {path for path, _ in server.requests[1:]} == {
        "/v1beta/models/../../evil?x=1#:generateContent"  # one segment, quoted
    }


# Ollama and llama.cpp ----------------------------------------------------------------------------


def ollama(server: VendorServer, *, running: list[dict[str, Any]]) -> None:
    """Let the server be an Ollama with one model."""
    server.on("/api/tags", json_reply({"models": [{"name": "llama3:latest", "size": 1}]}))
    shown = {
        "capabilities": ["completion", "vision"],
        "model_info": {"general.architecture": "llama", "llama.context_length": 131072},
    }
    server.on("/api/show", json_reply(shown))
    server.on("/api/ps", json_reply({"models": running}))
    server.on(CHAT, by_request(plain=streams(hello("a"))))


async def test_ollamas_window_is_the_one_that_it_runs_the_model_with(server: VendorServer) -> None:
    ollama(server, running=[{"name": "llama3:latest", "context_length": 4096}])
    info = row(server, kind="ollama", base_url=server.root, key="")
    result = await examined(info, "llama3")
    assert result.ok
    assert result.context_tokens == 4096
    assert result.can_see_images is True
    assert "131,072 tokens, but Ollama runs it with 4,096" in texts(result, "context_tokens")
    assert server.asked("/api/show") == [{"model": "llama3"}]
    ollama(server, running=[])
    assert (await examined(info, "llama3")).context_tokens is None
    server.on("/api/show", json_reply([]))
    server.on("/api/ps", json_reply({"models": 7}))
    assert (await examined(info, "llama3")).ok


async def test_llama_cpps_window_is_that_of_its_slots(server: VendorServer) -> None:
    server.on("/v1/models", openai_list("m"))
    server.on(CHAT, by_request(plain=streams(hello("red"))))
    server.on("/props", json_reply({"default_generation_settings": {"n_ctx": 8192}}))
    assert (await examined(row(server), "m")).context_tokens == 8192


async def test_a_window_that_no_server_tells_is_that_of_the_price_list(
    server: VendorServer,
) -> None:
    server.on("/v1/models", openai_list("gpt-4o-mini"))
    server.on(CHAT, by_request(plain=streams(hello("red"))))
    assert (await examined(row(server, kind="openai"), "gpt-4o-mini")).context_tokens == 128_000


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", ""),
        ("0.0.0.0", "127.0.0.1:11434"),
        ("0.0.0.0:9000", "127.0.0.1:9000"),
        (":9000", "127.0.0.1:9000"),
        ("box", "box:11434"),
        ("http://box:9000/", "box:9000"),
        ("[::]:9000", "127.0.0.1:9000"),
        ("[fd00::1]", "[fd00::1]:11434"),
        ("box:port", ""),
    ],
)
def test_ollama_host_is_read_as_ollama_reads_it(
    given: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", given)
    assert listing.own_host() == expected


async def test_a_local_ollama_is_found(
    server: VendorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ollama(server, running=[])
    monkeypatch.setattr(listing, "OWN_MACHINE", "127.0.0.1:1")
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    assert await find_ollama() is None
    monkeypatch.setenv("OLLAMA_HOST", server.root)
    found = await find_ollama()
    assert found is not None
    assert found.base_url == f"{server.root}/v1"
    assert [each.name for each in found.models] == ["llama3:latest"]
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    monkeypatch.setattr(listing, "OWN_MACHINE", server.root.removeprefix("http://"))
    assert await find_ollama() == found


@pytest.mark.parametrize(
    "reply", [page(), json_reply({}), json_reply({}, 500), redirect("http://x/"), hangs()]
)
async def test_another_service_is_not_found(
    reply: Reply, server: VendorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "FIND_SECONDS", 0.3)
    server.on("/api/tags", reply)
    monkeypatch.setattr(listing, "OWN_MACHINE", server.root.removeprefix("http://"))
    monkeypatch.delenv("OLLAMA_HOST", raising=False)
    assert await find_ollama() is None


# The environment ---------------------------------------------------------------------------------


async def test_the_environments_provider_is_examined(
    server: VendorServer, settings: Settings
) -> None:
    server.on("/v1/models", openai_list("m"))
    server.on(CHAT, by_request(plain=streams(hello("red"))))
    settings.LLM_PROVIDER, settings.LLM_BASE_URL = "openai-compatible", f"{server.root}/v1"
    settings.LLM_API_KEY = KEY
    info = provider(from_environment=True)
    assert (await examined(info, "m")).ok
    assert [each.name for each in await list_models(info)] == ["m"]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert registry.configured.pop() is None  # nothing stays open


async def test_a_provider_of_the_environment_without_a_list_is_asked_for_an_answer(
    settings: Settings, tmp_path: Any
) -> None:
    info = provider(from_environment=True, kind="environment")
    settings.LLM_PROVIDER, settings.LLM_SCRIPT = "scripted", ""
    result = await examined(info, "m")
    assert result.ok
    assert result.answers
    with pytest.raises(ProviderError):
        await list_models(info)
    settings.LLM_PROVIDER = "nobody:x"
    result = await examined(info, "m")
    assert "not set up" in texts(result, "name")


async def test_the_key_is_in_no_log(server: VendorServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.on("/v1/models", openai_list("m"))
    server.on(CHAT, json_reply({"error": {"message": KEY}}, 401))
    await examined(row(server), "m")
    server.on("/v1/models", json_reply({"error": {"message": KEY}}, 401))
    await examined(row(server), "m")
    assert KEY not in caplog.text
    assert all(KEY not in str(record.__dict__) for record in caplog.records)
