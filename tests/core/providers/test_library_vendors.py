"""Anthropic and Google through the agent library, against servers that speak their wires."""

import asyncio
import logging
import re
import traceback
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from core.providers import library_clients, vendors
from core.providers.base import (
    ChatMessage,
    Delta,
    Finish,
    ModelRequest,
    Provider,
    ProviderError,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    Usage,
)
from tests.core.providers.conftest import running
from tests.core.providers.model_server import hangs, streams
from tests.core.providers.rows import provider
from tests.core.providers.vendor_server import (
    VendorServer,
    anthropic_call,
    anthropic_end,
    anthropic_start,
    anthropic_stream,
    anthropic_text,
    google_chunk,
    google_stream,
    json_reply,
    page,
    redirect,
)

KEY = "planted-Key/0123456789+abcdef"
MESSAGES = "/v1/messages"
GEMINI = "/v1beta/models/gemini-2.5-flash:streamGenerateContent"
NAMES = {"anthropic": "claude-opus-5", "google": "gemini-2.5-flash"}
HI = [{"role": "user", "content": "hi"}]
PATHS = {"anthropic": MESSAGES, "google": GEMINI}
TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Looks up.",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    },
}


@pytest.fixture
async def server() -> AsyncIterator[VendorServer]:
    """Start a server of all wires."""
    async with running(VendorServer()) as made:
        yield made


@pytest.fixture(params=["anthropic", "google"])
def kind(request: pytest.FixtureRequest) -> str:
    """Return each kind: the tests are the contract of both."""
    return str(request.param)


@pytest.fixture
async def model(kind: str, server: VendorServer) -> AsyncIterator[Provider]:
    """Return the provider of a row."""
    made = vendors.build(provider(kind=kind, key=KEY, base_url=server.root))
    yield made
    await made.close()


def asking(kind: str, **fields: Any) -> ModelRequest:
    """Return a request to the kind's model."""
    return ModelRequest(HI, model=NAMES[kind], **fields)


async def ask(model: Provider, request: ModelRequest) -> list[Delta]:
    """Return the deltas of one answer."""
    async with asyncio.timeout(90), aclosing(model.stream(request)) as stream:
        return [delta async for delta in stream]


async def failure(model: Provider, request: ModelRequest) -> ProviderError:
    """Return the failure of an answer; nothing of it shows the key or the address."""
    with pytest.raises(ProviderError) as caught:
        await ask(model, request)
    shown = "".join(traceback.format_exception(caught.value)) + repr(vars(caught.value))
    assert KEY not in shown
    assert "127.0.0.1" not in f"{caught.value} {caught.value.reason}"
    return caught.value


def text(deltas: list[Delta]) -> str:
    return "".join(each.text for each in deltas if isinstance(each, TextDelta))


def calls(deltas: list[Delta]) -> dict[int, tuple[str, str]]:
    """Return the names and arguments of calls."""
    found: dict[int, tuple[str, str]] = {}
    for each in deltas:
        if isinstance(each, ToolCallDelta):
            name, arguments = found.get(each.index, ("", ""))
            found[each.index] = name + each.name, arguments + each.arguments
    return found


HELLO = {
    "anthropic": anthropic_stream(
        anthropic_start(cache_read_input_tokens=90, cache_creation_input_tokens=0),
        {"type": "ping"},
        *anthropic_text(0, "Grüße, ", "世界"),
        *anthropic_end(output_tokens_details={"thinking_tokens": 3}),
    ),
    "google": google_stream(
        google_chunk({"text": "hm", "thought": True}),
        google_chunk({"text": "Grüße, "}),
        google_chunk(
            {"text": "世界"},
            finish="STOP",
            promptTokenCount=100,
            cachedContentTokenCount=90,
            candidatesTokenCount=4,
            thoughtsTokenCount=3,
            totalTokenCount=107,
        ),
    ),
}


