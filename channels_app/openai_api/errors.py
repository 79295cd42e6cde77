"""Errors in OpenAI's shape, with the words that its clients know."""

from channels_app import http
from channels_app.http import RefusedError, Send
from channels_app.openai_api.wire import Completion, Error, ErrorFrame

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
# A failed run: the code of its error message -> the status of an answer that is not streamed.
STATUS = {"rate_limited": 429, "timeout": 504}


def body(status: int, message: str, *, param: str = "") -> ErrorFrame:
    """``{"error": {"message", "type", "param", "code"}}``."""
    kind, code = WORDS.get(status, ("server_error", "server_error"))
    if status == 404 and param == "model":
        code = "model_not_found"
    error: Error = {"message": message, "type": kind, "param": param or None, "code": code}
    return {"error": error}


def plain(status: int, message: str) -> ErrorFrame:
    """The body for a failure that nobody expected."""
    return body(status, message)


async def refuse(send: Send, error: RefusedError) -> None:
    """Answer a refused request."""
    param = "" if error.field == "body" else error.field
    await http.answer(
        send, error.status, body(error.status, str(error), param=param), error.headers
    )


def status_of(found: Completion | ErrorFrame) -> int:
    """The status of a finished run: 200, or what its error is called in HTTP."""
    if "error" in found:
        return STATUS.get(found["error"]["code"] or "", 502)
    return 200
