"""A chain of models as one provider: the first that works answers.

    order by circuits and needs ─► reserve ─► call ─► deltas ─► settled
            ▲                          │ failure
            └── wait, and again ◄── the next model, from the beginning (Restart)

The consequences of each failure: decision 190. A chain serves one turn, one long task or one image.
"""

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from django.db import Error as DatabaseFailure

from core.database.transactions import AWAY, in_thread
from core.lib import tracing
from core.providers import circuits, sight
from core.providers.base import (
    LIMITS,
    Delay,
    Delta,
    Finish,
    ModelRequest,
    Provider,
    ProviderError,
    Restart,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    Usage,
    Whole,
)
from core.providers.catalogue import ModelInfo, ProviderInfo
from core.providers.failures import DEFAULT_RETRY_SECONDS, KINDS, OWN

logger = logging.getLogger(__name__)

PROVIDER_TRIES = 4
# Longer waits requested by the model's server are reported to the user immediately.
PATIENCE_SECONDS = 30.0
# The request itself is refused: another model would be asked for the same.
FOR_THE_PERSON = frozenset({"content"})
VISIBLE = (TextDelta, ThinkingDelta, ToolCallDelta, Whole)

# The deltas of one call, and its end.
Reading = AbstractAsyncContextManager[AsyncGenerator[Delta, None]]


class Meter(Protocol):
    """Counts calls, and reserves them in budgets."""

    async def reserve(self, model: ModelInfo, request: ModelRequest) -> int | None:
        """Reserve a call before it is made; return the most tokens of its answer, or None.

        Raises ProviderError with the code "budget".
        """
        ...

    def shortage(self) -> ProviderError | None:
        """Return the error "budget" of the present call, if a budget shortened its answer."""
        ...

    def settled(
        self,
        model: ModelInfo,
        request: ModelRequest,
        *,
        usage: Usage | None,
        output_tokens: int,
        failure: str,
    ) -> None:
        """Note the end of a call, in memory. ``usage`` is None where the provider reported none;
        ``output_tokens`` are estimated from what it yielded.
        """
        ...


class Unmetered:
    """Counts nothing: for tests of a model, which the owner asks for."""

    async def reserve(self, model: ModelInfo, request: ModelRequest) -> int | None:
        return None

    def shortage(self) -> ProviderError | None:
        return None

    def settled(self, *_: object, **__: object) -> None: ...


