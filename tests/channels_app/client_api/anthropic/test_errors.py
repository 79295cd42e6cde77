"""Refusals in Anthropic's shape: statuses, types, headers, and the header that tells two APIs
apart."""

from typing import Any

import orjson
import pytest
from django.db import OperationalError

from channels_app.asgi.admission import BusyError
from channels_app.asgi.http import RefusedError
from channels_app.client_api import failures
from channels_app.client_api.anthropic import errors
from channels_app.client_api.anthropic.endpoints import AnthropicEndpoint
from channels_app.client_api.routes import by_version
from channels_app.client_api.run_adapter import Failure
from tests.redteam import gateway_data

Json = dict[str, Any]


async def refused(failure: Exception) -> tuple[int, dict[bytes, bytes], Json]:
    """Return status, headers and body of the answer to a request that fails."""

    class Failing(AnthropicEndpoint):
        async def check_head(self) -> None:
            raise failure

    async def nothing() -> Any:
        raise AssertionError

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/v1/messages", "headers": []}
    await Failing.as_asgi()(scope, nothing, send)
    return sent[0]["status"], dict(sent[0]["headers"]), orjson.loads(sent[1]["body"])


@pytest.mark.parametrize(
    ("failure", "status", "kind"),
    [
        (OperationalError("locked"), 503, "api_error"),
        (ValueError("a bug"), 500, "api_error"),
        (BusyError(place=7, seconds=3), 529, "overloaded_error"),
        (RefusedError(403, "No."), 403, "permission_error"),
        (RefusedError(413, "Long."), 413, "request_too_large"),
        (RefusedError(415, "What?"), 415, "invalid_request_error"),
    ],
)
async def test_w30_a_refusal_has_the_type_of_its_status(
    failure: Exception, status: int, kind: str
) -> None:
    """[W30] And an id, in the header and in the body; no text of an unexpected failure."""
    found, headers, body = await refused(failure)
    assert (found, body["error"]["type"]) == (status, kind)
    assert headers[b"request-id"].decode() == body["request_id"]
    assert "locked" not in body["error"]["message"]
    assert "bug" not in body["error"]["message"]
    assert (b"retry-after" in headers) == (status in {503, 529})


async def test_w30_a_limit_says_when_it_ends() -> None:
    """[W30] In the headers that Anthropic's clients read."""
    _, headers, _ = await refused(RefusedError(429, "Slowly.", headers={"Retry-After": "7"}))
    assert headers[b"retry-after"] == b"7"
    assert headers[b"anthropic-ratelimit-requests-remaining"] == b"0"
    assert headers[b"anthropic-ratelimit-requests-reset"].endswith(b"Z")


def test_w30_a_used_up_budget_is_not_repeated() -> None:
    """[W30] 429 as at chat completions; an overloaded model is 529."""
    budget = Failure(code="budget", text="Used up.")
    assert errors.status_of(budget) == 429
    assert failures.headers_of(budget, errors.rates) == {"x-should-retry": "false"}
    assert errors.status_of(Failure(code="overloaded", text="Busy.")) == 529


async def test_w30_a_thread_is_refused_with_its_code() -> None:
    """[W30] After which the official clients send the whole conversation."""
    _, _, body = await refused(RefusedError(400, "thread is not supported.", field="thread"))
    assert body["error"]["details"]["error_code"] == "thread_unsupported_request"


async def test_w32_a_wrong_base_url_is_told_the_address_that_is_meant() -> None:
    """[W32] Of a client whose base URL holds the call; its batches are not there."""
    for path, more in (("v1/messages", " The address is /v1/messages: check"), ("batches", "")):
        found = await gateway_data.call(
            "GET", f"/v1/messages/{path}", b"", {"host": gateway_data.HOST}
        )
        message = orjson.loads(found.body)["error"]["message"]
        assert message.startswith(f"There is no GET here.{more}")


async def test_w30_an_unknown_address_is_reported_in_the_shape_of_the_client() -> None:
    """[W30] Anthropic's clients found no message in OpenAI's error."""
    headers = {"host": gateway_data.HOST, "anthropic-version": "2023-06-01"}
    for path in ("/v1/files", "/v1/none/of/them", "/v1/v1/messages", "//v1/messages", "/messages"):
        found = await gateway_data.call("GET", path, b"", headers)
        body = orjson.loads(found.body)
        assert (found.status, body["type"]) == (404, "error")
        assert body["error"]["type"] == "not_found_error"
        assert body["error"]["message"].startswith("There is no GET here.")


@pytest.mark.parametrize(("name", "answers"), [(b"Anthropic-Version", "a"), (b"accept", "b")])
async def test_w32_a_header_tells_which_api_is_meant(name: bytes, answers: str) -> None:
    """[W32] ``GET /v1/models`` is one address of both."""
    asked: list[str] = []

    def application(label: str) -> Any:
        async def answer(*_: Any) -> None:
            asked.append(label)

        answer.consumer_class = None  # type: ignore[attr-defined]
        return answer

    async def unused(*_: Any) -> Any:
        raise AssertionError

    chosen = by_version(application("a"), application("b"))
    await chosen({"headers": [(name, b"x")]}, unused, unused)
    assert asked == [answers]
