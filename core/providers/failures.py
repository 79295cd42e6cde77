"""The classification of failed model calls, for users, owners, clients and retries.

``classify`` is a pure function of the response (status, headers, body) or of the exception;
:data:`KINDS` defines the consequences of each code. Error bodies differ: OpenAI, Anthropic, Google,
vLLM, Ollama and llama.cpp each have their own, and proxies before them answer with HTML.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

import aiohttp
import orjson
from django.utils.translation import gettext_noop

from core.lib.text import one_line

REASON_CHARACTERS = 500
BODY_BYTES = 64 * 1024  # of an error's body, more is not read
DEFAULT_RETRY_SECONDS = 1.0
RATE_LIMIT_SECONDS = 2.0
MOST_ASKED_SECONDS = 31 * 86_400.0  # quotas are those of a month at most
# Strings that look like credentials never reach a log, a page or a user.
SECRET = re.compile(
    r"(?i)\b(?:sk|pk|rk|gsk|xai|key|AIza)[-_][\w*.-]{4,}|\bAIza[\w-]{16,}|bearer\s+[\w.*~+/-]+=*"
)
ADDRESS = re.compile(r"\bhttps?://[^\s\"'<>]+")


class BadStreamError(ValueError):
    """The server's stream violates the format."""


class CutStreamError(Exception):
    """The stream ended before the answer did."""


class SilenceError(Exception):
    """The model began to answer and then sent nothing for too long."""


class NoStreamError(Exception):
    """The response is not a stream: a web page, or another service's response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The consequences of one cause.

    ``person``: the text for the user. ``owner``: the advice for the owner. ``status``, ``type`` and
    ``name``: the error at ``/v1``. ``is_retried``: the same call may soon succeed.
    ``is_reported``: the model does not work, which is reported to the owner.
    """

    person: str
    owner: str
    status: int = 502
    type: str = "server_error"
    name: str = ""
    is_retried: bool = False
    is_reported: bool = True

    @property
    def waiting(self) -> str:
        """Return the progress line during the retries."""
        return f"{self.person.split('. ')[0].rstrip('.')}. Trying again…"


REQUEST = "invalid_request_error"
# The request is wrong; the model works.
refused_request = partial(Kind, type=REQUEST, is_reported=False)
unaccepted = partial(
    refused_request,
    person=gettext_noop("The model server did not accept the request."),
    owner=gettext_noop("The server refused the request as wrong; its reason is on the run's page."),
)

