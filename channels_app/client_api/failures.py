"""The HTTP status of a failed run, and the headers that tell a client whether to repeat it."""

import math
from collections.abc import Callable

from channels_app.asgi import http
from channels_app.client_api.run_adapter import Failure
from core.providers.failures import KINDS, Kind

Rates = Callable[[http.Headers], http.Headers]

KIND_OF_NAME = {kind.name: kind for kind in KINDS.values()}
# 499 is what Google's APIs and nginx say of cancelled requests. After a 409 the AI SDK and LiteLLM
# ask again, and do not read `x-should-retry`.
OWN_STATUS = {"too_long": 504, "internal": 500, "stopped": 499}
# Anthropic's client waits for hours, without a word; older ones of OpenAI ask again at once.
LONGEST_WAIT_SECONDS = 60
# By these words clients know that a conversation is too long for its model: LiteLLM, and agents
# that shorten it then. A code of its own has only OpenAI's error.
TOO_LONG = "This model's maximum context length is exceeded."


def kind_of(failure: Failure) -> Kind | None:
    """Return the kind of a failure of a model; None for another one. A budget that other answers
    hold for a moment is a rate limit.
    """
    if failure.code == "budget" and "retry_after" in failure.data:
        return KINDS["rate_limited"]
    return KINDS.get(failure.code) or KIND_OF_NAME.get(failure.code)


def status_of(failure: Failure) -> int:
    """Return the HTTP status of a failed run."""
    kind = kind_of(failure)
    return kind.status if kind else OWN_STATUS.get(failure.code, 502)


def message_of(failure: Failure, *, too_long: str = TOO_LONG) -> str:
    """Return the text of an error. ``too_long``: an API's words for a long conversation."""
    is_too_long = kind_of(failure) is KINDS["context_length"]
    return f"{too_long} {failure.text}" if is_too_long else failure.text


def rates(headers: http.Headers) -> http.Headers:
    """Return the rate limit headers that clients of OpenAI read besides ``Retry-After``."""
    seconds = headers.get("Retry-After", http.RETRY_SECONDS)
    return {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": f"{seconds}s"}


def repeats(failure: Failure) -> dict[str, str]:
    """Return the headers that tell a client of any API whether and when to repeat a failed run.

    Not one of which the gateway's tools have done a part: they would do it again. Nor one that
    failed by itself, as one with too many steps, nor one after a time for which no person waits.
    """
    kind = kind_of(failure)
    seconds = failure.data.get("retry_after")
    known = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    headers = {"Retry-After": str(math.ceil(float(str(seconds))))} if known else {}
    is_far = known and float(str(seconds)) > LONGEST_WAIT_SECONDS
    if kind is None or not kind.is_retried or failure.has_acted or is_far:
        return {**headers, **http.NO_REPEAT}
    return headers


def headers_of(failure: Failure, limits: Rates = rates) -> http.Headers:
    """Return these headers, with an API's rate limits (OpenAI's by default) for such a failure."""
    kind, headers = kind_of(failure), repeats(failure)
    is_limited = kind is not None and kind.is_retried and kind.status == 429
    return {**limits(headers), **headers} if is_limited else headers
