"""The vendors of models that a row of ``ModelProvider`` may name, and the providers of them.

Those that speak OpenAI's chat completions use our own client; Anthropic and Google the agent
library, which is imported in a thread by the first call: 1 to 3 s and 70 to 110 MB.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.conf import settings
from django.utils.translation import gettext, gettext_noop

from core.lib.encryption import DecryptError, decrypt
from core.lib.ids import digest_of
from core.lib.safe_fetch import now_by_system
from core.models import ModelProvider
from core.providers import addresses
from core.providers.base import Delta, ModelRequest, Provider, ProviderError, Unavailable
from core.providers.catalogue import ProviderInfo
from core.providers.failures import Failure
from core.providers.openai_compatible import OpenAICompatible

if TYPE_CHECKING:
    from core.providers.agent_library import AgentLibrary

Kind = ModelProvider.Kind
Body = dict[str, Any]
LONGEST_KEY = 4096
MOST_SECONDS = 24 * 60 * 60
# Ids of calls as OpenAI and Mistral take them.
OPENAI_ID = re.compile(r".{0,40}", re.DOTALL)
CALL_ID = re.compile(r"[a-zA-Z0-9]{9}")
# Ends of addresses that people paste and that belong to single requests.
ENDINGS = {
    Kind.ANTHROPIC: ("/messages", "/v1"),
    Kind.GOOGLE: ("/v1beta", "/v1"),
}
USUAL_ENDINGS = ("/chat/completions", "/models")


def short_answers(body: Body) -> Body:
    """Rename the newer name of the answer's limit, which these servers do not know."""
    most = body.pop("max_completion_tokens", None)
    return body if most is None else {"max_tokens": most, **body}


def for_openai(body: Body) -> Body:
    """Change what OpenAI refuses: its reasoning models ``max_tokens``, all of them ids of calls
    with more than 40 characters, as those of other models.
    """
    body["messages"] = [with_ids(each, OPENAI_ID, 40) for each in body["messages"]]
    most = body.pop("max_tokens", None)
    return body if most is None else {"max_completion_tokens": most, **body}


def for_mistral(body: Body) -> Body:
    """Change what Mistral refuses: fields that it does not know (usage is in the last chunk anyway)
    and ids of calls that are not nine letters and digits, as those of other models.
    """
    body = short_answers(body)
    body.pop("stream_options", None)
    if "seed" in body:
        body["random_seed"] = body.pop("seed")
    body["messages"] = [with_ids(each, CALL_ID, 9) for each in body["messages"]]
    return body


def with_ids(message: Body, form: re.Pattern[str], length: int) -> Body:
    """Return a message whose calls have ids of a ``form``; others become ``length`` characters."""

    def accepted(given: str) -> str:
        return given if form.fullmatch(given) else digest_of(given, length)

    changed = dict(message)
    if message.get("tool_call_id"):
        changed["tool_call_id"] = accepted(message["tool_call_id"])
    if message.get("tool_calls"):
        calls = message["tool_calls"]
        changed["tool_calls"] = [{**call, "id": accepted(call["id"])} for call in calls]
    return changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """A vendor: its published address, whether it wants a key, and its deviations.

    ``adapt`` changes a body of chat completions; ``in_library``: it speaks a wire of its own.
    """

    address: str = ""
    needs_key: bool = True
    in_library: bool = False
    adapt: Callable[[Body], Body] | None = None


# The addresses are those of the vendors' API references.
VENDORS: dict[str, Vendor] = {
    Kind.OPENAI_COMPATIBLE: Vendor(needs_key=False),
    Kind.OPENAI: Vendor(address="https://api.openai.com/v1", adapt=for_openai),
    Kind.ANTHROPIC: Vendor(address="https://api.anthropic.com", in_library=True),
    Kind.GOOGLE: Vendor(address="https://generativelanguage.googleapis.com", in_library=True),
    Kind.OLLAMA: Vendor(
        address="http://127.0.0.1:11434/v1", needs_key=False, adapt=short_answers
    ),
    Kind.OPENROUTER: Vendor(address="https://openrouter.ai/api/v1", adapt=short_answers),
    Kind.GROQ: Vendor(address="https://api.groq.com/openai/v1"),
    Kind.MISTRAL: Vendor(address="https://api.mistral.ai/v1", adapt=for_mistral),
    Kind.DEEPSEEK: Vendor(address="https://api.deepseek.com", adapt=short_answers),
}  # fmt: skip


# Vendors that are set up by their address alone, as any server of OpenAI's API.
BY_HOST: dict[str, Callable[[Body], Body] | None] = {
    urlsplit(each.address).hostname or "": each.adapt
    for kind, each in VENDORS.items()
    if kind != Kind.OLLAMA  # on this machine any other may be
}
AZURE = ".openai.azure.com"


def adapt_of(kind: str, url: str) -> Callable[[Body], Body] | None:
    """Return the change of a body for a vendor, which may be known by its address alone."""
    if kind != Kind.OPENAI_COMPATIBLE:
        return VENDORS[kind].adapt
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return None
    return for_openai if host.endswith(AZURE) else BY_HOST.get(host)