KINDS: dict[str, Kind] = {
    "rate_limited": Kind(
        person=gettext_noop("The model is busy (rate limit). Please try again later."),
        owner=gettext_noop(
            "The provider limits the number of requests. Ask it for a higher limit."
        ),
        status=429,
        type="rate_limit_error",
        name="rate_limit_exceeded",
        is_retried=True,
    ),
    "overloaded": Kind(
        person=gettext_noop("The model server is overloaded. Please try again in a moment."),
        owner=gettext_noop("The provider is overloaded, or the model is still being loaded."),
        status=503,
        name="overloaded",
        is_retried=True,
    ),
    "quota": Kind(
        person=gettext_noop(
            "The model's quota is used up. The owner of this gateway has to renew it."
        ),
        owner=gettext_noop(
            "The account at the provider has no credit left, or its budget is reached."
        ),
        status=429,
        type="insufficient_quota",
        name="insufficient_quota",
    ),
    "budget": Kind(
        person=gettext_noop("The budget is used up."),
        owner=gettext_noop("A budget of this gateway is used up. See Budgets in the admin."),
        status=429,
        type="insufficient_quota",
        name="insufficient_quota",
        is_reported=False,
    ),
    "unauthorised": Kind(
        person=gettext_noop(
            "The model server refused the gateway's key. The owner has to correct it."
        ),
        owner=gettext_noop(
            "The provider refuses the key. Enter another one at the provider in the admin, or "
            "in GATEWAY_MODEL_KEY."
        ),
        name="model_unauthorised",
    ),
    "context_length": refused_request(
        person=gettext_noop(
            "This conversation is too long for the model. Send less, or start a new one."
        ),
        owner=gettext_noop(
            "The request was longer than the model's window. Check the window in the admin, or "
            "LLM_CONTEXT_TOKENS."
        ),
        status=400,
        name="context_length_exceeded",
    ),
    "too_large": refused_request(
        person=gettext_noop("The request is too large for the model server. Send less at once."),
        owner=gettext_noop("The server refuses requests of this size."),
        status=413,
        name="request_too_large",
    ),
    "content": refused_request(
        person=gettext_noop("The model's provider refuses this request because of its content."),
        owner=gettext_noop("The provider's content filter refused the request."),
        status=400,
        name="content_filter",
    ),
    "bad_request": unaccepted(status=400, name="bad_request"),
    "unprocessable": unaccepted(status=422, name="unprocessable"),
    "not_found": Kind(
        person=gettext_noop(
            "The model was not found. The owner has to correct its name or address."
        ),
        owner=gettext_noop(
            "The server does not know this model or address. Check both in the admin, or "
            "GATEWAY_MODEL(_URL)."
        ),
        status=404,
        type=REQUEST,
        name="model_not_found",
    ),
    "timeout": Kind(
        person=gettext_noop("The model did not answer in time."),
        owner=gettext_noop(
            "No token came within the provider's time for the first one (in the admin, or "
            "LLM_FIRST_TOKEN_SECONDS)."
        ),
        status=504,
        name="timeout",
        is_retried=True,
    ),
    "silence": Kind(
        person=gettext_noop("The model stopped in the middle of its answer."),
        owner=gettext_noop(
            "The stream had no token for the provider's longest silence (in the admin, or "
            "LLM_IDLE_SECONDS)."
        ),
        status=504,
        name="timeout",
        is_retried=True,
    ),
    "cut": Kind(
        person=gettext_noop("The connection to the model broke off in the middle of its answer."),
        owner=gettext_noop("The server, or a proxy before it, closed the stream before its end."),
        name="model_cut_off",
        is_retried=True,
    ),
    "bad_stream": Kind(
        person=gettext_noop("The model's answer could not be read."),
        owner=gettext_noop("The stream is not that of the chat completions API."),
        name="model_bad_stream",
        is_retried=True,
    ),
    "unreachable": Kind(
        person=gettext_noop("The model server cannot be reached."),
        owner=gettext_noop(
            "No server answers at the model's address. Check the server and the address."
        ),
        name="model_unreachable",
        is_retried=True,
    ),
    "no_model_server": Kind(
        person=gettext_noop("The server at the model's address is not a model server."),
        owner=gettext_noop(
            "A web page or another service answers there. Check the provider's address in the "
            "admin, or GATEWAY_MODEL_URL."
        ),
        name="model_not_a_server",
    ),
    "server": Kind(
        person=gettext_noop("The model server failed."),
        owner=gettext_noop("The server reported an error of its own."),
        name="model_server_error",
        is_retried=True,
    ),
    "empty": Kind(
        person=gettext_noop("The model gave an empty answer, twice. Please rephrase your message."),
        owner=gettext_noop("The model ended its answer without text."),
        name="model_empty_answer",
    ),
    "length": Kind(
        person=gettext_noop(
            "The model reached the limit of its answer while it still thought. Please ask for less."
        ),
        owner=gettext_noop(
            "The model reached the limit of an answer before it had text. Raise the longest answer."
        ),
        name="model_empty_answer",
    ),
    "setup": Kind(
        person=gettext_noop("The model is not set up. The owner has to set it up."),
        owner=gettext_noop(
            "Check the provider in the admin, or GATEWAY_MODEL, GATEWAY_MODEL_URL and "
            "GATEWAY_MODEL_KEY."
        ),
        name="model_not_set_up",
    ),
}
# Causes outside the model that end a run.
OWN = Kind(
    person=gettext_noop("Something went wrong."),
    owner=gettext_noop("See the log."),
    is_reported=False,
)

