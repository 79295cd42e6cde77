"""A chain of models: the consequences of each failure, also for its reader."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest
from django.core.management.color import no_style
from django.db import OperationalError, connection
from django.utils import timezone

from core.database.transactions import in_thread
from core.models import LanguageModel, ModelCircuit, ModelProvider
from core.providers import catalogue, chain, circuits, sight
from core.providers.base import (
    Delay,
    Delta,
    Finish,
    ModelRequest,
    ProviderError,
    Restart,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    Usage,
    text_of,
)
from core.providers.catalogue import CircuitInfo, ModelInfo, ProviderInfo
from core.providers.chain import Chain
from core.providers.failures import KINDS
from tests.core.providers.chains import model_info

pytestmark = pytest.mark.django_db(transaction=True)

ASK = ModelRequest([{"role": "user", "content": "hi"}])
TOOLS = [{"type": "function", "function": {"name": "t", "parameters": {}}}]
PICTURE = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]
DONE: list[Any] = [TextDelta("done"), Usage(3, 1), Finish("stop")]
# Failures after which the next model is asked.
GOES_ON = sorted({*KINDS} - {"content", "context_length", "empty", "length"})


class Servers:
    """Plays each provider's answers in turn; ``asked`` are the names of the models."""

    def __init__(self, **answers: list[list[Any]]) -> None:
        self.answers = {int(name.removeprefix("p")): steps for name, steps in answers.items()}
        self.asked: list[str] = []
        self.requests: list[ModelRequest] = []
        self._turn = 0

    def __call__(self, info: ProviderInfo) -> Any:
        self._turn = info.id
        return self

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self.asked.append(request.model)
        self.requests.append(request)
        for each in self.answers[self._turn].pop(0):
            if isinstance(each, Exception):
                raise each
            yield each

    async def close(self) -> None: ...


class Journal:
    """A meter that writes down what was settled."""

    def __init__(
        self, most: int | None = None, *, refuses: str = "", is_short: bool = False
    ) -> None:
        self.rows: list[tuple[str, Usage | None, int, str]] = []
        self.most, self.refuses, self.is_short = most, refuses, is_short

    async def reserve(self, model: ModelInfo, request: ModelRequest) -> int | None:
        if model.name == self.refuses:
            raise ProviderError("used up", code="budget")
        return self.most

    def shortage(self) -> ProviderError | None:
        return error("budget") if self.is_short else None

    def settled(self, model: ModelInfo, request: ModelRequest, **end: Any) -> None:
        self.rows.append((model.name, end["usage"], end["output_tokens"], end["failure"]))


def error(code: str, **more: Any) -> ProviderError:
    """Return a failed call."""
    return ProviderError(code, code=code, **more)


@pytest.fixture
def models() -> list[ModelInfo]:
    """Return three models with rows, which their circuits need."""
    for number in (1, 2, 3):
        provider = ModelProvider.objects.create(id=number, name=f"provider {number}")
        LanguageModel.objects.create(id=number, provider=provider, name=f"model-{number}")
    # On PostgreSQL ids that are given leave the sequence behind.
    with connection.cursor() as cursor:
        for sql in connection.ops.sequence_reset_sql(no_style(), [ModelProvider, LanguageModel]):
            cursor.execute(sql)
    return [model_info(number) for number in (1, 2, 3)]


async def deltas_of(it: Chain, request: ModelRequest = ASK) -> list[Delta]:
    """Return all that a chain yields."""
    return [each async for each in it.stream(request)]


@pytest.mark.parametrize("code", GOES_ON)
async def test_the_next_model_answers_after_a_failure(code: str, models: list[ModelInfo]) -> None:
    servers = Servers(p1=[[error(code, retry_after=60)]], p2=[DONE])
    it = Chain(models[:2], servers)
    assert await deltas_of(it) == DONE
    assert servers.asked == ["model-1", "model-2"]
    assert it.substitute == models[1]


@pytest.mark.parametrize("shown", [TextDelta("half"), ToolCallDelta(0, name="t")])
async def test_a_shown_beginning_is_void_when_the_next_model_begins(
    shown: Delta, models: list[ModelInfo]
) -> None:
    servers = Servers(p1=[[shown, error("cut")]], p2=[DONE])
    assert await deltas_of(Chain(models[:2], servers)) == [shown, Restart(), *DONE]
    again = Servers(p1=[[TextDelta("half"), error("cut")]], p2=[list(DONE)])
    assert await text_of(Chain(models[:2], again), ASK) == "done"


