"""Providers of rows: one instance for a row, checked addresses and keys, places for calls."""

import asyncio
import os
import subprocess
import sys
import traceback
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest
from pytest_django import Settings

from core.lib import encryption
from core.models import ModelProvider
from core.providers import addresses, catalogue, registry, vendors
from core.providers.base import (
    Delta,
    Finish,
    ModelRequest,
    Provider,
    ProviderError,
    TextDelta,
    Usage,
)
from core.providers.openai_compatible import OpenAICompatible
from core.providers.scripted import Scripted
from tests import ROOT
from tests.core.providers.model_server import ModelServer, chunk, hello, says, sse, streams
from tests.core.providers.rows import PLAIN, provider

ASKED = ModelRequest([{"role": "user", "content": "hi"}], model="m")
KEY = "planted-Key/0123456789+abcdef"


@pytest.fixture
async def server(server: ModelServer) -> AsyncIterator[ModelServer]:
    """Yield the model server; the providers of rows are closed in the end."""
    yield server
    await registry.close()


async def ask(made: Provider, request: ModelRequest = ASKED) -> list[Delta]:
    """Return the deltas of one answer."""
    async with asyncio.timeout(20), aclosing(made.stream(request)) as stream:
        return [delta async for delta in stream]


async def failure(made: Provider, request: ModelRequest = ASKED) -> ProviderError:
    """Return the failure of an answer; nothing of it shows the key."""
    with pytest.raises(ProviderError) as caught:
        await ask(made, request)
    assert KEY not in "".join(traceback.format_exception(caught.value)) + repr(vars(caught.value))
    return caught.value


def text(deltas: list[Delta]) -> str:
    return "".join(each.text for each in deltas if isinstance(each, TextDelta))


# One instance for a row --------------------------------------------------------------------------


async def test_a_row_has_one_provider_until_it_changes(server: ModelServer) -> None:
    server.replies = [streams(hello("a"))]
    row = provider(base_url=server.url, key=KEY)
    made = registry.provider_of(row)
    assert registry.provider_of(row) is made
    assert registry.provider_of(replace(row, name="Another name")) is made
    assert registry.provider_of(replace(row, id=2)) is not made
    assert text(await ask(made)) == "a"
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    changed = registry.provider_of(replace(row, idle_seconds=9))
    assert changed is not made
    assert registry.provider_of(replace(row, idle_seconds=9)) is changed


class Counted:
    """A provider that notes its streams and its end."""

    def __init__(self) -> None:
        self.closed = 0
        self.running = 0
        self.most = 0
        self.order: list[str] = []
        self.go = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self.running += 1
        self.most = max(self.most, self.running)
        self.order.append(request.model)
        try:
            await self.go.wait()
            yield TextDelta("a")
            yield Finish("stop")
        finally:
            self.running -= 1

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Counted]:
    """Return the providers that rows get, in the order of their making."""
    made: list[Counted] = []

    def build(info: Any) -> Counted:
        made.append(Counted())
        return made[-1]

    monkeypatch.setattr(vendors, "build", build)
    return made


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0)


async def test_the_old_provider_of_a_changed_row_is_closed_when_its_streams_have_ended(
    built: list[Counted],
) -> None:
    old = registry.provider_of(PLAIN)
    streaming = asyncio.create_task(ask(old))
    await until(lambda: built[0].running)
    registry.provider_of(replace(PLAIN, concurrency=3))
    await asyncio.sleep(0)
    assert built[0].closed == 0
    built[0].go.set()
    assert text(await streaming) == "a"
    assert built[0].closed == 1
    # An idle one is closed at once; one that is asked late is closed again behind its answer.
    late = registry.provider_of(PLAIN)
    registry.provider_of(replace(PLAIN, concurrency=5))
    await until(lambda: built[2].closed == 1)
    built[2].go.set()
    assert text(await ask(late)) == "a"
    assert built[2].closed == 2
    await registry.close()
    assert [each.closed for each in built] == [1, 1, 2, 1]
    await registry.close()


