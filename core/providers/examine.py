"""Find out why a provider or a model does not work: plain words beside the field to be changed.

Some small real requests: the list of models, an answer with a tool, one with a picture. At most
EXAMINE_SECONDS in all. No result contains the key.
"""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from django.utils.translation import gettext, gettext_noop

from core.lib.safe_fetch import RefusedAddressError
from core.providers import addresses, prices, questions, registry, vendors
from core.providers.base import ModelRequest, Provider, ProviderError, TextDelta, ToolCallDelta
from core.providers.catalogue import ProviderInfo
from core.providers.failures import classify
from core.providers.findings import Finding, refused, sentence, unreached
from core.providers.listing import (
    LIST_SECONDS,
    ListedModel,
    Server,
    ask,
    models_of,
    server_of,
    whole,
)
from core.providers.redaction import hide, without_key
from core.providers.vendors import Kind

EXAMINE_SECONDS = 20.0
SMALL_SECONDS = 3.0
ENOUGH_CHARACTERS = 200
# Failures that a request without tools or pictures may not have.
OF_ABILITIES = {"bad_request", "unprocessable", "server", "not_found", "bad_stream"}
NO_TOOLS = gettext_noop("The model answers, but cannot call tools.")
NO_CALL = gettext_noop(
    "The model answers, but did not call a tool when it was asked to: it may not be able to."
)
NO_IMAGES = gettext_noop("The model answers, but cannot see pictures.")


@dataclass(slots=True, kw_only=True)
class Examination:
    """The findings, offered models, whether the model answers, its abilities (None: unknown)."""

    findings: list[Finding] = field(default_factory=list)
    answers: bool = False
    models: list[ListedModel] = field(default_factory=list)
    context_tokens: int | None = None
    can_call_tools: bool | None = None
    can_see_images: bool | None = None

    @property
    def ok(self) -> bool:
        """Return whether nothing is wrong; notes are allowed."""
        return not any(each.is_error for each in self.findings)

    def note(self, field_name: str, text: str, *, is_error: bool = True) -> None:
        self.findings.append(Finding(field_name, text, is_error))


async def examine(info: ProviderInfo, model_name: str = "") -> Examination:
    """Return what is wrong with a provider and one of its models (empty: the provider alone)."""
    result = Examination()
    try:
        server = server_of(info)
    except ProviderError as error:
        if info.from_environment:
            await examine_settings(result)
        else:
            result.note(field_of_setup(info), error.reason or str(error))
        return result
    try:
        async with asyncio.timeout(EXAMINE_SECONDS), addresses.session(server.allowed) as client:
            await Examiner(info, model_name, server, client, result).run()
    except TimeoutError:
        text = no_answer()
        if result.answers:
            more = gettext("Not all abilities were found out.")
            result.note("name", f"{text} {more}", is_error=False)
        else:
            more = gettext("A local model may still be loading: test again in a minute.")
            result.note("base_url", f"{text} {more}")
    return result


def no_answer() -> str:
    """Return that a server was silent for too long."""
    return gettext("No answer came within {seconds} seconds.").format(
        seconds=round(EXAMINE_SECONDS)
    )


def field_of_setup(info: ProviderInfo) -> str:
    """Return the field that makes a row unusable without asking anything."""
    found = vendors.problems(info, "", resolve=lambda host, port: [])
    return next((name for name in found if name in {"base_url", "kind"}), "key")


async def examine_settings(result: Examination) -> None:
    """Examine the provider of the settings that is not OpenAI-compatible, by one answer."""
    request = ModelRequest([{"role": "user", "content": "Say ready."}])
    provider: Provider | None = None
    try:
        provider = registry.of_settings()
        async with asyncio.timeout(EXAMINE_SECONDS), aclosing(provider.stream(request)) as found:
            async for delta in found:
                if isinstance(delta, TextDelta):
                    result.answers = True
                    return
    except ProviderError as error:
        result.note("name", sentence(gettext(str(error)), error.reason))
    except TimeoutError:
        result.note("name", no_answer())
    finally:
        if provider is not None:
            await provider.close()


