"""A body must be declared as JSON: types that a form of another site can send are refused."""

from typing import Any

import pytest

from core.database import transactions
from tests.redteam import gateway_data

ENDPOINTS: dict[str, dict[str, Any]] = {
    "/inbound": {"text": "hi", "async": True},
    "/inbound/cancel": {"run_id": "{run}"},
    "/v1/chat/completions": {
        "model": "default",
        "stream": True,
        "messages": [{"role": "user", "content": "hi"}],
    },
    "/ag-ui": {
        "threadId": "thread-1",
        "runId": "run-1",
        "messages": [{"id": "m", "role": "user", "content": "x"}],
    },
    "/ui/chat": {
        "id": "chat-1",
        "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "x"}]}],
    },
}
JSON_TYPES = ("application/json", "Application/JSON; charset=UTF-8", "application/x+json")
OTHER_TYPES = (
    "",
    "text/plain",
    "text/plain; application/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "text/json",
    "application/json; charset=utf-16",
)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", ENDPOINTS)
def test_a_body_of_another_type_is_refused_everywhere(path: str) -> None:
    """415 names the header, and nothing of the body is carried out."""
    gateway = gateway_data.build()
    body = {
        key: gateway.fill(value) if isinstance(value, str) else value
        for key, value in ENDPOINTS[path].items()
    }
    for kind in OTHER_TYPES:
        answer = gateway.ask("own", "POST", path, body, **{"content-type": kind})
        assert (answer.status, b"Content-Type" in answer.body) == (415, True), kind
    for kind in JSON_TYPES:
        answer = gateway.ask("own", "POST", path, body, **{"content-type": kind})
        assert answer.status in {200, 202}, kind
    transactions.close_pool()


@pytest.mark.django_db(transaction=True)
def test_a_form_is_no_file() -> None:
    """Its boundaries would be stored as a part of the file; the bytes of any other type are."""
    gateway = gateway_data.build()
    form = {"content-type": "Multipart/form-data; boundary=x"}
    refused = gateway.ask("own", "POST", "/files?name=a.txt", b"--x--", **form)
    assert (refused.status, b"--data-binary" in refused.body) == (415, True)
    for kind in ("", "text/plain", "application/x-www-form-urlencoded", "multipart/related"):
        answer = gateway.ask("own", "POST", "/files?name=a.txt", b"x", **{"content-type": kind})
        assert answer.status == 201, kind
    transactions.close_pool()