async def test_a_lone_model_that_breaks_off_is_asked_again(models: list[ModelInfo]) -> None:
    """Its first half is void then, and stays where there is no time to ask again."""
    half = TextDelta("half")
    servers = Servers(p1=[[half, error("cut", retry_after=0.0)], DONE])
    found = await deltas_of(Chain(models[:1], servers))
    assert [each for each in found if not isinstance(each, Delay)] == [half, Restart(), *DONE]
    assert servers.asked == ["model-1"] * 2
    late = Servers(p1=[[half, error("cut", retry_after=31.0)]])
    shown: list[Delta] = []
    with pytest.raises(ProviderError, match="cut"):
        async for delta in Chain(models[:1], late).stream(ASK):
            shown += [delta]
    assert (shown, late.asked) == ([half], ["model-1"])


async def test_refused_content_is_told_and_no_other_model_is_asked(
    models: list[ModelInfo],
) -> None:
    servers = Servers(p1=[[error("content")]])
    with pytest.raises(ProviderError, match="content"):
        await deltas_of(Chain(models, servers))
    assert servers.asked == ["model-1"]


async def test_a_request_that_is_too_long_goes_to_a_larger_window_only(
    models: list[ModelInfo],
) -> None:

    small, large = (
        replace(models[number], context_tokens=size) for number, size in ((1, 8192), (2, 9000))
    )
    servers = Servers(p1=[[error("context_length")]], p3=[DONE])
    assert await deltas_of(Chain([models[0], small, large], servers)) == DONE
    assert servers.asked == ["model-1", "model-3"]


async def test_when_none_answers_the_first_failure_is_told(models: list[ModelInfo]) -> None:
    servers = Servers(p1=[[error("quota")]], p2=[[error("unauthorised")]])
    with pytest.raises(ProviderError, match="quota"):
        await deltas_of(Chain(models[:2], servers))


async def test_all_are_asked_again_after_a_wait_while_one_is_only_busy(
    models: list[ModelInfo],
) -> None:
    busy = error("overloaded", retry_after=0)
    servers = Servers(p1=[[error("quota")], [error("quota")]], p2=[[busy], DONE])
    found = await deltas_of(Chain(models[:2], servers))
    assert [type(each) for each in found] == [Delay, *map(type, DONE)]


async def test_a_model_without_tools_or_images_is_asked_last(models: list[ModelInfo]) -> None:

    plain = replace(models[0], can_call_tools=False, can_see_images=False)
    for request in (ModelRequest(ASK.messages, TOOLS), ModelRequest(PICTURE)):
        servers = Servers(p2=[list(DONE)])
        await deltas_of(Chain([plain, models[1]], servers), request)
        assert servers.asked == ["model-2"]
    servers = Servers(p1=[list(DONE)])
    options = {"parallel_tool_calls": False, "seed": 1}  # OpenAI refuses the first without tools
    await deltas_of(Chain([plain], servers), ModelRequest(PICTURE, TOOLS, options=options))
    assert (servers.requests[0].tools, servers.requests[0].options) == ([], {"seed": 1})
    assert not sight.has_pictures(servers.requests[0].messages)


@pytest.mark.parametrize("code", ["bad_request", "unprocessable", "unsupported"])
async def test_a_model_that_refuses_pictures_is_asked_without_them(
    code: str, models: list[ModelInfo]
) -> None:
    """DeepSeek refuses them with 422. The next request is spared the refusal, but not that to
    another server.
    """
    try:
        for answers in ([[error(code)], list(DONE)], [list(DONE)]):
            servers = Servers(p1=answers)
            assert await deltas_of(Chain(models[:1], servers), ModelRequest(PICTURE)) == DONE
            assert not sight.has_pictures(servers.requests[-1].messages)
        moved = replace(models[0].provider, base_url="http://another.example/v1")
        assert sight.can_see(replace(models[0], provider=moved))
    finally:
        sight.refusals.clear()


OF_PICTURES = (
    "You uploaded an unsupported image. Please make sure your image is below 20 MB in size.",
    "The image data you provided does not represent a valid image. Please check your input.",
    "messages.0.content.0.image.source.base64: image exceeds 5 MB maximum: 9427836 bytes",
    "Could not process image",
    "Image does not match the provided media type image/jpeg",
    "At least one of the image dimensions exceed max allowed size: 8000 pixels",
    "Unable to process input image. Please retry or report.",
    "cannot identify image file <_io.BytesIO object at 0x7f>",
    "Failed to load image: cannot decode",
    "At most 1 image(s) may be provided in one prompt.",
    "Too many images provided. This model supports up to 5 images",
)
OF_MODEL = (
    "Invalid content type. image_url is only supported by certain models.",
    "image input is not supported - hint: you may need to provide the mmproj",
    "this model is missing data required for image input",
    "unknown variant `image_url`, expected `text`",
    "At most 0 image(s) may be provided in one prompt.",
    "No endpoints found that support image input",
    "The model does not support image input.",
    "This model cannot process images.",
    "",
)