@pytest.mark.parametrize("size", [0, 1, 7])
async def test_an_answer_is_streamed_with_its_cached_and_reasoning_tokens(
    size: int, kind: str, server: VendorServer, model: Provider
) -> None:
    server.on(PATHS[kind], streams(HELLO[kind], size=size))
    deltas = await ask(model, asking(kind))
    assert text(deltas) == "Grüße, 世界"
    assert deltas[-2:] == [Usage(100, 7, cached_tokens=90, reasoning_tokens=3), Finish("stop")]
    if kind == "google":
        assert ThinkingDelta("hm") in deltas


async def test_a_call_that_google_could_not_read_is_a_failure(server: VendorServer) -> None:
    last = google_chunk({"text": "I make"}, finish="MALFORMED_FUNCTION_CALL", promptTokenCount=9)
    server.on(GEMINI, streams(google_stream(last)))
    model = vendors.build(provider(kind="google", key=KEY, base_url=server.root))
    error = await failure(model, asking("google"))
    assert (error.code, error.retry_after is None) == ("bad_stream", False)
    await model.close()


async def test_the_key_and_the_request_have_the_vendors_form(
    kind: str, server: VendorServer, model: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys and addresses of the environment are not used."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "of-the-environment")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    server.on(PATHS[kind], streams(HELLO[kind]))
    await ask(model, asking(kind, tools=[TOOL], options={"max_completion_tokens": 77}))
    [body] = server.asked(PATHS[kind])
    [headers] = server.headers
    assert "of-the-environment" not in str(headers)
    if kind == "anthropic":
        assert headers["x-api-key"] == KEY
        assert "authorization" not in headers
        assert (body["model"], body["max_tokens"]) == ("claude-opus-5", 77)
        assert body["tools"][0]["name"] == "look_up"
    else:
        assert headers["x-goog-api-key"] == KEY
        assert body["generationConfig"]["maxOutputTokens"] == 77
        assert body["tools"][0]["functionDeclarations"][0]["name"] == "look_up"


async def test_tools_are_called_and_their_results_are_sent(
    kind: str, server: VendorServer, model: Provider
) -> None:
    stream = {
        "anthropic": anthropic_stream(
            anthropic_start(),
            *anthropic_text(0, "Let me see."),
            *anthropic_call(1, "look_up", '{"a"', ": 1}"),
            *anthropic_call(2, "look_up", '{"a": 2}'),
            *anthropic_end("tool_use"),
        ),
        "google": google_stream(
            google_chunk({"text": "Let me see."}),
            google_chunk({"functionCall": {"name": "look_up", "args": {"a": 1}}}),
            google_chunk({"functionCall": {"name": "look_up", "args": {"a": 2}}}, finish="STOP"),
        ),
    }
    server.on(PATHS[kind], streams(stream[kind]), streams(HELLO[kind]))
    deltas = await ask(model, asking(kind, tools=[TOOL]))
    assert text(deltas) == "Let me see."
    made = [(name, arguments.replace(" ", "")) for name, arguments in calls(deltas).values()]
    assert made == [("look_up", '{"a":1}'), ("look_up", '{"a":2}')]
    assert deltas[-1] == Finish("tool_calls")
    again = ModelRequest(
        [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": "Let me see.",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "look_up", "arguments": '{"a": 1}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "42"},
            {"role": "tool", "tool_call_id": "c2", "content": ""},
        ],
        tools=[TOOL],
        model=NAMES[kind],
    )
    assert text(await ask(model, again)) == "Grüße, 世界"
    sent = str(server.asked(PATHS[kind])[-1])
    assert "42" in sent
    assert "Be kind." in sent
    assert "(empty)" in sent


@pytest.mark.parametrize("name", ["", "look_up"])
async def test_a_client_that_forces_a_call_gets_one(
    name: str, kind: str, server: VendorServer, model: Provider
) -> None:
    """Without it, LangChain's ``with_structured_output`` gets prose."""
    server.on(PATHS[kind], streams(HELLO[kind]))
    wanted = {"type": "function", "function": {"name": name}} if name else "required"
    other = {"type": "function", "function": {"name": "other"}}
    await ask(model, asking(kind, tools=[TOOL, other], options={"tool_choice": wanted}))
    [body] = server.asked(PATHS[kind])
    if kind == "anthropic":
        assert body["tool_choice"] == ({"type": "tool", "name": name} if name else {"type": "any"})
    else:
        chosen = body["toolConfig"]["functionCallingConfig"]
        assert chosen == {"mode": "ANY", **({"allowedFunctionNames": [name]} if name else {})}


async def test_a_forced_call_that_the_model_cannot_be_given_is_refused(
    kind: str, server: VendorServer, model: Provider
) -> None:
    error = await failure(model, asking(kind, options={"tool_choice": "required"}))
    assert (error.code, server.asked(PATHS[kind])) == ("bad_request", [])


@pytest.mark.parametrize("tools", [[], [TOOL]])
@pytest.mark.parametrize("is_named", [True, False])
async def test_a_client_that_asks_for_json_gets_it(
    is_named: bool, tools: list[dict[str, Any]], kind: str, server: VendorServer, model: Provider
) -> None:
    """The form is told in words, as models with tools are not held to one by all vendors."""
    server.on(PATHS[kind], streams(HELLO[kind]))
    schema = {"type": "object", "properties": {"braces {}": {"type": "string"}}}
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    wanted = form if is_named else {"type": "json_object"}
    await ask(model, asking(kind, tools=tools, options={"response_format": wanted}))
    [body] = server.asked(PATHS[kind])
    told = str(body["system" if kind == "anthropic" else "systemInstruction"])
    assert "JSON" in told
    assert ("braces {}" in told) == is_named


@pytest.mark.parametrize("kind", ["google"], indirect=True)
async def test_a_model_that_takes_no_instructions_gets_them_with_the_question(
    kind: str, server: VendorServer, model: Provider
) -> None:
    """As Gemma at Google: a test of the model passed, and each turn was refused."""
    words = "Developer instruction is not enabled for models/gemma-3-27b-it"
    refusal = {"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}
    server.on(PATHS[kind], json_reply(refusal, 400), streams(HELLO[kind]))
    asked = replace(asking(kind), messages=[{"role": "system", "content": "Be kind."}, *HI])
    for _ in range(2):
        assert text(await ask(model, asked)) == "Grüße, 世界"
    first, *others = server.asked(PATHS[kind])
    assert "systemInstruction" in first
    for body in others:
        assert body["contents"] == [{"role": "user", "parts": [{"text": "Be kind.\n\nhi"}]}]
        assert "systemInstruction" not in body
    assert len(others) == 2


@pytest.mark.parametrize("kind", ["anthropic"], indirect=True)
async def test_a_model_that_takes_one_limit_of_its_choice_gets_one(
    kind: str, server: VendorServer, model: Provider
) -> None:
    """As Claude 4.5: clients that always send both, as many do, were refused. One alone is sent."""
    words = "`temperature` and `top_p` cannot both be specified for this model."
    refusal = {"type": "error", "error": {"type": "invalid_request_error", "message": words}}
    server.on(PATHS[kind], json_reply(refusal, 400), streams(HELLO[kind]))
    both = {"temperature": 0.5, "top_p": 1}
    for options in (both, both, {"top_p": 0.9}):
        asked = replace(asking(kind, options=options), model="claude-sonnet-4-6")
        assert text(await ask(model, asked)) == "Grüße, 世界"
    sent = [(each.get("temperature"), each.get("top_p")) for each in server.asked(PATHS[kind])]
    assert sent == [(0.5, 1), (0.5, None), (0.5, None), (None, 0.9)]


async def test_a_client_limits_the_choice_of_tokens(
    kind: str, server: VendorServer, model: Provider
) -> None:
    server.on(PATHS[kind], streams(HELLO[kind]))
    older = {"anthropic": "claude-sonnet-4-6", "google": "gemini-2.5-flash"}
    for given in (7, 0, -1, "7"):  # the others mean all at local servers, or are not checked
        await ask(model, replace(asking(kind, options={"top_k": given}), model=older[kind]))
    first, *others = server.asked(PATHS[kind])
    sent = first["top_k"] if kind == "anthropic" else first["generationConfig"]["topK"]
    assert (sent, len(others)) == (7, 3)
    assert "top_k" not in str(others)
    assert "topK" not in str(others)


async def test_a_client_that_asks_for_text_is_told_nothing_of_json(
    kind: str, server: VendorServer, model: Provider
) -> None:
    server.on(PATHS[kind], streams(HELLO[kind]))
    await ask(model, asking(kind, options={"response_format": {"type": "text"}}))
    assert "JSON" not in str(server.asked(PATHS[kind]))


async def test_calls_of_another_model_get_ids_that_anthropic_accepts(
    server: VendorServer,
) -> None:
    """As Kimi's and LiteLLM's, which have dots, colons and thousands of characters."""
    server.on(MESSAGES, streams(HELLO["anthropic"]))
    model = vendors.build(provider(kind="anthropic", key=KEY, base_url=server.root))
    names = ["functions.look_up:0", "toolu_1"]
    function = {"name": "look_up", "arguments": "{}"}
    asked = [{"id": each, "type": "function", "function": function} for each in names]
    messages: list[ChatMessage] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "", "tool_calls": asked},
        *({"role": "tool", "tool_call_id": each, "content": "42"} for each in names),
    ]
    await ask(model, ModelRequest(messages, tools=[TOOL], model=NAMES["anthropic"]))
    _, called, given = server.asked(MESSAGES)[0]["messages"]
    sent = [each["id"] for each in called["content"]]
    assert re.fullmatch("[a-zA-Z0-9_-]+", sent[0])
    assert sent[1] == "toolu_1"
    assert [each["tool_use_id"] for each in given["content"]] == sent
    await model.close()