async def test_calls_at_once_are_limited_and_served_in_order(built: list[Counted]) -> None:
    made = registry.provider_of(replace(PLAIN, concurrency=2))
    asked = [replace(ASKED, model=str(number)) for number in range(7)]
    tasks = []
    for each in asked:
        tasks.append(asyncio.create_task(ask(made, each)))
        await asyncio.sleep(0)
    await until(lambda: built[0].running == 2)
    # One that gives up in the queue leaves its place to the next.
    tasks[3].cancel()
    built[0].go.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert built[0].most == 2
    assert built[0].order == ["0", "1", "2", "4", "5", "6"]
    await registry.close()


async def test_waiting_for_a_place_counts_as_time_before_the_first_token(
    built: list[Counted],
) -> None:
    row = replace(PLAIN, concurrency=1, first_token_seconds=0.2)
    made = registry.provider_of(row)
    async with registry.slot_of(row):
        error = await failure(made)
    assert (error.code, error.reason) == ("timeout", "all 1 calls at once were in use")
    assert isinstance(error, registry.NoSlotError)
    # The next one has a place but no token in time.
    with pytest.raises(ProviderError) as caught:
        await ask(made)
    assert (caught.value.code, caught.value.reason) == ("timeout", "")
    assert not isinstance(caught.value, registry.NoSlotError)
    built[0].go.set()
    assert text(await ask(made)) == "a"
    await registry.close()


async def test_an_answer_that_has_begun_is_not_bounded_by_the_time_to_the_first_token() -> None:
    class Slow(Counted):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
            yield TextDelta("a")
            await asyncio.sleep(0.4)
            yield TextDelta("b")

    made = registry.Shared(Slow(), replace(PLAIN, concurrency=1, first_token_seconds=0.2))
    assert text(await ask(made)) == "ab"
    await registry.close()


async def test_the_environments_row_is_the_provider_of_the_settings(settings: Settings) -> None:
    row = replace(PLAIN, from_environment=True, kind="environment")
    settings.LLM_PROVIDER, settings.LLM_SCRIPT = "scripted", ""
    assert isinstance(registry.provider_of(row), Scripted)
    assert registry.provider_of(row) is registry.current()
    await registry.close()
    settings.LLM_PROVIDER, settings.LLM_BASE_URL = "openai-compatible", "http://127.0.0.1:1/v1"
    assert isinstance(registry.provider_of(row), OpenAICompatible)
    await registry.close()
    settings.LLM_BASE_URL = ""
    with pytest.raises(ProviderError, match="GATEWAY_MODEL_URL"):
        await ask(registry.provider_of(row))


@pytest.mark.parametrize(
    ("key", "words"), [(f"{KEY}\n", "line break"), ("sk-…", "a character that no key has")]
)
async def test_an_environments_key_that_no_header_can_hold_is_said(
    server: ModelServer, settings: Settings, key: str, words: str
) -> None:
    """The one of the README, copied word for word, was "Something went wrong." in each chat."""
    settings.LLM_PROVIDER, settings.LLM_BASE_URL = "openai-compatible", server.url
    settings.LLM_API_KEY = key
    error = await failure(registry.current())
    assert (error.code, server.requests) == ("setup", [])
    assert error.reason.startswith("GATEWAY_MODEL_KEY: The key contains ")
    assert words in error.reason


async def test_each_event_loop_has_its_own_provider(built: list[Counted]) -> None:
    mine = registry.provider_of(PLAIN)

    async def other() -> Any:
        made = registry.provider_of(PLAIN)
        await registry.close()
        return made

    assert await asyncio.to_thread(lambda: asyncio.run(other())) is not mine
    await registry.close()