@dataclass(slots=True)
class Examiner:
    """One examination; see :func:`examine`."""

    info: ProviderInfo
    model_name: str
    server: Server
    client: aiohttp.ClientSession
    result: Examination

    async def run(self) -> None:
        """Add what is found to the result."""
        is_plain = self.server.url.startswith("http://") and not self.info.allow_private
        if self.server.key and is_plain and self.info.base_url:
            self.result.note(
                "base_url", gettext("The key is sent unencrypted: use https://."), is_error=False
            )
        if not await self._list() or not self.model_name:
            return
        known = {each.name: each for each in self.result.models}
        model = known.get(self.model_name) or known.get(f"{self.model_name}:latest")
        model = model or ListedModel(self.model_name)
        self.result.can_see_images, self.result.can_call_tools = model.images, model.tools
        self.result.answers = await self._answers()
        if not self.result.answers:
            return
        await self._examine_window(model)
        await self._examine_images()

    async def _list(self) -> bool:
        """Ask for the models; return whether there is a server that may be asked for an answer."""
        try:
            async with asyncio.timeout(LIST_SECONDS):
                self.result.models = await models_of(self.client, self.server)
        except ProviderError as error:
            if error.code in {"not_found", "bad_request", "unprocessable"} and self.model_name:
                return True  # not every server has a list
            self._tell(error)
            if error.code in {"not_found", "no_model_server"}:
                await self._suggest_address()
            return False
        except (TimeoutError, RefusedAddressError, aiohttp.ClientError) as error:
            text = unreached(error, urlsplit(self.server.url).netloc)
            self.result.note("base_url", hide(text, self.server.key))
            return False
        return True

    async def _suggest_address(self) -> None:
        """Tell when the list of models is found below ``/v1``."""
        if self.server.kind != Kind.OPENAI_COMPATIBLE or self.server.url.endswith("/v1"):
            return
        url = f"{self.server.url}/v1"
        other = Server(self.server.kind, url, self.server.key, self.server.allowed)
        try:
            async with asyncio.timeout(SMALL_SECONDS):
                await models_of(self.client, other)
        except (ProviderError, TimeoutError, RefusedAddressError, aiohttp.ClientError):
            return
        said = gettext("A model server answers at {url}: write this address.").format(url=url)
        self.result.note("base_url", said)

    async def _answers(self) -> bool:
        """Ask for a call of a tool, then without one; return whether the model answers."""
        if self.result.can_call_tools is not False:
            try:
                called = await self._ask(questions.FOR_TOOL, with_tool=True)
            except ProviderError as error:
                if error.code not in OF_ABILITIES:
                    self._tell(error)
                    return False
            else:
                self._tell_call(called=called)
                return True
        try:
            await self._ask("Say ready.")
        except ProviderError as error:
            self._tell(error)
            return False
        self.result.can_call_tools = False
        self.result.note("can_call_tools", gettext(NO_TOOLS), is_error=False)
        return True

    def _tell_call(self, *, called: bool | None) -> None:
        """Note whether the model called the tool; None: its answer was not read to its end."""
        if called is not None:
            self.result.can_call_tools = called
        if called is False:
            self.result.note("can_call_tools", gettext(NO_CALL), is_error=False)

    async def _examine_images(self) -> None:
        """Ask about a picture, unless the list has told whether the model sees them."""
        if self.result.can_see_images is None:
            try:
                said = await self._ask(questions.FOR_COLOUR, picture=questions.picture())
            except ProviderError as error:
                if error.code in OF_ABILITIES | {"content", "too_large", "context_length"}:
                    self.result.can_see_images = False
            else:
                self.result.can_see_images = said or None
        if self.result.can_see_images is False:
            self.result.note("can_see_images", gettext(NO_IMAGES), is_error=False)

    async def _examine_window(self, model: ListedModel) -> None:
        """Find the window that the server runs the model with, else the one that it lists."""
        window = model.context_tokens
        if self.server.kind == Kind.OLLAMA:
            window = await self._ollama_window() or window
        elif self.server.kind == Kind.OPENAI_COMPATIBLE and window is None:
            window = await self._llama_window()
        if window is None:
            window = await asyncio.to_thread(
                prices.context_tokens, self.info.kind, self.info.base_url, self.model_name
            )
        self.result.context_tokens = window
        if window is not None:
            said = gettext("The model's window is {count} tokens.").format(count=f"{window:,}")
            self.result.note("context_tokens", said, is_error=False)

    async def _ollama_window(self) -> int | None:
        """Return the window that Ollama runs the model with; note when the model could do more, and
        its abilities (``/api/show``, ``/api/ps``).
        """
        shown = await self._small("/api/show", {"model": self.model_name})
        able = shown.get("capabilities")
        if isinstance(able, list):
            self.result.can_see_images = "vision" in able
        about = shown.get("model_info")
        about = about if isinstance(about, dict) else {}
        longest = next(
            (whole(about[name]) for name in about if str(name).endswith(".context_length")), None
        )
        running = await self._small("/api/ps")
        loaded = running.get("models")
        for each in loaded if isinstance(loaded, list) else ():
            if isinstance(each, dict) and str(each.get("name")).removesuffix(":latest") == (
                self.model_name.removesuffix(":latest")
            ):
                window = whole(each.get("context_length"))
                if window and longest and window < longest:
                    self.result.note(
                        "context_tokens",
                        gettext(
                            "The model could read {longest} tokens, but Ollama runs it with "
                            "{window}: OLLAMA_CONTEXT_LENGTH raises that."
                        ).format(longest=f"{longest:,}", window=f"{window:,}"),
                        is_error=False,
                    )
                return window
        return None

    async def _llama_window(self) -> int | None:
        """Return the window of llama.cpp's server (``/props``); None of another."""
        props = await self._small("/props")
        of_slot = props.get("default_generation_settings")
        return whole(of_slot.get("n_ctx")) if isinstance(of_slot, dict) else None

    async def _small(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return an object that the server may tell, empty when it does not."""
        try:
            async with asyncio.timeout(SMALL_SECONDS):
                found = await ask(self.client, self.server, f"{self.server.root}{path}", body)
        except (ProviderError, TimeoutError, RefusedAddressError, aiohttp.ClientError):
            return {}
        return found if isinstance(found, dict) else {}

    async def _ask(
        self, question: str, *, with_tool: bool = False, picture: str = ""
    ) -> bool | None:
        """Return whether the model did as asked; None for a cut answer. Raises ProviderError."""
        try:
            native = questions.NATIVE.get(self.server.kind)
            if native is not None:
                path, body = native(self.model_name, question, with_tool=with_tool, picture=picture)
                said = await ask(self.client, self.server, f"{self.server.url}{path}", body)
                return questions.is_done(said, with_tool=with_tool)
            return await self._stream(question, with_tool=with_tool, picture=picture)
        except (RefusedAddressError, aiohttp.ClientError) as error:
            failure = without_key(ProviderError.of(classify(exception=error)), self.server.key)
        raise failure

    async def _stream(self, question: str, *, with_tool: bool, picture: str) -> bool | None:
        """Ask by the client that the turns use."""
        request = questions.request(self.model_name, question, with_tool=with_tool, picture=picture)
        own = self.info.from_environment
        provider = registry.of_settings() if own else vendors.build(self.info)
        said = ""
        try:
            async with aclosing(provider.stream(request)) as found:
                async for delta in found:
                    if isinstance(delta, ToolCallDelta) and with_tool:
                        return True
                    if isinstance(delta, TextDelta):
                        said += delta.text
                    if len(said) > ENOUGH_CHARACTERS:
                        break
        finally:
            await provider.close()
        if not said:
            return None
        return False if with_tool else questions.COLOUR in said.lower()

    def _tell(self, error: ProviderError) -> None:
        """Note a server's refusal, beside the field that it is about."""
        self.result.findings.append(
            refused(
                error,
                key=self.server.key,
                model=self.model_name,
                names=[each.name for each in self.result.models],
            )
        )