async def test_an_answer_without_usage_reports_none(
    kind: str, server: VendorServer, model: Provider
) -> None:
    stream = {
        "anthropic": anthropic_stream(
            anthropic_start(input_tokens=0, output_tokens=0),
            *anthropic_text(0, "a"),
            *anthropic_end(output_tokens=0),
        ),
        "google": google_stream(google_chunk({"text": "a"}, finish="STOP")),
    }
    server.on(PATHS[kind], streams(stream[kind]))
    assert await ask(model, asking(kind)) == [TextDelta("a"), Finish("stop")]


@pytest.mark.parametrize("usage", [None, "left out"])
@pytest.mark.parametrize("size", [0, 7])
async def test_a_compatible_server_may_leave_names_of_events_and_usage_out(
    usage: str | None, size: int, server: VendorServer
) -> None:
    """As MiniMax's, and proxies in front of other models. The tokens are estimated then."""
    start, end = anthropic_start(), anthropic_end()
    for holder in (start["message"], end[0]):
        del holder["usage"]
        if usage is None:
            holder["usage"] = None
    events = anthropic_stream(start, *anthropic_text(0, "Grüße, ", "世界"), *end)
    lines = events.replace(b"\n", b"\r\n").splitlines(keepends=True)
    unnamed = b"".join(line for line in lines if not line.startswith(b"event:"))
    model = vendors.build(provider(kind="anthropic", key=KEY, base_url=server.root))
    for body in (events, unnamed, unnamed.rstrip()):
        server.on(MESSAGES, streams(body, size=size))
        deltas = await ask(model, asking("anthropic"))
        assert deltas == [TextDelta("Grüße, "), TextDelta("世界"), Finish("stop")]
    await model.close()