# Codes and types of the servers' error bodies, in lower case, each with its code of KINDS.
NAMES: dict[str, str] = {
    "insufficient_quota": "quota",
    "billing_hard_limit_reached": "quota",
    "billing_error": "quota",
    "insufficient_balance": "quota",
    "insufficient_user_quota": "quota",  # relays of several vendors
    "exceeded_current_quota_error": "quota",  # Moonshot
    "arrearage": "quota",  # DashScope
    "1113": "quota",  # Zhipu, and the next
    "1261": "context_length",
    "1301": "content",
    "rate_limit_exceeded": "rate_limited",
    "rate_limit_error": "rate_limited",
    "resource_exhausted": "rate_limited",
    "context_length_exceeded": "context_length",
    "exceed_context_size_error": "context_length",
    "string_above_max_length": "context_length",
    "model_max_prompt_tokens_exceeded": "context_length",  # Copilot
    "content_filter": "content",
    "content_policy_violation": "content",
    "data_inspection_failed": "content",  # DashScope
    "responsibleaipolicyviolation": "content",
    "moderation_blocked": "content",
    "overloaded_error": "overloaded",
    "unavailable_error": "overloaded",
    "unavailable": "overloaded",
    "engine_overloaded": "overloaded",
    "invalid_api_key": "unauthorised",
    "authentication_error": "unauthorised",
    "permission_error": "unauthorised",
    "model_not_found": "not_found",
    "model_decommissioned": "not_found",  # Groq
    "invalid_model": "not_found",  # Mistral
    "1211": "not_found",  # Zhipu
    "not_found_error": "not_found",
    "request_too_large": "too_large",
    "tool_use_failed": "bad_stream",  # Groq: the model wrote no call that can be read
}
WORDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), code)
    for pattern, code in (
        (r"credit balance|insufficient (?:account )?(?:credits?|balance|funds|quota)|balance is "
         r"insufficient|exceeded your (?:current|monthly) (?:quota|spend)|quota (?:is )?(?:used up|"
         r"exhausted)|billing|spending limit|account is in good standing|overdue (?:account|"
         r"payment)|余额不足|欠费", "quota"),
        (r"maximum context length|context (?:length|window|size|limit)|prompt is too long|too many "
         r"(?:input )?tokens|input token count|exceeds the available context|reduce the length|"
         r"maximum (?:input )?(?:prompt )?tokens|longer than the maximum model length|"
         r"max_model_len|input is too long", "context_length"),
        # Of xAI (twice), Kimi, Zhipu, DashScope, SGLang, Copilot, OpenAI and TGI (twice).
        (r"maximum prompt length|input_too_large|model token limit|prompt exceeds max length|range "
         r"of input length|maximum allowed (?:input )?length|prompt token count|exceed the "
         r"configured limit|`inputs` (?:tokens \+|must have less)", "context_length"),
        (r"content (?:management )?(?:policy|filter)|safety system|flagged|moderation", "content"),
        # Of DeepSeek, DashScope and xAI; the last says that the caller has no permission.
        (r"content exists risk|inappropriate content|violates usage guidelines", "content"),
        (r"api[ _-]key (?:not valid|is invalid)|(?:invalid|incorrect) api[ _-]key", "unauthorised"),
        # Pictures, or tools, that this model does not take: OpenRouter says 404, llama.cpp 500.
        (r"no endpoints found that support|(?:image|audio) input is not supported|unsupported "
         r"content part type|missing data required for image input", "bad_request"),
        (r"tool_use_failed|failed to call a function", "bad_stream"),
        (r"loading model|overloaded|currently (?:un)?available|no slot available|server busy",
         "overloaded"),
        (r"\bmodel\b.{0,200}(?:not found|does not exist)|(?:not found|no such) model|model not "
         r"exist|invalid model name|not a valid model id", "not_found"),
    )
)  # fmt: skip
BY_STATUS = {
    400: "bad_request",
    401: "unauthorised",
    402: "quota",
    403: "unauthorised",
    404: "not_found",
    405: "not_found",
    408: "timeout",
    413: "too_large",
    422: "unprocessable",
    429: "rate_limited",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}
