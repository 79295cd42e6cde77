"""Errors in OpenAI's shape, with the codes that its clients know."""

import math
from collections.abc import Mapping

from channels_app.asgi import http
from channels_app.client_api.openai.wire import Completion, Error, ErrorFrame
from core.providers.failures import KINDS

# Status -> (type, code).
WORDS: dict[int, tuple[str, str | None]] = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("permission_error", "insufficient_permissions"),
    404: ("invalid_request_error", "not_found"),
    405: ("invalid_request_error", "method_not_allowed"),
    408: ("invalid_request_error", "request_timeout"),
    413: ("invalid_request_error", "request_too_large"),
    415: ("invalid_request_error", "unsupported_media_type"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    503: ("server_error", "unavailable"),
    504: ("server_error", "timeout"),
}
# A failed run: the code of its error frame -> the kind of failure; several have the same.
KIND_OF = {kind.name: kind for kind in KINDS.values()}
OWN_STATUS = {"too_long": 504, "internal": 500}


def body(status: int, message: str, *, param: str = "") -> ErrorFrame:
    """Return ``{"error": {"message", "type", "param", "code"}}``."""
    kind, code = WORDS.get(status, ("server_error", "server_error"))
    if status == 404 and param == "model":
        code = "model_not_found"
    error: Error = {"message": message, "type": kind, "param": param or None, "code": code}
    return {"error": error}


def rates(headers: http.Headers) -> http.Headers:
    """Return the rate limit headers that clients of the API read besides ``Retry-After``."""
    seconds = headers.get("Retry-After", http.RETRY_SECONDS)
    return {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": f"{seconds}s"}


def status_of(found: Completion | ErrorFrame) -> int:
    """Return the HTTP status of a finished run: 200, or that of its error."""
    if "error" not in found:
        return 200
    code = found["error"]["code"] or ""
    kind = KIND_OF.get(code)
    return kind.status if kind else OWN_STATUS.get(code, 502)


def headers_of(found: Completion | ErrorFrame, end: Mapping[str, object]) -> http.Headers:
    """Return the headers that tell a client whether and when to repeat a failed run.

    ``end``: data of its last event.
    """
    if "error" not in found:
        return {}
    kind = KIND_OF.get(found["error"]["code"] or "")
    seconds = end.get("retry_after")
    known = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    headers = {"Retry-After": str(math.ceil(float(str(seconds))))} if known else {}
    if kind is not None and not kind.is_retried:
        # The official clients obey this: they would repeat a 502 or a 429 otherwise.
        return {**headers, "x-should-retry": "false"}
    return {**rates(headers), **headers} if kind is not None and kind.status == 429 else headers