async def test_an_error_without_the_name_of_its_event_has_its_code(server: VendorServer) -> None:
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    body = anthropic_stream(anthropic_start(), overloaded)
    server.on(MESSAGES, streams(body.replace(b"event: error\n", b"")))
    model = vendors.build(provider(kind="anthropic", key=KEY, base_url=server.root))
    assert (await failure(model, asking("anthropic"))).code == "overloaded"
    await model.close()


@pytest.mark.parametrize(
    ("status", "headers", "code", "seconds"),
    [
        (401, {}, "unauthorised", None),
        (403, {}, "unauthorised", None),
        (404, {}, "not_found", None),
        (429, {"Retry-After": "7"}, "rate_limited", 7.0),
        (429, {"retry-after-ms": "1500"}, "rate_limited", 1.5),
        (429, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, "rate_limited", 0.0),
        (503, {"Retry-After": "9"}, "overloaded", 9.0),
        (529, {"Retry-After": "3"}, "overloaded", 3.0),
        (500, {}, "server", 1.0),
    ],
)
async def test_refusals_are_classed_with_the_time_to_wait_and_not_retried(
    status: int,
    headers: dict[str, str],
    code: str,
    seconds: float | None,
    kind: str,
    server: VendorServer,
    model: Provider,
) -> None:
    """The key that the server repeats is hidden, also where the text is cut within it."""
    bodies = {
        "anthropic": {"type": "error", "error": {"type": "x", "message": f"no {KEY} no"}},
        "google": {"error": {"code": status, "message": f"no {KEY} no", "status": "X"}},
    }
    server.on(PATHS[kind], json_reply(bodies[kind], status, **headers))
    error = await failure(model, asking(kind))
    assert (error.code, error.retry_after) == (code, seconds)
    assert "[key]" in error.reason
    assert len(server.requests) == 1


