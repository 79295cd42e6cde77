"""The gateway's services for a running plugin: the model, progress, a folder of its own."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import orjson

from core.conversations import jobs, usage
from core.database import transactions
from core.database.transactions import in_thread
from core.jobs_worker import steps
from core.messages import Message
from core.models import Job, ModelCall
from core.plugins.base import Cancelled, PluginError
from core.providers import catalogue, health, registry, vendors
from core.providers.base import ChatMessage, ModelRequest, ProviderError, answer_of
from core.providers.catalogue import window_of
from core.providers.chain import Chain

TRIES = 4
TELL_SECONDS = 0.2
MOST_RETRY_SECONDS = 20.0
BRACKETS: Mapping[Any, str] = {"object": "{", "array": "["}  # of a schema's type
THINKING_TOKENS = 8192  # besides the answer, for a model that thinks before it


class Host:
    """One job's interface to the gateway; see ``core.plugins.base.PluginHost``."""

    def __init__(self, *, job: Job, folder: Path) -> None:
        self.folder = folder
        known = catalogue.current()
        self._models = known.chain_of(job.run.assistant_id, first=job.run.model_id)
        self._meter = usage.RunMeter.of_run(
            run=job.run,
            purpose=ModelCall.Purpose.TASK,
            attempt=job.attempt,
            job_id=job.id,
            known=known,
        )
        self.context_tokens: int = window_of(self._models)
        self._job = job
        self._told = 0.0
        self._last = ""
        self._answers = steps.Answers(job)
        self._sent = 0
        self._thinks = False  # until the limit of an answer

    async def ask(
        self,
        prompt: str,
        *,
        system: str = "",
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 1024,
    ) -> str:
        """See ``PluginHost.ask``. An answer that violates the schema is requested once more."""
        messages: list[ChatMessage] = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": prompt})
        if schema is None:
            return (await self._said(messages, max_tokens=max_tokens)).strip()
        for _ in range(2):
            said = await self._said(messages, max_tokens=max_tokens, schema=schema)
            text, problem = checked(said, schema)
            if not problem:
                return text
            mistake = f"The answer has the wrong form: {problem}. {form(schema)}"
            messages += [
                {"role": "assistant", "content": said[:4000]},
                {"role": "user", "content": mistake},
            ]
        raise PluginError("The model did not return the requested form.")

    async def progress(self, message: str, percent: float | None = None) -> None:
        """See ``PluginHost.progress``; written at most every 0.2 s unless the text changes."""
        if message == self._last and time.monotonic() - self._told < TELL_SECONDS:
            return
        self._told, self._last = time.monotonic(), message
        try:
            # Progress of an earlier attempt is not repeated: it would go backwards.
            if not await in_thread(self._answers.is_repeating):
                await in_thread(jobs.tell, job=self._job, message=message, percent=percent)
            elif not await in_thread(jobs.is_ours, job=self._job):
                raise Cancelled
        except jobs.LostJobError as error:
            raise Cancelled from error

    async def send(self, message: Message) -> None:
        data = steps.sendable(message)
        self._sent += 1
        try:
            await in_thread(steps.say, job=self._job, number=self._sent, data=data)
        except jobs.LostJobError as error:
            raise Cancelled from error

    async def _said(
        self,
        messages: list[ChatMessage],
        *,
        max_tokens: int,
        schema: Mapping[str, Any] | None = None,
    ) -> str:
        """Return the model's text. Raises PluginError with the text of the provider's error."""
        strict = schema is not None and all(
            vendors.takes_schemas(each.provider) for each in self._models
        )
        for tries in range(1, TRIES + 1):
            asked = messages if strict or schema is None else spelled_out(messages, schema)
            options = options_of(max_tokens, schema if strict else None)
            try:
                return await self._answer(ModelRequest(asked, options=options))
            except ProviderError as error:
                if strict and error.code in {"bad_request", "unprocessable"}:
                    strict = False  # a server without grammars: the schema goes into the prompt
                elif error.retry_after is None or tries == TRIES:
                    await in_thread(notice, job=self._job, error=error)
                    raise PluginError(str(error)) from error
                else:
                    await asyncio.sleep(min(error.retry_after * tries, MOST_RETRY_SECONDS))
        raise PluginError("The model could not be asked.")

    async def _answer(self, request: ModelRequest) -> str:
        """Return the model's text; on a further attempt, the stored answer to this question."""
        question = [request.messages, request.options]
        known = await in_thread(self._answers.find, question)
        if known is not None:
            return known
        meter = self._meter.apart()  # a plugin may ask several questions at once
        chain = Chain(self._models, registry.provider_of, meter)
        try:
            said = await self._text(chain, request)
        finally:
            await in_thread(usage.store, meter)
        try:
            await in_thread(self._answers.keep, question, said)
        except jobs.LostJobError as error:
            raise Cancelled from error
        return said

    async def _text(self, chain: Chain, request: ModelRequest) -> str:
        """Return the model's text. Vendors count reasoning toward the limit of an answer: a model
        that thinks until then is asked again with a higher one, and with that one from then on.
        """
        most = request.options["max_tokens"] + THINKING_TOKENS
        roomier = replace(request, options={**request.options, "max_tokens": most})
        if self._thinks:
            try:
                return (await answer_of(chain, roomier)).text
            except ProviderError as error:
                if error.code != "context_length":
                    raise
        found = await answer_of(chain, request)
        if self._thinks or not (found.is_cut and found.has_thought):
            return found.text
        try:
            text = (await answer_of(chain, roomier)).text
        except ProviderError:  # as of a small window
            return found.text
        self._thinks = True
        return text


def notice(*, job: Job, error: ProviderError) -> None:
    """Count a failure of the model in a long task."""
    with transactions.atomic_write():
        health.noticed(run=job.run, error=error)


def options_of(max_tokens: int, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the parameters of a model call, as in OpenAI's chat completions."""
    options: dict[str, Any] = {"max_tokens": max_tokens}
    if schema is not None:
        named = {"name": "answer", "schema": dict(schema)}
        options["response_format"] = {"type": "json_schema", "json_schema": named}
    return options


def spelled_out(messages: list[ChatMessage], schema: Mapping[str, Any]) -> list[ChatMessage]:
    """Return the same question with the schema as text."""
    *before, last = messages
    told = f"{last['content']}\n\n{form(schema)}"
    return [*before, {**last, "content": told}]


def form(schema: Mapping[str, Any]) -> str:
    return f"Answer with JSON only, which keeps to this schema: {orjson.dumps(schema).decode()}"


def checked(said: str, schema: Mapping[str, Any]) -> tuple[str, str]:
    """Return the JSON in a model's answer, and its error (none: an empty string)."""
    text = json_in(said, BRACKETS.get(schema.get("type"), "{["))
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return "", "it is not valid JSON"
    try:
        jsonschema.validate(value, dict(schema))
    except jsonschema.ValidationError as error:
        return "", f"{error.json_path}: {error.message}"[:300]
    return text, ""


def json_in(said: str, brackets: str) -> str:
    """Return a text from the first of ``brackets`` to the last closing one of its kind."""
    starts = [at for at in map(said.find, brackets) if at >= 0]
    if not starts:
        return said.strip()
    start = min(starts)
    end = said.rfind("}" if said[start] == "{" else "]")
    return said[start : end + 1]
