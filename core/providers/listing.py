"""Small requests to a provider's server: its list of models, and a local Ollama.

Bounded in bytes and time, to allowed addresses only, without redirects. Errors never contain the
key.
"""

import asyncio
import os
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

import aiohttp
import orjson
from django.conf import settings

from core.lib.safe_fetch import RefusedAddressError, body_within
from core.lib.text import one_line
from core.providers import addresses, vendors
from core.providers.base import ProviderError
from core.providers.catalogue import ProviderInfo
from core.providers.failures import Failure, NoStreamError, classify, is_page
from core.providers.redaction import hide, without_key
from core.providers.vendors import Kind

LIST_SECONDS = 8.0
MOST_BYTES = 8 * 1024 * 1024  # OpenRouter's list has about 1 MB
MOST_MODELS = 2_000
MOST_PAGES = 5
LONGEST_NAME = 200  # of LanguageModel.name
ANTHROPIC_VERSION = "2023-06-01"
FIND_SECONDS = 1.0
OLLAMA_PORT = 11434
OWN_MACHINE = f"127.0.0.1:{OLLAMA_PORT}"
# Servers name the window differently: vLLM, OpenRouter, Groq, Mistral, Anthropic.
WINDOWS = (
    "max_model_len", "context_length", "context_window", "max_context_length", "max_input_tokens",
)  # fmt: skip
# OpenAI lists also what answers no chat.
NO_CHAT = re.compile(
    r"embedding|whisper|tts|dall-e|moderation|image|realtime|audio|transcribe|davinci|babbage|sora"
)


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model that a provider offers; None is not told."""

    name: str
    context_tokens: int | None = None
    images: bool | None = None
    tools: bool | None = None


@dataclass(frozen=True, slots=True)
class FoundOllama:
    """A local Ollama: the address for a provider's row, and its models."""

    base_url: str
    models: tuple[ListedModel, ...]


@dataclass(frozen=True, slots=True)
class Server:
    """A provider's server: its address, the headers with the key, and what may be connected to."""

    kind: str
    url: str
    key: str = field(repr=False)
    allowed: addresses.Allowed | None

    @property
    def headers(self) -> dict[str, str]:
        if self.kind == Kind.ANTHROPIC:
            return {"x-api-key": self.key, "anthropic-version": ANTHROPIC_VERSION}
        if self.kind == Kind.GOOGLE:
            return {"x-goog-api-key": self.key}
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    @property
    def root(self) -> str:
        """Return the address without the version of the API."""
        return self.url.removesuffix("/v1")


def server_of(info: ProviderInfo) -> Server:
    """Return the server of a provider's row. Raises ProviderError for one that has none."""
    if info.from_environment:
        if settings.LLM_PROVIDER != Kind.OPENAI_COMPATIBLE or not settings.LLM_BASE_URL:
            raise ProviderError.of(Failure("setup", "This provider has no list of models."))
        return Server(
            Kind.OPENAI_COMPATIBLE, settings.LLM_BASE_URL, settings.LLM_API_KEY, allowed=None
        )
    url, key = vendors.usable(info)
    return Server(info.kind, url, key, vendors.allowed_of(info))


async def ask(
    client: aiohttp.ClientSession, server: Server, url: str, body: dict[str, Any] | None = None
) -> Any:
    """Return the JSON of the response to a GET, or to a POST of ``body``, within MOST_BYTES; None
    for another body.

    Raises ProviderError for an error, and the errors of the connection: ``aiohttp.ClientError``,
    RefusedAddressError.
    """
    data = None if body is None else orjson.dumps(body)
    headers = {"Content-Type": "application/json", **server.headers}
    async with client.request(
        "GET" if data is None else "POST", url, data=data, headers=headers, allow_redirects=False
    ) as answer:
        content = await body_within(answer, MOST_BYTES)
    if content is None:
        raise ProviderError.of(Failure("bad_stream", "the response is too long"))
    if answer.status != 200:
        failure = classify(status=answer.status, headers=answer.headers, body=content)
        raise without_key(ProviderError.of(failure), server.key)
    if is_page(content):
        raise ProviderError.of(classify(exception=NoStreamError("A web page answers.")))
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return None


async def list_models(info: ProviderInfo) -> list[ListedModel]:
    """Return the models that a provider offers, by name. Takes at most LIST_SECONDS.

    Raises ProviderError; its ``reason`` says why, without the key.
    """
    server = server_of(info)
    try:
        async with asyncio.timeout(LIST_SECONDS), addresses.session(server.allowed) as client:
            return await models_of(client, server)
    except RefusedAddressError as error:
        raise ProviderError.of(Failure("setup", str(error))) from None
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        failure = without_key(ProviderError.of(classify(exception=error)), server.key)
    raise failure


async def models_of(client: aiohttp.ClientSession, server: Server) -> list[ListedModel]:
    """Return the models of a server. Raises as :func:`ask` does."""
    found = await all_models_of(client, server)
    return [each for each in found if hide(each.name, server.key) == each.name]