SOON = re.compile(r"(?i)\b(?:retry|try again) (?:in|after) [0-9]")
MILLISECONDS = re.compile(r"[0-9]{13}")
DELAY = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,9})?)s")
# Codes that a body's text may refine a status to: a 401 with "billing" is still our key.
REFINED = {400, 402, 403, 404, 412, 413, 422, 429, 500, 502, 503, 529}


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed call: its code, the server's own reason (one line, bounded, without credentials)
    and the seconds that the server asks to wait, if any.
    """

    code: str
    reason: str = ""
    asked_seconds: float | None = None

    @property
    def kind(self) -> Kind:
        return KINDS.get(self.code, OWN)

    @property
    def retry_after(self) -> float | None:
        """Return the seconds until another try, or None when another try is useless."""
        if not self.kind.is_retried:
            return None
        usual = RATE_LIMIT_SECONDS if self.code == "rate_limited" else DEFAULT_RETRY_SECONDS
        return self.asked_seconds if self.asked_seconds is not None else usual

    @property
    def words(self) -> str:
        """Return the text for the user."""
        seconds = self.asked_seconds
        if self.code == "rate_limited" and seconds:
            return f"The model is busy (rate limit). Please try again in {duration(seconds)}."
        return self.kind.person


def duration(seconds: float) -> str:
    """Format ``90.0`` as ``2 min``: rounded up, so that waiting that long suffices."""
    whole = int(-(-seconds // 1))
    if whole <= 90:
        return f"{whole} s"
    minutes = -(-whole // 60)
    return f"{minutes} min" if minutes <= 90 else f"{-(-minutes // 60)} h"


def classify(
    *,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    exception: BaseException | None = None,
) -> Failure:
    """Return the failure of a call: of its ``exception``, else of the server's response."""
    if exception is not None:
        return of_exception(exception)
    given = {name.lower(): value for name, value in (headers or {}).items()}
    return of_answer(status or 200, given, body)