@pytest.mark.parametrize("reason", [*OF_PICTURES, *OF_MODEL])
async def test_one_picture_that_is_refused_does_not_blind_the_model(
    reason: str, models: list[ModelInfo]
) -> None:
    """No picture reached it for a day after one that was broken or too large."""
    try:
        failed = error("bad_request", reason=reason)
        servers = Servers(p1=[[failed], list(DONE), list(DONE)])
        one = Chain(models[:1], servers)
        assert await deltas_of(one, ModelRequest(PICTURE)) == DONE
        await deltas_of(one, ModelRequest(PICTURE))
        sees = [sight.has_pictures(each.messages) for each in servers.requests]
        assert sees == [True, False, reason in OF_PICTURES]
    finally:
        sight.refusals.clear()


async def test_three_failures_in_a_row_open_the_circuit_for_all_processes(
    models: list[ModelInfo],
) -> None:
    before = await in_thread(catalogue.current)
    for _ in range(3):
        servers = Servers(p1=[[error("server", retry_after=1)]], p2=[list(DONE)])
        await deltas_of(Chain(models[:2], servers))
    row = await ModelCircuit.objects.aget(pk=1)
    assert row.opened_at is not None
    assert (row.failures, row.openings, row.code) == (3, 1, "server")
    after = await in_thread(catalogue.current)
    assert after.version != before.version
    assert after.models[1].circuit is not None


async def test_an_answer_in_between_starts_the_row_again(models: list[ModelInfo]) -> None:
    for step in ("server", "", "server", "server", "", "server"):
        first = [error(step, retry_after=1)] if step else list(DONE)
        await deltas_of(Chain(models[:2], Servers(p1=[first], p2=[list(DONE)])))
    row = await ModelCircuit.objects.aget(pk=1)
    assert row.opened_at is None
    assert row.failures == 1


@pytest.mark.parametrize("code", sorted(circuits.AT_ONCE))
async def test_a_lasting_failure_opens_the_circuit_at_once(
    code: str, models: list[ModelInfo]
) -> None:
    await deltas_of(Chain(models[:2], Servers(p1=[[error(code)]], p2=[DONE])))
    assert (await ModelCircuit.objects.aget(pk=1)).opened_at is not None


@pytest.mark.parametrize("code", ["bad_request", "too_large", "budget"])
async def test_a_request_that_does_not_fit_is_not_held_against_the_model(
    code: str, models: list[ModelInfo]
) -> None:
    for _ in range(4):
        await deltas_of(Chain(models[:2], Servers(p1=[[error(code)]], p2=[list(DONE)])))
    assert not await ModelCircuit.objects.filter(pk=1).aexists()


async def test_an_open_circuit_is_skipped_and_tried_by_one_request_when_it_is_due(
    models: list[ModelInfo],
) -> None:
    await in_thread(circuits.failed, model_id=1, error=error("quota"))
    known = await in_thread(catalogue.current)
    pair = [known.models[1], known.models[2]]
    servers = Servers(p2=[list(DONE)])
    await deltas_of(Chain(pair, servers))
    assert servers.asked == ["model-2"]
    await ModelCircuit.objects.filter(pk=1).aupdate(probe_at=timezone.now())
    await in_thread(catalogue.changed)
    known = await in_thread(catalogue.current)
    pair = [known.models[1], known.models[2]]
    assert [await chain.is_usable(pair[0]) for _ in range(3)] == [True, False, False]
    await ModelCircuit.objects.filter(pk=1).aupdate(probe_at=timezone.now())
    servers = Servers(p1=[list(DONE)])
    assert await deltas_of(Chain(pair, servers)) == DONE
    assert (await ModelCircuit.objects.aget(pk=1)).opened_at is None


async def test_a_failed_try_keeps_the_circuit_open_for_twice_as_long(
    models: list[ModelInfo],
) -> None:
    waits = []
    for _ in range(5):
        await in_thread(circuits.failed, model_id=1, error=error("quota"))
        row = await ModelCircuit.objects.aget(pk=1)
        assert row.probe_at is not None
        waits.append(round((row.probe_at - timezone.now()).total_seconds(), -1))
    assert waits == [30, 30, 30, 60, 120]
    assert row.openings == 1