@dataclass(slots=True)
class Spent:
    """The deltas of one call so far, counted."""

    usage: Usage | None = None
    characters: int = 0
    is_visible: bool = False
    has_text: bool = False
    has_answer: bool = False

    def take(self, delta: Delta) -> None:
        match delta:
            case Usage():
                self.usage = delta
            case Restart():  # the same text comes again, as thoughts
                self.characters, self.has_text, self.has_answer = 0, False, False
            case TextDelta() | ThinkingDelta():
                self.characters += len(delta.text)
                self.has_text = self.has_text or isinstance(delta, TextDelta)
            case ToolCallDelta():
                self.characters += len(delta.name) + len(delta.arguments)
        self.is_visible = self.is_visible or isinstance(delta, VISIBLE)
        self.has_answer = self.has_answer or is_answer(delta)

    @property
    def tokens(self) -> int:
        """Return the estimated tokens: four characters are one."""
        return -(-self.characters // 4)


def is_answer(delta: Delta) -> bool:
    """Return whether a delta is a part of an answer: thoughts and white space are none."""
    if isinstance(delta, TextDelta):
        return bool(delta.text.strip())
    return isinstance(delta, ToolCallDelta | Whole)


@dataclass(slots=True)
class Chain:
    """``models`` in the order of preference; ``provider_of`` returns the provider of each.

    ``fitted`` returns a request cut to a model's window: its messages, and its tools.
    ``answered_by`` is the model that answered last.
    """

    models: Sequence[ModelInfo]
    provider_of: Callable[[ProviderInfo], Provider]
    meter: Meter = field(default_factory=Unmetered)
    fitted: Callable[[ModelRequest, ModelInfo], ModelRequest] | None = None
    answered_by: ModelInfo | None = None

    async def close(self) -> None:
        """Do nothing: providers belong to the process."""

    @property
    def can_call_tools(self) -> bool:
        return any(each.can_call_tools for each in self.models)

    @property
    def substitute(self) -> ModelInfo | None:
        """Return the model that answered in place of the first one; None when that answered."""
        found = self.answered_by
        return None if found is None or found.id == self.models[0].id else found

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Yield the deltas of one answer. Raises the ProviderError of the first model that failed
        when none answers.

        A failure is told at once where it is final. Else the next model is asked (after
        ``context_length`` only those with a larger window), and after the last one all of them
        again, with a pause before, while PATIENCE_SECONDS last.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS

        def is_late(seconds: float) -> bool:
            return time.monotonic() + seconds > deadline

        for next_try in range(2, PROVIDER_TRIES + 2):
            errors: list[ProviderError] = []
            untried = await self._in_order(request)
            while untried:
                model, *untried = untried
                spent = Spent()
                try:
                    async with self._call(model, request, spent) as deltas:
                        async for delta in deltas:
                            spent.take(delta)
                            self._check_end(delta, spent)
                            yield delta
                    return
                except ProviderError as error:
                    errors.append(error)
                    if self._is_final(error, spent, is_late=is_late(pause_before(next_try, error))):
                        raise
                    if error.code == "context_length":
                        largest = model.context_tokens
                        untried = [each for each in untried if each.context_tokens > largest]
                    if spent.is_visible:
                        yield Restart()
            # That of the preferred model, unless only this was not asked.
            worst = next((each for each in errors if each.code != "budget"), errors[0])
            seconds = min(pause_before(next_try, each) for each in errors)
            if is_late(seconds):
                raise worst
            yield Delay(KINDS.get(worst.code, OWN).waiting)
            await asyncio.sleep(seconds)

    def _check_end(self, delta: Delta, spent: Spent) -> None:
        """Raise ProviderError if a budget left too little for the answer after the thoughts."""
        if isinstance(delta, Finish) and delta.reason == "length" and not spent.has_answer:
            error = self.meter.shortage()
            if error is not None:
                raise error

    def _is_final(self, error: ProviderError, spent: Spent, *, is_late: bool) -> bool:
        """Return whether a failure is told at once: the request is refused, or nothing will be
        written in place of what a lone model has shown.
        """
        is_alone = len(self.models) == 1
        return error.code in FOR_THE_PERSON or (is_alone and spent.has_text and is_late)

    async def _in_order(self, request: ModelRequest) -> list[ModelInfo]:
        """Return the models to ask, in order: never none.

        Those that lack what the request needs come last; those with an open circuit are left out,
        but for one that is due to be tried again by this request.
        """
        if len(self.models) == 1:
            return [*self.models]
        usable = [each for each in self.models if await is_usable(each)]
        fitting = [each for each in usable if not lacks(each, request)]
        return fitting or usable or [self.models[0]]

    def _call(self, model: ModelInfo, request: ModelRequest, spent: Spent) -> Reading:
        """Return the context of one call of one model, in which its deltas are read."""
        asked = self._fitted(request, model)
        if sight.has_pictures(asked.messages):
            return aclosing(self._call_with_pictures(model, asked, spent))
        return self._metered(model, asked, spent)

    async def _call_with_pictures(
        self, model: ModelInfo, asked: ModelRequest, spent: Spent
    ) -> AsyncGenerator[Delta, None]:
        """Yield the deltas of a call; if the model refuses the pictures, repeat without them."""
        try:
            async with self._metered(model, asked, spent) as deltas:
                async for delta in deltas:
                    yield delta
            return
        except ProviderError as error:
            if spent.is_visible or not sight.may_be_refusal(model, error, asked.messages):
                raise
            refusal = error
        blind = replace(asked, messages=sight.without_pictures(asked.messages))
        async with self._metered(model, blind, spent) as deltas:
            async for delta in deltas:
                yield delta
        sight.remember_refusal(model, refusal)

    @asynccontextmanager
    async def _metered(
        self, model: ModelInfo, request: ModelRequest, spent: Spent
    ) -> AsyncGenerator[AsyncGenerator[Delta, None], None]:
        """Begin a call, and note its end in the meter and circuit. ``spent`` is what the block read
        of its deltas. Not a generator around the provider's: each delta would pass through it.
        """
        most = await self.meter.reserve(model, request)
        asked = limited(request, most)
        failure, began = "stopped", tracing.now()
        try:
            async with aclosing(self.provider_of(model.provider).stream(asked)) as deltas:
                yield deltas
            failure = ""
        except ProviderError as error:
            failure = error.code
            if len(self.models) > 1 and circuits.is_counted(error):
                await record_in_circuit(circuits.failed, model_id=model.id, error=error)
                suspected.add(model.id)
            raise
        finally:
            self.meter.settled(
                model, asked, usage=spent.usage, output_tokens=spent.tokens, failure=failure
            )
            record_call(model, spent, failure=failure, began=began)
        self.answered_by = model
        if model.id in suspected or model.failures or model.circuit is not None:
            await record_in_circuit(circuits.close, model_id=model.id)
            suspected.discard(model.id)

    def _fitted(self, request: ModelRequest, model: ModelInfo) -> ModelRequest:
        """Return the request as the model can take it."""
        if self.fitted is not None:
            request = self.fitted(request, model)
        messages = request.messages
        if sight.has_pictures(messages) and not sight.can_see(model):
            messages = sight.without_pictures(messages)
        tools = request.tools if model.can_call_tools or model.is_embedded else []
        options = request.options
        if not tools:  # OpenAI refuses an option about calls where there are none
            options = {name: options[name] for name in options if name != "parallel_tool_calls"}
        return replace(
            request,
            messages=messages,
            tools=tools,
            options=options,
            model=request.model or model.name,
        )


# The names of OpenTelemetry's conventions for generative AI, where they are not ours.
VENDORS = {"google": "gcp.gemini", "mistral": "mistral_ai"}


def record_call(model: ModelInfo, spent: Spent, *, failure: str, began: int) -> None:
    """Put a call into the trace of the turn or task that it is made for."""
    if not tracing.is_on():
        return
    tokens: dict[str, str | int] = {}
    if spent.usage is not None:
        tokens["gen_ai.usage.input_tokens"] = spent.usage.prompt_tokens
        tokens["gen_ai.usage.output_tokens"] = spent.usage.completion_tokens
    tracing.record(
        f"chat {model.name}",
        began=began,
        kind="client",
        error=failure,
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": VENDORS.get(model.provider.kind, model.provider.kind),
            "gen_ai.request.model": model.name,
            **tokens,
        },
    )


