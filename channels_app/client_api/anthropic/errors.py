"""Errors in Anthropic's shape, with the types and statuses that its clients know."""

import math
from datetime import timedelta
from typing import Any

from django.utils import timezone

from channels_app.asgi import http
from channels_app.client_api import failures
from channels_app.client_api.run_adapter import Failure

OVERLOADED = 529
# Anthropic's words, by which Claude Code knows that it has to shorten the conversation.
TOO_LONG = "prompt is too long:"
TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    499: "conflict_error",
    504: "timeout_error",
    OVERLOADED: "overloaded_error",
}
# Fields without which the official clients send the request again by themselves.
CAUSES = {"thread": "thread_unsupported_request"}


def type_of(status: int) -> str:
    return TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")


def body(status: int, message: str, *, request_id: str, field: str = "") -> dict[str, Any]:
    """Return Anthropic's error object; ``field`` is the refused one."""
    error: dict[str, Any] = {"type": type_of(status), "message": message}
    if field in CAUSES:
        error["details"] = {"error_code": CAUSES[field], "unsupported": []}
    return {"type": "error", "error": error, "request_id": request_id}


def status_of(failure: Failure) -> int:
    """Return the HTTP status of a failed run: 529 where the model's server is overloaded."""
    status = failures.status_of(failure)
    return OVERLOADED if status == 503 else status


def rates(headers: http.Headers) -> http.Headers:
    """Return the rate limit headers of a 429, besides ``Retry-After``."""
    seconds = math.ceil(float(headers.get("Retry-After", http.RETRY_SECONDS)))
    reset = (timezone.now() + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": reset,
    }
