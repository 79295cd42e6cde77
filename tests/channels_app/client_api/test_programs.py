"""Answers and errors as programs need them: JSON alone, words by which they know an error, and no
second run of one that has acted."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from pytest_django import Settings

from allowlist import keys
from channels_app.asgi import event_stream
from channels_app.asgi.principal import Principal
from channels_app.client_api import acceptance, failures, run_endpoint
from channels_app.client_api.acceptance import Ask, Work
from channels_app.client_api.anthropic import adapter as anthropic
from channels_app.client_api.anthropic import errors
from channels_app.client_api.openai import adapter as openai
from channels_app.client_api.openai.completion import completion
from channels_app.client_api.openai.endpoints import ChatCompletions
from channels_app.client_api.responses.adapter import Config, ResponsesAdapter
from channels_app.client_api.responses.fields import REPEATED
from channels_app.client_api.run_adapter import Failure, RunAdapter, RunConfig
from channels_app.rendering import follow_run
from channels_app.worker.run_turn import in_words_of
from core.conversations import budget_words, events, runs
from core.conversations.reservations import Refusal
from core.database.transactions import atomic_write, in_thread
from core.messages import Message, error_message, text_message, tool_call_message
from core.models import Run, User
from core.providers.catalogue import BudgetInfo
from core.providers.failures import KINDS
from tests.core.messages.samples import SAMPLES, Event, run, whole
from tests.loops import end_tasks
from tests.redteam import gateway_data

RESPONSE: Any = {**REPEATED, "id": "resp_r", "output": [], "status": "in_progress"}
TOOLS = frozenset({"weather"})
OPENAI = openai.Config(completion_id="c", client_tools=TOOLS, trace_link="content")
ANTHROPIC = anthropic.Config(run_id="r", client_tools=TOOLS)
CONFIGS: dict[str, tuple[Callable[[Any], RunAdapter[Any]], RunConfig]] = {
    "openai": (openai.OpenAIAdapter, OPENAI),
    "anthropic": (anthropic.AnthropicAdapter, ANTHROPIC),
    "responses": (ResponsesAdapter, Config(run_id="r", client_tools=TOOLS, response=RESPONSE)),
}
JSON = '{"city": "Paris"}'
ANSWER = text_message(JSON, message_id="A1")
# Each of these is a line, or a list, of an answer for people.
KINDS_OF_LINES = ("retrieval", "error", "image", "audio", "video")
LINES = [replace(SAMPLES[kind], message_id=f"L-{kind}") for kind in KINDS_OF_LINES]


def log_of(*messages: Message, **more: Any) -> list[Event]:
    """Return the log of a run with these messages."""
    return run(*[whole(each) for each in messages], **more)


def fed(name: str, log: list[Event], *, wants_json: bool = False) -> tuple[RunAdapter[Any], Any]:
    """Return the adapter of a protocol and the frames of a log."""
    make, config = CONFIGS[name]
    adapter = make(replace(config, wants_json=wants_json))
    return adapter, [frame for event in log for frame in adapter.feed(event)]


def said(frames: Any) -> str:
    """Return the text that a client makes of frames."""
    found = []
    for frame in frames:
        match frame:
            case {"delta": {"text": str(piece)}} | {"delta": str(piece)}:
                found.append(piece)
            case {"choices": [{"delta": {"content": str(piece)}}]}:
                found.append(piece)
    return "".join(found)


@pytest.mark.parametrize("name", CONFIGS)
def test_an_answer_in_json_has_no_line_of_the_gateway(name: str) -> None:
    """Sources, media, failures on the way and the link to the trace are for people."""
    log = log_of(*LINES, ANSWER)
    assert said(fed(name, log, wants_json=True)[1]) == JSON
    assert "News" in said(fed(name, log)[1])


def test_a_whole_answer_in_json_is_its_last_json_text() -> None:
    """A model may announce a call; the gateway may add the address of a file."""
    first, last = text_message("I look.", message_id="T1"), text_message("/f", message_id="T2")
    early = text_message('{"city": "Rome"}', message_id="T3")
    for log in ([first, ANSWER], [early, ANSWER, last], [ANSWER]):
        whole_one: Any = completion(log_of(*log), replace(OPENAI, wants_json=True))
        assert whole_one["choices"][0]["message"]["content"] == JSON
        message: Any = anthropic.message(log_of(*log), replace(ANTHROPIC, wants_json=True))
        assert message["content"] == [{"type": "text", "text": JSON}]
    # One that is no JSON is not lost, and texts for people stay.
    words: Any = completion(log_of(first, last), replace(OPENAI, wants_json=True))
    assert words["choices"][0]["message"]["content"] == "I look.\n\n/f"
    people: Any = anthropic.message(log_of(first, ANSWER), ANTHROPIC)
    assert [each["text"] for each in people["content"]] == ["I look.", JSON]


def failed(code: str, *before: Message) -> list[Event]:
    """Return the log of a run that failed."""
    return log_of(*before, error_message("Send less.", code, message_id="E1"), status="error")


KNOWN = {
    # Of LiteLLM, and of agents that ask OpenAI.
    "openai": "this model's maximum context length is",
    "responses": "this model's maximum context length is",
    # Of Claude Code.
    "anthropic": "prompt is too long",
}


@pytest.mark.parametrize("name", CONFIGS)
def test_clients_know_by_its_words_that_a_conversation_is_too_long(name: str) -> None:
    """They shorten it then; the gateway's own sentence follows."""
    _, frames = fed(name, failed("context_length"))
    shown = orjson.dumps(frames).decode().lower()
    assert KNOWN[name] in shown
    assert "send less." in shown
    _, others = fed(name, failed("bad_request"))
    assert KNOWN[name] not in orjson.dumps(others).decode().lower()