def of_answer(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """Return the failure in a response: with a status, or as an error inside a stream (200)."""
    names, reason, details = described(body)
    seconds, told = wait_seconds(headers), google_seconds(details)
    if 300 <= status < 400 or (is_page(body) and status in {200, 400, 404, 405}):
        return Failure("no_model_server", reason, seconds)
    code = BY_STATUS.get(status, "server" if status >= 500 or status == 200 else "bad_request")
    if status in REFINED or status == 200:
        code = refined(status, names, reason) or code
    if told is not None and code in {"quota", "rate_limited"}:
        code = "quota" if is_of_day(details) else "rate_limited"
    if seconds is None:
        seconds = told if told is not None else openrouter_seconds(details)
    return Failure(code, reason, seconds)


def refined(status: int, names: tuple[str, ...], reason: str) -> str:
    """Return the code for the texts of a body; empty when they add nothing to the status."""
    by_name = next((NAMES[name] for name in names if name in NAMES), "")
    by_words = next((code for pattern, code in WORDS if pattern.search(reason)), "")
    if by_words == "quota" and SOON.search(reason):
        by_words = "rate_limited"  # of this minute
    if by_words == "context_length" and status == 429:
        by_words = ""  # "too many tokens" a minute
    # "rate_limit_error" and "invalid_request_error" are also used for exhausted credit.
    code = by_words if by_words in {"quota", "context_length"} else by_name or by_words
    return "" if code == "rate_limited" and status in {400, 403, 404, 413, 422} else code


def of_exception(error: BaseException) -> Failure:
    """Return the failure of a call that ended without a response."""
    match error:
        case SilenceError():
            return Failure("silence")
        case TimeoutError():
            return Failure("timeout")
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return Failure("setup", gettext_noop("The model's address is wrong."))
        case aiohttp.ClientConnectorError() | aiohttp.ServerDisconnectedError():
            return Failure("unreachable", bounded(type(error).__name__))
        case NoStreamError():
            return Failure("no_model_server", bounded(str(error)))
        case BadStreamError():
            return Failure("bad_stream", bounded(str(error)))
        case CutStreamError() | aiohttp.ClientPayloadError() | aiohttp.ClientConnectionError():
            return Failure("cut", bounded(str(error)))
        case aiohttp.ClientResponseError():
            return Failure("no_model_server", bounded(str(error.message)))
    return Failure("bad_stream", bounded(type(error).__name__))


def described(body: bytes) -> tuple[tuple[str, ...], str, list[dict[str, Any]]]:
    """Return an error body's codes and types in lower case, its message, and its details."""
    try:
        found: Any = orjson.loads(body[:BODY_BYTES] or b"null")
    except orjson.JSONDecodeError:
        return (), bounded(text_of_page(body)), []
    found = found[0] if isinstance(found, list) and found else found
    if not isinstance(found, dict):
        return (), bounded(found if isinstance(found, str) else ""), []
    inner = found.get("error")
    error: dict[str, Any] = inner if isinstance(inner, dict) else found
    azure = error.get("innererror")
    values = [error.get(name) for name in ("code", "type", "status")]
    values += [azure.get("code")] if isinstance(azure, dict) else []
    names = tuple(value.lower() for value in values if isinstance(value, str))
    message = inner if isinstance(inner, str) else error.get("message") or error.get("detail") or ""
    message = message if isinstance(message, str) else orjson.dumps(message).decode()
    about = error.get("metadata")
    raw = about.get("raw") if isinstance(about, dict) else None
    # OpenRouter's own message is "Provider returned error".
    text = bounded(f"{message}: {raw}" if raw and isinstance(raw, str) else message)
    given = error.get("details")
    more = [*(given if isinstance(given, list) else ()), about]
    return names, text, [each for each in more if isinstance(each, dict)]


def google_seconds(details: list[dict[str, Any]]) -> float | None:
    """Return the seconds to wait in the details of Google's error, which has no header of it."""
    delays = (DELAY.fullmatch(str(each.get("retryDelay"))) for each in details)
    return next((float(delay[1]) for delay in delays if delay), None)


def openrouter_seconds(details: list[dict[str, Any]]) -> float | None:
    """Return the seconds until the reset in OpenRouter's error, which is in milliseconds since
    1970; None for one that is over, or too far away.
    """
    headers = (each.get("headers") for each in details)
    resets = [str(each.get("X-RateLimit-Reset")) for each in headers if isinstance(each, dict)]
    moment = next((int(each) / 1000 for each in resets if MILLISECONDS.fullmatch(each)), 0.0)
    left = moment - datetime.now(UTC).timestamp()
    return left if 0 < left <= MOST_ASKED_SECONDS else None


def is_of_day(details: list[dict[str, Any]]) -> bool:
    """Return whether a day's quota is used up; Google has a retry in seconds for that, too."""
    return any("PerDay" in str(each.get("violations")) for each in details)


def bounded(text: str) -> str:
    """Return ``text`` on one line, without credentials and addresses, at most REASON_CHARACTERS."""
    short = text[: REASON_CHARACTERS * 4]
    return one_line(ADDRESS.sub("[address]", SECRET.sub("[key]", short)), REASON_CHARACTERS)


def is_page(body: bytes) -> bool:
    """Return whether this is HTML."""
    return body.lstrip()[:15].lower().startswith((b"<!doctype", b"<html", b"<head"))


def text_of_page(body: bytes) -> str:
    """Return the text of a web page, or of a plain text."""
    text = body[:BODY_BYTES].decode("utf-8", "replace")
    return re.sub(r"<[^<>]{0,500}>", " ", text)


def wait_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in ``Retry-After`` (seconds or a date) or ``retry-after-ms``; None for
    none, and for what is no time to wait, such as the moment itself in seconds since 1970.
    """
    try:
        if milliseconds := headers.get("retry-after-ms"):
            seconds = float(milliseconds) / 1000
        else:
            seconds = float(headers["retry-after"])
    except KeyError:
        return None
    except ValueError:
        seconds = until(headers.get("retry-after", ""))
    return max(0.0, seconds) if seconds <= MOST_ASKED_SECONDS else None  # NaN is not, either


def until(date: str) -> float:
    """Return the seconds until an HTTP date; infinitely many for an invalid one."""
    try:
        return (parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError, OverflowError):  # the last: of a year of thirty digits
        return math.inf