async def all_models_of(client: aiohttp.ClientSession, server: Server) -> list[ListedModel]:
    """Return the models of a server, however they are named."""
    if server.kind == Kind.OLLAMA:
        return named(entries(await ask(client, server, f"{server.root}/api/tags"), "models"))
    if server.kind == Kind.ANTHROPIC:
        return named(await pages(client, server, f"{server.url}/v1/models", "after_id", "last_id"))
    if server.kind == Kind.GOOGLE:
        url = f"{server.url}/v1beta/models"
        found = await pages(client, server, url, "pageToken", "nextPageToken")
        return named(each for each in found if answers_chat(each))
    listed = named(entries(await ask(client, server, f"{server.url}/models"), "data"))
    if server.kind == Kind.OPENAI:
        return [each for each in listed if not NO_CHAT.search(each.name)]
    return listed


async def pages(
    client: aiohttp.ClientSession, server: Server, url: str, parameter: str, following: str
) -> list[dict[str, Any]]:
    """Return the entries of a list with pages; ``following``: the field that names the next."""
    found: list[dict[str, Any]] = []
    google = server.kind == Kind.GOOGLE
    query = {"pageSize" if google else "limit": "1000"}
    for _ in range(MOST_PAGES):
        reply = await ask(client, server, f"{url}?{urlencode(query)}")
        found += entries(reply, "models" if google else "data")
        about = reply if isinstance(reply, dict) else {}
        more = about.get(following) if google or about.get("has_more") else None
        if not isinstance(more, str) or not more or len(found) >= MOST_MODELS:
            break
        query[parameter] = more
    return found


def entries(reply: Any, name: str) -> list[dict[str, Any]]:
    """Return the objects of a list in a response. Raises ProviderError for another form."""
    listed = reply.get(name) if isinstance(reply, dict) else reply
    if not isinstance(listed, list):
        raise ProviderError.of(Failure("no_model_server", "The response is no list of models."))
    return [each for each in listed[:MOST_MODELS] if isinstance(each, dict)]


def named(found: Any) -> list[ListedModel]:
    """Return a list's models by name, without those that have no usable name."""
    made: dict[str, ListedModel] = {}
    for each in found:
        name = each.get("id") or each.get("name") or each.get("model")
        if not isinstance(name, str):
            continue
        name = name.removeprefix("models/")
        if name and len(name) <= LONGEST_NAME and name == one_line(name, LONGEST_NAME):
            made[name] = ListedModel(name, window_of(each), *abilities_of(each))
    return [made[name] for name in sorted(made)]


def answers_chat(entry: dict[str, Any]) -> bool:
    """Return whether an entry of Google's list is a model that answers."""
    methods = entry.get("supportedGenerationMethods")
    return not isinstance(methods, list) or "generateContent" in methods


def window_of(entry: dict[str, Any]) -> int | None:
    for name in (*WINDOWS, "inputTokenLimit"):
        if window := whole(entry.get(name)):
            return window
    return None


def whole(value: Any) -> int | None:
    """Return a sensible number of tokens; None for anything else."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 < value < 2**31 else None


def abilities_of(entry: dict[str, Any]) -> tuple[bool | None, bool | None]:
    """Return whether an entry sees images and calls tools (OpenRouter, Mistral, Ollama)."""
    images: bool | None = None
    tools: bool | None = None
    architecture, able = entry.get("architecture"), entry.get("capabilities")
    if isinstance(architecture, dict) and isinstance(architecture.get("input_modalities"), list):
        images = "image" in architecture["input_modalities"]
    if isinstance(entry.get("supported_parameters"), list):
        tools = "tools" in entry["supported_parameters"]
    if isinstance(able, dict):
        images = able["vision"] if isinstance(able.get("vision"), bool) else images
        calling = able.get("function_calling")
        tools = calling if isinstance(calling, bool) else tools
    if isinstance(able, list):
        images, tools = "vision" in able, "tools" in able
    return images, tools


async def find_ollama() -> FoundOllama | None:
    """Return the Ollama of this machine or of ``OLLAMA_HOST``, which wins; None without one.

    Takes at most FIND_SECONDS.
    """
    asked = [ollama_at(each) for each in dict.fromkeys((own_host(), OWN_MACHINE)) if each]
    return next((found for found in await asyncio.gather(*asked) if found is not None), None)


def own_host() -> str:
    """Return the ``host:port`` of ``OLLAMA_HOST``, where clients reach it; empty for none."""
    given = os.environ.get("OLLAMA_HOST", "").strip()
    if not given:
        return ""
    try:
        parts = urlsplit(given if "//" in given else f"http://{given}")
        host, port = parts.hostname or "127.0.0.1", parts.port or OLLAMA_PORT
    except ValueError:
        return ""
    host = "127.0.0.1" if host in {"0.0.0.0", "::"} else host  # noqa: S104 - where it listens
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def ollama_at(host: str) -> FoundOllama | None:
    """Return the Ollama at ``host:port``."""
    allowed = addresses.allowed_of(private=True)
    server = Server(Kind.OLLAMA, f"http://{host}/v1", "", allowed)
    try:
        async with asyncio.timeout(FIND_SECONDS), addresses.session(server.allowed) as client:
            return FoundOllama(server.url, tuple(await models_of(client, server)))
    except (ProviderError, RefusedAddressError, TimeoutError, aiohttp.ClientError, OSError):
        return None