# Keys and addresses ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "key", "field", "says_"),
    [
        ({"kind": "openai"}, "", "key", "OpenAI wants a key."),
        ({"kind": "openai"}, "sk-a\nb", "key", "line break"),
        ({"kind": "openai"}, "sk-a\r\nX-Evil: 1", "key", "line break"),
        ({"kind": "openai"}, " sk-a", "key", "a space"),
        ({"kind": "openai"}, "sk-ä", "key", "a character"),
        ({"kind": "openai"}, "sk-\x00", "key", "a character"),
        ({"kind": "openai"}, "x" * 5000, "key", "too long"),
        ({"kind": "openai", "base_url": "ftp://x/v1"}, "k", "base_url", "begins with http"),
        ({"kind": "openai", "base_url": "api.openai.com"}, "k", "base_url", "begins with http"),
        ({"kind": "openai", "base_url": "https://"}, "k", "base_url", "names a server"),
        ({"kind": "openai", "base_url": "https://a:b@c/v1"}, "k", "base_url", "its own field"),
        ({"kind": "openai", "base_url": "https://c/v1?key=k"}, "k", "base_url", "behind ?"),
        ({"kind": "openai", "base_url": "https://c/v1#a"}, "k", "base_url", "behind ?"),
        ({"kind": "openai", "base_url": "https://c:x/v1"}, "k", "base_url", "not an address"),
        ({"kind": "openai", "base_url": "https://c d/v1"}, "k", "base_url", "no spaces"),
        ({"kind": "openai", "base_url": "https://[::1/v1"}, "k", "base_url", "not an address"),
        ({}, "", "base_url", "An address is needed"),
        ({"kind": "environment"}, "", "kind", "Choose the kind"),
        ({"kind": "nonsense"}, "", "kind", "Choose the kind"),
        ({"kind": "ollama", "first_token_seconds": 0}, "", "first_token_seconds", "from 1"),
        ({"kind": "ollama", "idle_seconds": 10**6}, "", "idle_seconds", "from 1"),
    ],
)
def test_a_wrong_field_is_said_beside_it(
    fields: dict[str, Any], key: str, field: str, says_: str
) -> None:
    found = vendors.problems(provider(**fields), key, resolve=lambda host, port: ["93.184.216.34"])
    assert list(found) == [field]
    assert says_ in found[field]
    assert len(key) < 4 or key not in found[field]


@pytest.mark.parametrize("kind", [each for each in vendors.VENDORS if each != "openai-compatible"])
def test_a_vendor_needs_no_address(kind: str) -> None:
    row = provider(kind=kind, allow_private=False)
    assert vendors.problems(row, "key") == {}
    assert vendors.address_of(row).startswith("http")


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "192.168.1.5", "172.20.0.2", "::1", "fd12::1", "::ffff:10.0.0.1",
        "100.100.1.1",
    ],
)  # fmt: skip
def test_an_address_inside_the_network_needs_the_owners_permission(address: str) -> None:
    row = provider(base_url="http://model.example:8000/v1", allow_private=False)

    def resolve(host: str, port: int) -> list[str]:
        assert (host, port) == ("model.example", 8000)
        return ["93.184.216.34", address]

    found = vendors.problems(row, "", resolve=resolve)
    assert "inside your network" in found["base_url"]
    assert vendors.problems(replace(row, allow_private=True), "", resolve=resolve) == {}


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "fd00:ec2::254",
        "::ffff:169.254.169.254", "fe80::1", "0.0.0.0", "224.0.0.1", "64:ff9b::7f00:1",
    ],
)  # fmt: skip
@pytest.mark.parametrize("private", [True, False])
def test_metadata_services_are_never_asked(address: str, private: bool) -> None:
    row = provider(base_url="http://model.example/v1", allow_private=private)
    found = vendors.problems(row, "", resolve=lambda host, port: [address])
    assert "never asked" in found["base_url"]