OWN = tool_call_message("call_1", "schedule", "{}", message_id="C1")
THEIRS = tool_call_message("call_2", "weather", "{}", message_id="C2")
NO = {"x-should-retry": "false"}
BUDGET = BudgetInfo(
    id=4,
    unit="tokens",
    limit=100,
    period="day",
    each_person=False,
    user_id=0,
    key_id=0,
    account_id=0,
    assistant_id=0,
)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("code", [code for code, kind in KINDS.items() if kind.is_retried])
def test_a_failed_run_whose_tools_have_acted_is_not_repeated(name: str, code: str) -> None:
    """The official clients repeat a 429 and any 5xx by themselves: the tools would act again,
    a reminder would be set three times.
    """
    acted, _ = fed(name, failed(code, OWN))
    assert acted.failure is not None
    assert failures.headers_of(acted.failure)["x-should-retry"] == "false"
    assert failures.headers_of(acted.failure, errors.rates)["x-should-retry"] == "false"
    for before in ([], [THEIRS]):
        idle, _ = fed(name, failed(code, *before))
        assert idle.failure is not None
        assert "x-should-retry" not in failures.headers_of(idle.failure)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("is_soon", [True, False])
def test_a_budget_that_other_answers_hold_for_now_is_asked_again(name: str, is_soon: bool) -> None:
    """They have reserved more than they will spend; one that is spent stays so for hours."""
    refused = Refusal(BUDGET, 100, 10, datetime(2026, 3, 1, tzinfo=UTC), is_soon=is_soon)
    error = in_words_of("Hello", budget_words.refusal(refused))
    told = error_message(str(error), error.code, message_id="E1")
    adapter, frames = fed(name, log_of(told, status="error", retry_after=error.retry_after))
    assert adapter.failure is not None
    assert failures.status_of(adapter.failure) == 429
    headers = failures.headers_of(adapter.failure)
    assert (headers == NO) is not is_soon
    assert ("insufficient_quota" in orjson.dumps(frames).decode()) is (
        name == "openai" and not is_soon
    )
    if is_soon:
        assert (headers["Retry-After"], "x-should-retry" in headers) == ("30", False)


@pytest.mark.parametrize("code", ["steps", "attempts", "too_long", "internal"])
def test_a_run_that_failed_by_itself_is_not_repeated(code: str) -> None:
    """It took too many steps, or too long: once more takes as long."""
    adapter, _ = fed("openai", failed(code))
    assert adapter.failure is not None
    assert failures.headers_of(adapter.failure) == NO


@pytest.mark.django_db(transaction=True)
def test_a_run_that_takes_longer_than_a_request_may_is_not_begun_anew(settings: Settings) -> None:
    """With an idempotency key the same run is waited for once more."""
    settings.INBOUND_REQUEST_TIMEOUT_SECONDS = 0.02
    user = User.objects.create(username="program")
    _, token = keys.create(name="program", user=user, scopes=["chat"])
    body = orjson.dumps({"model": "default", "messages": [{"role": "user", "content": "hi"}]})
    heads = {
        "host": gateway_data.HOST,
        "content-type": "application/json",
        "authorization": f"Bearer {token}",
    }

    async def asked(**more: str) -> gateway_data.Answer:
        try:
            return await gateway_data.call("POST", "/v1/chat/completions", body, {**heads, **more})
        finally:
            await end_tasks()

    late, kept = asyncio.run(asked()), asyncio.run(asked(**{"idempotency-key": "k"}))
    assert (late.status, kept.status) == (504, 504)
    assert late.headers["x-should-retry"] == "false"
    assert "x-should-retry" not in kept.headers


def test_an_answer_without_words_is_an_empty_text() -> None:
    """As of a model that thought until the limit of a client which only wants to test its key."""
    config = replace(OPENAI, trace_link="off")
    empty: Any = completion(log_of(finish_reason="length"), config)
    [choice] = empty["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("", "length")
    call: Any = completion(log_of(THEIRS), config)
    assert call["choices"][0]["message"]["content"] is None


RESTARTED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/messages": {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]},
    "/v1/responses": {"input": "hi"},
    "/inbound": {"text": "hi"},
}


async def while_stopping(path: str, body: Any, **heads: str) -> gateway_data.Answer:
    """Return the answer of a process that is being stopped."""
    event_stream.stopping().set()
    try:
        return await gateway_data.call("POST", path, orjson.dumps(body), heads)
    finally:
        await end_tasks()


