"""Errors in OpenAI's shape, with the codes that its clients know."""

from typing import Any

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


def body(status: int, message: str, *, param: str = "") -> dict[str, Any]:
    """Return ``{"error": {"message", "type", "param", "code"}}``."""
    others = ("invalid_request_error", None) if status < 500 else ("server_error", "server_error")
    kind, code = WORDS.get(status, others)
    if status == 404 and param == "model":
        code = "model_not_found"
    error = {"message": message, "type": kind, "param": param or None, "code": code}
    return {"error": error}