@pytest.mark.parametrize(
    "url", ["http://2130706433/v1", "http://0x7f.1/v1", "http://localhost/v1", "http://127.1/v1"]
)
def test_other_spellings_of_this_machine_are_found(url: str) -> None:
    found = vendors.problems(provider(base_url=url, allow_private=False), "")
    assert "inside your network" in found["base_url"]


async def test_a_name_with_a_link_local_address_beside_its_own_is_used_by_its_own() -> None:
    """As mDNS gives them."""
    found = ["fe80::1%2", "192.168.1.5"]
    row = provider(base_url="http://box.local/v1")
    assert vendors.problems(row, "", resolve=lambda host, port: found) == {}
    assert "never asked" in vendors.problems(row, "", resolve=lambda *_: found[:1])["base_url"]

    async def resolve(host: str, port: int) -> list[str]:
        return found

    allowed = addresses.allowed_of(private=True)
    [only] = await addresses.CheckedResolver(allowed, resolve).resolve("box.local", 80)
    assert only["host"] == "192.168.1.5"


def test_a_name_that_does_not_resolve_can_be_saved() -> None:
    def resolve(host: str, port: int) -> list[str]:
        raise OSError

    row = provider(base_url="http://off.example/v1", allow_private=False)
    assert vendors.problems(row, "", resolve=resolve) == {}