async def test_google_says_in_the_body_how_long_to_wait(server: VendorServer) -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "31s"}]
    error = {"code": 429, "message": "x", "status": "RESOURCE_EXHAUSTED", "details": details}
    server.on(GEMINI, json_reply({"error": error}, 429))
    model = vendors.build(provider(kind="google", key=KEY, base_url=server.root))
    found = await failure(model, asking("google"))
    assert (found.code, found.retry_after) == ("rate_limited", 31)
    await model.close()


@pytest.mark.parametrize("length", range(470, 505))
async def test_a_key_that_is_cut_at_the_end_of_a_text_is_hidden(
    length: int, server: VendorServer
) -> None:
    message = "x" * length + KEY
    server.on(MESSAGES, json_reply({"error": {"message": message}}, 400))
    model = vendors.build(provider(kind="anthropic", key=KEY, base_url=server.root))
    error = await failure(model, asking("anthropic"))
    assert KEY[:6] not in error.reason
    await model.close()


async def test_an_error_within_the_stream_has_its_code(
    kind: str, server: VendorServer, model: Provider
) -> None:
    overloaded = {"type": "overloaded_error", "message": "Overloaded"}
    body = {
        "anthropic": anthropic_stream(
            anthropic_start(), *anthropic_text(0, "a"), {"type": "error", "error": overloaded}
        ),
        "google": google_stream(
            google_chunk({"text": "a"}),
            {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}},
        ),
    }
    server.on(PATHS[kind], streams(body[kind]))
    assert (await failure(model, asking(kind))).code == "overloaded"


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        (b"", {"cut"}),
        (b"event: x\ndata: {\n\n", {"bad_stream", "cut"}),
        (b"data: not json\n\n", {"bad_stream", "cut"}),
        (b"data: []\n\n", {"bad_stream", "cut"}),
        (b'event: message_start\ndata: {"type": "message_start"}\n\n', {"bad_stream", "cut"}),
        (b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 3, "delta": '
         b'{"type": "text_delta", "text": "a"}}\n\n', {"bad_stream", "cut"}),
        (b'data: {"candidates": "x"}\n\n', {"bad_stream", "cut"}),
        (b'data: {"candidates": [{"content": {"parts": [{"functionCall": 7}]}}]}\n\n',
         {"bad_stream", "cut"}),
        (b"220 smtp.example.org ESMTP\r\n", {"bad_stream", "cut"}),
    ],
)  # fmt: skip
async def test_garbage_is_a_failure_with_a_code(
    body: bytes, codes: set[str], kind: str, server: VendorServer, model: Provider
) -> None:
    server.on(PATHS[kind], streams(body))
    assert (await failure(model, asking(kind))).code in codes


async def test_texts_of_another_type_are_texts(server: VendorServer) -> None:
    """Anthropic's package does not check what it reads."""
    odd = anthropic_text(0, "a")
    odd[1]["delta"]["text"] = 7
    call = anthropic_call(1, "look_up", "{}")
    call[1]["delta"]["partial_json"] = 1.5
    body = anthropic_stream(anthropic_start(), *odd, *call, *anthropic_end("tool_use"))
    server.on(MESSAGES, streams(body))
    model = vendors.build(provider(kind="anthropic", key=KEY, base_url=server.root))
    deltas = await ask(model, asking("anthropic", tools=[TOOL]))
    assert text(deltas) == "7"
    assert calls(deltas)[1] == ("look_up", "1.5")
    await model.close()