def takes_schemas(info: ProviderInfo) -> bool:
    """Return whether a provider is sent the schema of an answer: the agent library's are not."""
    if info.from_environment:
        return settings.LLM_PROVIDER in {Kind.OPENAI_COMPATIBLE, "scripted"}
    return info.kind in VENDORS and not VENDORS[info.kind].in_library


def address_of(info: ProviderInfo) -> str:
    """Return the address that requests are built on: the row's, else the vendor's.

    Ends of it that belong to single requests are left out, and Ollama's ``/v1`` is added.
    """
    given = info.base_url.strip().rstrip("/")
    if not given:
        return VENDORS[info.kind].address
    for ending in ENDINGS.get(Kind(info.kind), USUAL_ENDINGS):
        given = given.removesuffix(ending).rstrip("/")
    if info.kind == Kind.OLLAMA:
        given = f"{given.removesuffix('/v1').removesuffix('/api')}/v1"
    return given


def allowed_of(info: ProviderInfo) -> addresses.Allowed:
    """Return the check of a provider's addresses; the vendor's own is always allowed."""
    return addresses.allowed_of(private=info.allow_private or not info.base_url.strip())


def key_of(info: ProviderInfo) -> str:
    """Return the decrypted key; empty for none. Raises DecryptError."""
    return decrypt(info.secrets).get("key", "")


def problems(
    info: ProviderInfo,
    key: str,
    *,
    resolve: addresses.ResolveNow = now_by_system,
) -> dict[str, str]:
    """Return what is wrong with a provider's fields: name of the field -> a sentence.

    For forms; blocks on the system's resolver. The sentences never contain the key.
    """
    if info.kind not in VENDORS:
        return {"kind": gettext("Choose the kind of this provider.")}
    found: dict[str, str] = {}
    if wrong := problem_of_key(info.kind, key):
        found["key"] = wrong
    given = info.base_url.strip()
    if not given and not VENDORS[info.kind].address:
        found["base_url"] = gettext("An address is needed, for example {address}").format(
            address="http://192.168.1.5:8000/v1"
        )
    elif given and (wrong := addresses.problem(given, private=info.allow_private, resolve=resolve)):
        found["base_url"] = wrong
    for name in ("first_token_seconds", "idle_seconds"):
        if not 1 <= getattr(info, name) <= MOST_SECONDS:
            found[name] = gettext("A number of seconds from 1 to {most}.").format(most=MOST_SECONDS)
    return found


def problem_of_key(kind: str, key: str) -> str:
    """Return what is wrong with a key, as a sentence without it; empty for nothing."""
    if not key:
        wanted = gettext("{name} wants a key.").format(name=Kind(kind).label)
        return wanted if VENDORS[kind].needs_key else ""
    wrong = problem_of_form(key)
    return gettext(wrong) if wrong else ""


def problem_of_form(key: str) -> str:
    """Return what is wrong with the text of a key, in English; empty for nothing."""
    if len(key) > LONGEST_KEY:
        return gettext_noop("The key is too long.")
    if any(each.isspace() for each in key):
        return gettext_noop(
            "The key contains a space or a line break. Copy it again, without them."
        )
    if not (key.isascii() and key.isprintable()):
        return gettext_noop("The key contains a character that no key has. Copy it again.")
    return ""


def usable(info: ProviderInfo) -> tuple[str, str]:
    """Return the address and the key of a row. Raises ProviderError for one that is not set up."""
    try:
        key = key_of(info)
    except DecryptError:
        raise unusable(
            "The key cannot be decrypted: GATEWAY_ENCRYPTION_KEYS was changed."
        ) from None
    if info.kind not in VENDORS:
        raise unusable("The provider's kind is not known.")
    url = address_of(info)
    if wrong := problem_of_key(info.kind, key) or addresses.problem_of_form(url):
        raise unusable(wrong)
    return url, key


def unusable(reason: str) -> ProviderError:
    return ProviderError.of(Failure("setup", reason))


def build(info: ProviderInfo) -> Provider:
    """Return a row's provider, connecting lazily; of an unusable row, one whose calls fail."""
    try:
        url, key = usable(info)
    except ProviderError as error:
        return Unavailable(error)
    vendor = VENDORS[info.kind]
    if vendor.in_library:
        return Library(partial(load, info, url=url, key=key))
    return OpenAICompatible(
        base_url=url,
        api_key=key,
        first_seconds=info.first_token_seconds,
        idle_seconds=info.idle_seconds,
        allowed=allowed_of(info),
        adapt=adapt_of(info.kind, url),
    )


def load(info: ProviderInfo, *, url: str, key: str) -> "AgentLibrary":
    """Return a client of the agent library, which is imported here."""
    from core.providers import library_clients  # noqa: PLC0415 - see the module's description

    return library_clients.VendorLibrary(info, url=url, key=key)


class Library:
    """A vendor of the agent library; the first call loads its client, which connects lazily."""

    def __init__(self, load: Callable[[], "AgentLibrary"]) -> None:
        self._load = load
        self._lock = asyncio.Lock()
        self._client: AgentLibrary | None = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        async with self._lock:
            # In a thread: the streams of other runs go on meanwhile.
            client = self._client
            if client is None:
                client = self._client = await asyncio.to_thread(self._load)
        async with aclosing(client.stream(request)) as found:
            async for delta in found:
                yield delta

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