async def test_a_name_that_leads_inside_later_is_not_connected_to(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address that was checked when it was saved is checked again when connecting."""
    server.replies = [streams(hello("a"))]
    port = server.url.split(":")[2].split("/")[0]
    answers = ["127.0.0.1"]

    async def resolve(host: str, port: int) -> list[str]:
        return answers

    made = addresses.session
    monkeypatch.setattr(
        addresses, "session", lambda allowed, **more: made(allowed, resolve=resolve)
    )
    row = provider(base_url=f"http://model.example:{port}/v1", allow_private=True)
    assert text(await ask(registry.provider_of(row))) == "a"
    guarded = registry.provider_of(replace(row, allow_private=False))
    error = await failure(guarded)
    assert error.code == "setup"
    assert "inside the network" in error.reason
    answers[:] = ["169.254.169.254"]
    error = await failure(registry.provider_of(replace(row, id=2)))
    assert error.code == "setup"


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "169.254.169.254"])
async def test_addresses_in_numbers_are_checked_when_connecting(
    host: str, server: ModelServer
) -> None:
    port = server.url.split(":")[2].split("/")[0]
    private = host == "169.254.169.254"
    row = provider(base_url=f"http://{host}:{port}/v1", allow_private=private)
    error = await failure(registry.provider_of(row))
    assert error.code == "setup"
    assert server.requests == []


async def test_the_vendors_own_address_needs_no_permission(server: ModelServer) -> None:
    row = provider(kind="ollama", allow_private=False)
    assert vendors.allowed_of(row)(ip_address("127.0.0.1"))
    assert not vendors.allowed_of(row)(ip_address("169.254.169.254"))


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("openai-compatible", "http://x/v1/", "http://x/v1"),
        ("openai-compatible", " http://x/v1/chat/completions ", "http://x/v1"),
        ("openai", "", "https://api.openai.com/v1"),
        ("ollama", "http://x:11434", "http://x:11434/v1"),
        ("ollama", "http://x:11434/api/", "http://x:11434/v1"),
        ("ollama", "http://x:11434/v1", "http://x:11434/v1"),
        ("anthropic", "https://x/v1/messages", "https://x"),
        ("anthropic", "https://x/v1", "https://x"),
        ("google", "https://x/v1beta/", "https://x"),
        ("mistral", "https://x/v1/models", "https://x/v1"),
    ],
)
def test_addresses_are_understood_as_people_paste_them(
    kind: str, given: str, expected: str
) -> None:
    assert vendors.address_of(provider(kind=kind, base_url=given)) == expected


async def test_a_row_that_is_not_usable_says_why(settings: Settings) -> None:
    sealed = provider(base_url="http://127.0.0.1:1/v1", key=KEY)
    settings.GATEWAY_ENCRYPTION_KEYS = ["another key"]
    assert "decrypted" in (await failure(vendors.build(sealed))).reason
    injected = provider(base_url="http://127.0.0.1:1/v1", key="a\nX-Evil: 1")
    assert "line break" in (await failure(vendors.build(injected))).reason
    for row in (provider(kind="openai"), provider(), provider(kind="nonsense")):
        error = await failure(vendors.build(row))
        assert error.code == "setup"
        assert error.reason


def test_a_row_has_its_values_before_it_is_stored() -> None:
    row = ModelProvider(name="x", kind="ollama", concurrency=3)
    row.secrets = encryption.encrypt({"key": KEY})
    made = catalogue.provider_info(row)
    assert (made.id, made.name, made.kind, made.concurrency) == (0, "x", "ollama", 3)
    assert vendors.key_of(made) == KEY


# Deviations of vendors ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "there", "gone"),
    [
        ("openai", {"max_completion_tokens": 7, "seed": 1}, ["max_tokens"]),
        ("openai-compatible", {"max_tokens": 7, "seed": 1}, ["max_completion_tokens"]),
        ("ollama", {"max_tokens": 7}, ["max_completion_tokens"]),
        ("mistral", {"max_tokens": 7, "random_seed": 1}, ["stream_options", "seed"]),
        ("groq", {"max_tokens": 7}, []),
        ("deepseek", {"max_tokens": 7}, []),
        ("openrouter", {"max_tokens": 7}, []),
    ],
)
async def test_each_vendor_gets_the_fields_that_it_knows(
    kind: str, there: dict[str, Any], gone: list[str], server: ModelServer
) -> None:
    server.replies = [streams(hello("a"))]
    row = provider(kind=kind, base_url=server.url, key=KEY)
    request = replace(ASKED, options={"max_tokens": 7, "seed": 1})
    assert text(await ask(registry.provider_of(row), request)) == "a"
    [body] = server.requests
    assert body.items() >= there.items()
    assert not body.keys() & set(gone)
    assert request.options == {"max_tokens": 7, "seed": 1}


@pytest.mark.parametrize(
    ("url", "adapt"),
    [
        ("https://api.openai.com/v1", vendors.for_openai),
        ("https://ada.openai.azure.com/openai/v1", vendors.for_openai),
        ("https://api.mistral.ai/v1", vendors.for_mistral),
        ("https://API.DeepSeek.com", vendors.short_answers),
        ("http://127.0.0.1:11434/v1", None),
        ("https://openai.com.example/v1", None),
        ("https://[", None),
    ],
)
def test_a_vendor_is_known_by_its_address(url: str, adapt: Any) -> None:
    assert vendors.adapt_of(vendors.Kind.OPENAI_COMPATIBLE, url) is adapt
    assert vendors.adapt_of(vendors.Kind.MISTRAL, url) is vendors.for_mistral


@pytest.mark.parametrize("is_row", [True, False])
async def test_a_vendor_that_is_set_up_by_its_address_gets_the_fields_that_it_knows(
    server: ModelServer, settings: Settings, monkeypatch: pytest.MonkeyPatch, is_row: bool
) -> None:
    monkeypatch.setitem(vendors.BY_HOST, "127.0.0.1", vendors.for_openai)
    server.replies = [streams(hello("a"))]
    settings.LLM_PROVIDER, settings.LLM_BASE_URL = "openai-compatible", server.url
    row = provider(kind="openai-compatible", base_url=server.url)
    made = registry.provider_of(row) if is_row else registry.of_settings()
    await ask(made, replace(ASKED, options={"max_tokens": 7}))
    assert server.requests[0]["max_completion_tokens"] == 7
    assert "max_tokens" not in server.requests[0]
    await made.close()


@pytest.mark.parametrize("kind", ["ollama", "mistral", "deepseek"])
async def test_the_newer_name_of_the_limit_becomes_the_older(
    kind: str, server: ModelServer
) -> None:
    server.replies = [streams(hello("a"))]
    row = provider(kind=kind, base_url=server.url, key=KEY)
    request = replace(ASKED, options={"max_completion_tokens": 7})
    await ask(registry.provider_of(row), request)
    assert server.requests[0]["max_tokens"] == 7
    assert "max_completion_tokens" not in server.requests[0]


async def test_calls_of_another_model_get_ids_that_openai_accepts(server: ModelServer) -> None:
    """vLLM's have 46 characters; OpenAI refuses more than 40."""
    server.replies = [streams(hello("a"))]
    long, short = f"chatcmpl-tool-{'0' * 32}", f"call_{'1' * 35}"
    function = {"name": "f", "arguments": "{}"}
    calls = [{"id": each, "type": "function", "function": function} for each in (long, short)]
    request = ModelRequest(
        [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "tool", "tool_call_id": long, "content": "1"},
            {"role": "tool", "tool_call_id": short, "content": "2"},
        ]
    )
    await ask(registry.provider_of(provider(kind="openai", base_url=server.url, key=KEY)), request)
    messages = server.requests[0]["messages"]
    first, second = (each["id"] for each in messages[1]["tool_calls"])
    assert len(first) == 40
    assert second == short
    assert [each["tool_call_id"] for each in messages[2:]] == [first, second]