async def test_a_stream_that_breaks_off_is_cut(
    kind: str, server: VendorServer, model: Provider
) -> None:
    body = HELLO[kind][: HELLO[kind].index("世".encode())]
    server.on(PATHS[kind], streams(body, size=50, pause=0.01, cut=True))
    assert (await failure(model, asking(kind))).code == "cut"


async def test_a_web_page_and_a_redirect_are_no_model_server(
    kind: str, server: VendorServer, model: Provider
) -> None:
    """The key does not follow a redirect."""
    server.on("/stolen", streams(HELLO[kind]))
    server.on(PATHS[kind], redirect(f"{server.root}/stolen"), page())
    assert (await failure(model, asking(kind))).code == "no_model_server"
    assert (await failure(model, asking(kind))).code == "no_model_server"
    assert server.asked("/stolen") == []


async def test_silence_before_and_within_the_answer_times_out(
    kind: str, server: VendorServer
) -> None:
    hasty = provider(
        kind=kind, key=KEY, base_url=server.root, first_token_seconds=0.5, idle_seconds=0.5
    )
    model = vendors.build(hasty)
    server.on(PATHS[kind], hangs())
    assert (await failure(model, asking(kind))).code == "timeout"
    server.on(PATHS[kind], streams(HELLO[kind][:-150], hang=True))
    assert (await failure(model, asking(kind))).code == "silence"
    await model.close()


async def test_a_server_that_is_off_is_unreachable(
    kind: str, server: VendorServer, model: Provider
) -> None:
    await server.stop()
    assert (await failure(model, asking(kind))).code == "unreachable"
    await server.start()


async def test_an_endless_line_or_error_is_not_kept_in_memory(
    kind: str, server: VendorServer, model: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_clients, "MAX_LINE_BYTES", 100_000)
    server.on(PATHS[kind], streams(b"data: " + b"x" * 3_000_000))
    assert (await failure(model, asking(kind))).code == "bad_stream"
    endless = {"error": {"message": "y" * 3_000_000}}
    server.on(PATHS[kind], json_reply(endless, 400))
    assert (await failure(model, asking(kind))).code == "bad_request"


async def test_an_address_inside_the_network_is_not_connected_to(
    kind: str, server: VendorServer
) -> None:
    server.on(PATHS[kind], streams(HELLO[kind]))
    row = provider(kind=kind, key=KEY, base_url=server.root, allow_private=False)
    model = vendors.build(row)
    error = await failure(model, asking(kind))
    assert error.code == "setup"
    assert "inside the network" in error.reason
    assert server.requests == []
    await model.close()


async def test_the_key_is_in_no_log(
    kind: str, server: VendorServer, model: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.on(PATHS[kind], streams(HELLO[kind]), json_reply({"error": {"message": KEY}}, 401))
    await ask(model, asking(kind))
    error = await failure(model, asking(kind))
    logging.getLogger("x").warning("failed", exc_info=error)
    for record in caplog.records:
        assert KEY not in record.getMessage()
        assert KEY not in str(record.__dict__)
    assert KEY not in caplog.text


async def test_two_first_calls_at_once_load_the_library_once(
    kind: str, server: VendorServer, model: Provider
) -> None:
    server.on(PATHS[kind], streams(HELLO[kind]))
    both = await asyncio.gather(ask(model, asking(kind)), ask(model, asking(kind)))
    assert [text(each) for each in both] == ["Grüße, 世界"] * 2


def test_models_are_kept_by_name_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_clients, "MOST_MODELS", 3)
    made = library_clients.VendorLibrary(provider(kind="anthropic"), url="http://x", key="k")
    assert made.model_of("a") is made.model_of("a")
    assert made.model_of("").model_name == "default"
    for number in range(9):
        made.model_of(str(number))
    assert len(made._models) <= 3