def heads_of(user: User) -> dict[str, str]:
    """Return the headers of a person's program."""
    _, token = keys.create(name="program", user=user, scopes=["chat", "inbound"])
    return {
        "host": gateway_data.HOST,
        "content-type": "application/json",
        "authorization": f"Bearer {token}",
    }


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("path", "stream"),
    [(path, stream) for path in RESTARTED for stream in (False, True)][:-1],
)
def test_a_request_is_told_that_its_process_is_stopped(
    path: str, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection was cut, after which clients ask again while the run goes on. So is one that
    waits for the first text of its stream; the streams of /inbound have begun by then.
    """
    monkeypatch.setattr(event_stream, "ANSWER_SECONDS", 0.01)
    body = {"model": "default", **RESTARTED[path], "stream": stream}
    if path == "/inbound":
        body.pop("model")
    user = User.objects.create(username="program")
    found = asyncio.run(while_stopping(path, body, **heads_of(user)))
    run = Run.objects.get()
    assert (found.status, "restarts" in found.body.decode()) == (503, True)
    if path == "/inbound":
        assert orjson.loads(found.body)["run_id"] == run.public_id
        assert run.cancel_requested_at is None
    else:
        assert found.headers["retry-after"] == "2"
        assert "x-should-retry" not in found.headers
        assert run.cancel_requested_at is not None


@pytest.mark.django_db(transaction=True)
def test_a_run_whose_tools_have_acted_goes_on_when_its_process_is_stopped() -> None:
    """Its client would begin another one; with an idempotency key it gets the same one."""
    user = User.objects.create(username="program")
    ask = Ask(model="", messages=[{"role": "user", "content": "hi"}])
    run = acceptance.accept(Principal(user=user), ask, "", None).run
    assert run is not None
    run.options["tools"] = [{"type": "function", "function": {"name": "weather"}}]
    work = Work(run=run, language="", keep=False)
    assert run_endpoint.has_acted(work, log_of(THEIRS, OWN))
    assert not run_endpoint.has_acted(work, log_of(THEIRS))
    found = asyncio.run(ChatCompletions().left(work, has_acted=True))
    assert found.headers["x-should-retry"] == "false"
    assert run.public_id in str(found)
    kept = replace(work, keep=True)
    assert "x-should-retry" not in asyncio.run(ChatCompletions().left(kept, has_acted=True)).headers
    run.refresh_from_db()
    assert run.cancel_requested_at is None


async def stopped_after_a_call(body: Any, heads: dict[str, str]) -> gateway_data.Answer:
    """Return the answer of a process that is stopped once a tool of the gateway was called."""
    asking = asyncio.ensure_future(
        gateway_data.call("POST", "/v1/chat/completions", orjson.dumps(body), heads)
    )
    try:
        while (run := await Run.objects.afirst()) is None:
            await asyncio.sleep(0)
        await in_thread(act, run.pk)
        return await asking
    finally:
        await end_tasks()


def act(run_id: int) -> None:
    """Claim a run, as a worker, and store a call of a tool in its log."""
    (claimed,) = runs.claim(run_ids=[run_id], worker="w").values()
    with atomic_write():
        events.append_all_unheld([(claimed, 0, [OWN])])


@pytest.mark.django_db(transaction=True)
def test_a_client_is_not_to_repeat_a_request_whose_run_has_called_a_tool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its process is stopped right after the call; the run goes on."""
    follow = follow_run.follow

    async def followed(run: Run, **more: Any) -> AsyncGenerator[Any, None]:
        async with aclosing(follow(run, **more)) as log:
            async for event in log:
                yield event
                if event is not None and event["type"] == "tool_call":
                    event_stream.stopping().set()

    monkeypatch.setattr(follow_run, "follow", followed)
    monkeypatch.setattr(event_stream, "ANSWER_SECONDS", 0.01)
    user = User.objects.create(username="program")
    body = {"model": "default", **RESTARTED["/v1/chat/completions"]}
    found = asyncio.run(stopped_after_a_call(body, heads_of(user)))
    run = Run.objects.get()
    assert (found.status, found.headers["x-should-retry"]) == (503, "false")
    assert run.public_id in found.body.decode()
    assert (run.state, run.cancel_requested_at) == ("running", None)


@pytest.mark.parametrize(("seconds", "expected"), [(60, ""), (60.5, "false"), (3600, "false")])
def test_a_client_does_not_wait_longer_than_a_minute(seconds: float, expected: str) -> None:
    """Anthropic's slept for all of an hour, without a word; older ones of OpenAI, for which that is
    too long, asked again after a second.
    """
    limited = Failure(code="rate_limited", text="Later.", data={"retry_after": seconds})
    for headers in (failures.headers_of(limited), failures.headers_of(limited, errors.rates)):
        assert headers.get("x-should-retry", "") == expected
        assert int(headers["Retry-After"]) >= seconds
        assert any("reset-requests" in name or "requests-reset" in name for name in headers)