async def test_calls_of_another_model_get_ids_that_mistral_accepts(server: ModelServer) -> None:
    server.replies = [streams(hello("a"))]
    call = {"id": "call_00-x", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    request = ModelRequest(
        [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "", "tool_calls": [call, {**call, "id": "abcDEF123"}]},
            {"role": "tool", "tool_call_id": "call_00-x", "content": "1"},
            {"role": "tool", "tool_call_id": "abcDEF123", "content": "2"},
        ]
    )
    await ask(registry.provider_of(provider(kind="mistral", base_url=server.url, key=KEY)), request)
    messages = server.requests[0]["messages"]
    first, second = (each["id"] for each in messages[1]["tool_calls"])
    assert vendors.CALL_ID.fullmatch(first)
    assert second == "abcDEF123"
    assert [each["tool_call_id"] for each in messages[2:]] == [first, second]
    assert request.messages[2]["tool_call_id"] == "call_00-x"


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 4},
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            Usage(10, 5, 4, 3),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 6},
            Usage(10, 5, 6),
        ),
        # Reasoning that is not among the completion's tokens: xAI, and Google's compatible API.
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "total_tokens": 18,
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            Usage(10, 8, 0, 3),
        ),
        (
            {"prompt_tokens": 20, "completion_tokens": 424, "total_tokens": 1016},
            Usage(20, 996, 0, 572),
        ),
        (
            {
                "prompt_tokens": 20,
                "completion_tokens": 4,
                "total_tokens": 90,
                "prompt_tokens_details": {"cached_tokens": 16},
            },
            Usage(20, 4, 16),
        ),
        ({"prompt_tokens": 10, "prompt_tokens_details": None}, Usage(10, 0)),
        ({"prompt_tokens": -5, "completion_tokens": 10**18}, Usage(0, 1_000_000_000)),
        (
            {"prompt_tokens": 1, "completion_tokens": 1,
             "prompt_tokens_details": {"cached_tokens": 99}},
            Usage(1, 1, 1),
        ),
    ],
)  # fmt: skip
async def test_cached_and_reasoning_tokens_are_read(
    usage: dict[str, Any], expected: Usage, server: ModelServer
) -> None:
    body = sse(chunk({"content": "a"}), chunk(finish="stop"), {"choices": [], "usage": usage})
    server.replies = [streams(body)]
    deltas = await ask(registry.provider_of(provider(base_url=server.url)))
    assert deltas[-2:] == [expected, Finish("stop")]