async def test_when_every_circuit_is_open_the_first_model_is_asked_all_the_same(
    models: list[ModelInfo],
) -> None:
    for number in (1, 2):
        await in_thread(circuits.failed, model_id=number, error=error("quota"))
    known = await in_thread(catalogue.current)
    servers = Servers(p1=[DONE])
    assert await deltas_of(Chain([known.models[1], known.models[2]], servers)) == DONE


async def test_an_answer_needs_no_record_of_its_circuits(
    models: list[ModelInfo], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner has deleted the first model meanwhile; then the database is away."""
    await in_thread(LanguageModel.objects.filter(id=1).delete)
    servers = Servers(p1=[[error("unauthorised")]], p2=[DONE, DONE], p3=[DONE])
    assert await deltas_of(Chain(models[:2], servers)) == DONE

    def away(**_: object) -> None:
        raise OperationalError("the server closed the connection")

    for name in ("failed", "close", "take_probe"):
        monkeypatch.setattr(circuits, name, away)
    chain.suspected.add(2)
    assert await deltas_of(Chain(models[1:2], servers)) == DONE
    due = CircuitInfo(opened_at=timezone.now(), probe_at=None, code="quota")
    opened = replace(models[1], circuit=due)
    assert await deltas_of(Chain([opened, models[2]], servers)) == DONE
    assert servers.asked == ["model-1", "model-2", "model-2", "model-3"]


async def test_each_call_is_settled_once_with_how_it_ended(models: list[ModelInfo]) -> None:
    journal = Journal()
    servers = Servers(p1=[[TextDelta("12345678"), error("cut")]], p2=[DONE])
    await deltas_of(Chain(models[:2], servers, journal))
    assert journal.rows == [("model-1", None, 2, "cut"), ("model-2", Usage(3, 1), 1, "")]


async def test_a_text_that_comes_again_as_thoughts_is_counted_once(
    models: list[ModelInfo],
) -> None:
    journal = Journal()
    again = [TextDelta("12345678"), Restart(), ThinkingDelta("12345678"), Finish("stop")]
    await deltas_of(Chain(models[:1], Servers(p1=[again]), journal))
    assert journal.rows == [("model-1", None, 2, "")]


async def test_a_reader_that_leaves_is_settled_too(models: list[ModelInfo]) -> None:
    journal = Journal()
    stream = Chain(models[:1], Servers(p1=[DONE]), journal).stream(ASK)
    assert await anext(stream) == TextDelta("done")
    await stream.aclose()
    assert journal.rows == [("model-1", None, 1, "stopped")]


@pytest.mark.parametrize(
    ("said", "reason", "is_short"),
    [
        ([ThinkingDelta("hm"), TextDelta(" \n")], "length", True),
        ([ThinkingDelta("hm"), TextDelta("a")], "length", False),
        ([ToolCallDelta(0, name="t")], "length", False),
        ([ThinkingDelta("hm")], "stop", False),
    ],
)
async def test_a_model_that_thinks_until_the_rest_of_a_budget_ends_has_used_it_up(
    said: list[Delta], reason: str, is_short: bool, models: list[ModelInfo]
) -> None:
    answer = [*said, Usage(3, 300), Finish(reason)]
    for journal in (Journal(300), Journal(300, is_short=True)):
        it = Chain(models[:1], Servers(p1=[answer]), journal)
        if journal.is_short and is_short:
            with pytest.raises(ProviderError, match="budget"):
                await deltas_of(it)
            assert journal.rows == [("model-1", Usage(3, 300), 1, "budget")]
        else:
            assert await deltas_of(it) == answer


async def test_a_used_up_budget_goes_on_to_a_model_that_it_allows(models: list[ModelInfo]) -> None:
    servers = Servers(p2=[DONE])
    assert await deltas_of(Chain(models[:2], servers, Journal(refuses="model-1"))) == DONE
    with pytest.raises(ProviderError, match="used up"):
        await deltas_of(Chain(models[:1], Servers(), Journal(refuses="model-1")))


@pytest.mark.parametrize(
    ("given", "most", "sent"),
    [
        ({}, None, {}),
        ({}, 100, {"max_tokens": 100}),
        ({"max_tokens": 50}, None, {"max_tokens": 50}),
        ({"max_tokens": 50}, 100, {"max_tokens": 50}),
        ({"max_completion_tokens": 500}, 100, {"max_completion_tokens": 100}),
    ],
)
async def test_the_answer_is_limited_to_the_reservation(
    given: dict[str, Any], most: int | None, sent: dict[str, Any]
) -> None:
    servers = Servers(p1=[DONE])
    request = ModelRequest([], options=given)
    await deltas_of(Chain([model_info(1)], servers, Journal(most)), request)
    assert servers.requests[0].options == sent