# Models that failed in this process since they answered last.
suspected: set[int] = set()


def limited(request: ModelRequest, most: int | None) -> ModelRequest:
    """Return the request with at most ``most`` tokens for the answer."""
    if most is None:
        return request
    given = LIMITS & request.options.keys()
    limits = {name: min(most, request.options[name]) for name in given} or {"max_tokens": most}
    return replace(request, options={**request.options, **limits})


async def record_in_circuit(record: Callable[..., None], **of: Any) -> None:
    """Record the end of a call in the circuit of its model. The call counts all the same where the
    database is away, or the model was deleted meanwhile.
    """
    try:
        await in_thread(record, **of)
    except DatabaseFailure:
        logger.warning("the circuit of model %s could not be stored", of["model_id"])


async def is_usable(model: ModelInfo) -> bool:
    """Return whether a model is asked: its circuit is closed, or this request tries it again."""
    if model.circuit is None:
        return True
    try:
        return circuits.is_due(model) and await in_thread(circuits.take_probe, model_id=model.id)
    except AWAY:
        return False


def lacks(model: ModelInfo, request: ModelRequest) -> bool:
    """Return whether a request needs what a model cannot do."""
    if request.tools and not model.can_call_tools:
        return True
    return sight.has_pictures(request.messages) and not sight.can_see(model)


def pause_before(tries: int, error: ProviderError) -> float:
    """Return the seconds until try number ``tries``; infinite when there is none left. The server's
    value is used, our own grows with each try.
    """
    if error.retry_after is None or tries > PROVIDER_TRIES:
        return math.inf
    usual = error.retry_after <= DEFAULT_RETRY_SECONDS
    return error.retry_after * (tries - 1) if usual else error.retry_after