async def test_usage_in_each_chunk_counts_once(server: ModelServer) -> None:
    """Some servers send the sum so far with each token; Groq had a field of its own."""
    chunks = [
        chunk({"content": "a"}, usage={"prompt_tokens": 5, "completion_tokens": number})
        for number in (1, 2, 3)
    ]
    last = {"choices": [], "x_groq": {"usage": {"prompt_tokens": 5, "completion_tokens": 4}}}
    server.replies = [streams(sse(*chunks, chunk(finish="stop"), last))]
    deltas = await ask(registry.provider_of(provider(base_url=server.url)))
    assert [each for each in deltas if isinstance(each, Usage)] == [Usage(5, 4)]
    # Also of an answer that breaks off: the last known is counted.
    server.replies = [streams(sse(*chunks, done=False), cut=True, pause=0.05)]
    found: list[Delta] = []
    made = registry.provider_of(provider(base_url=server.url))
    with pytest.raises(ProviderError):
        async with aclosing(made.stream(ASKED)) as stream:
            async for delta in stream:
                found.append(delta)  # noqa: PERF401 - an error ends it
    assert found[-1] == Usage(5, 3)


async def test_zeros_are_no_report_of_usage(server: ModelServer) -> None:
    """Such a call is to be estimated."""
    nothing = {"prompt_tokens": 0, "completion_tokens": 0}
    server.replies = [streams(sse(chunk({"content": "a"}), chunk(finish="stop", usage=nothing)))]
    deltas = await ask(registry.provider_of(provider(base_url=server.url)))
    assert deltas == [TextDelta("a"), Finish("stop")]


async def test_content_in_parts_is_text_and_thoughts(server: ModelServer) -> None:
    """As Mistral's reasoning models send it."""
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "a"},
        {"type": "reference", "reference_ids": [1]},
    ]
    server.replies = [streams(sse(chunk({"content": parts}), chunk(finish="stop")))]
    made = registry.provider_of(provider(kind="mistral", base_url=server.url, key=KEY))
    deltas = await ask(made)
    assert [getattr(each, "text", "") for each in deltas] == ["hm", "a", ""]


async def test_a_key_that_the_server_repeats_is_hidden(server: ModelServer) -> None:
    made = registry.provider_of(provider(base_url=server.url, key=KEY))

    async def echo(request: Any) -> Any:
        from aiohttp import web

        return web.json_response({"error": {"message": f"bad {KEY}!"}}, status=400)

    server.replies = [echo]
    assert (await failure(made)).reason == "bad [key]!"
    server.replies = [streams(b"hello " + KEY.encode() + b" \r\nmore\r\n")]
    assert "[key]" in (await failure(made)).reason
    frame = {"error": {"message": f"in the stream: {KEY}"}}
    server.replies = [streams(sse(chunk({"content": "a"}), frame))]
    assert (await failure(made)).reason == "in the stream: [key]"
    server.replies = [says(500)]
    await failure(made)


@pytest.mark.unmeasured
def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    """Each process imports the registry; few need 40 to 150 MB of a vendor's package."""
    heavy = ["pydantic", "pydantic_ai", "genai_prices", "anthropic", "google.genai", "openai"]
    code = (
        "import django, sys; django.setup()\n"
        "from core.providers import examine, prices, registry, vendors\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.stdout == "[]\n", ended.stderr


async def test_a_row_that_is_not_usable_keeps_nothing_of_its_calls() -> None:
    """Each call added the places in which it failed, with all messages, until the row changed."""
    made = vendors.build(provider(base_url="http://127.0.0.1", key=f"{KEY} b"))
    lengths = []
    for _ in range(3):
        error = await failure(made)
        names = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]
        assert "usable" not in names
        lengths.append(len(names))
    assert len(set(lengths)) == 1
