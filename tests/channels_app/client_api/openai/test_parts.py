"""Parts of the chat clients' endpoints: pictures in the log, failures in OpenAI's shape."""

from typing import Any

import orjson
import pytest
from django.db import OperationalError

from channels_app.client_api.openai import errors
from channels_app.client_api.openai.endpoints import OpenAIEndpoint
from channels_app.intake import choosing
from channels_app.rendering import follow_run
from core.database.transactions import close_pool, in_thread
from core.files import storage
from core.messages import MessageDict, image_message, text_message, to_dict
from core.models import User
from tests.redteam import gateway_data


@pytest.mark.django_db(transaction=True)
async def test_a_stored_picture_is_told_as_data() -> None:
    """[M3] [T7] A client has no cookie for its address; any other address stays as it is."""
    user = await in_thread(User.objects.create, username="ann")
    png = b"\x89PNG\r\n\x1a\n..."
    stored = await in_thread(storage.keep, user=user, name="x.png", content=png)

    async def told(event: MessageDict) -> Any:
        return (await follow_run.with_picture(event, user.pk))["props"]

    mine = to_dict(image_message(f"/files/{stored.public_id}", "A picture"))
    assert (await told(mine))["url"].startswith("data:image/png;base64,")
    assert (await told(mine))["alt"] == "A picture"
    for other in (
        image_message("/files/nothing"),
        image_message("https://example.org/x.png"),
        text_message("/files/x"),
    ):
        assert await told(to_dict(other)) == other.props
    close_pool()


@pytest.mark.parametrize(
    ("failure", "status"), [(OperationalError("locked"), 503), (ValueError("a bug"), 500)]
)
async def test_an_unexpected_failure_has_the_shape_of_its_endpoint(
    failure: Exception, status: int
) -> None:
    """[D5] No traceback, no text of the failure; 503 tells the client to retry."""

    class Failing(OpenAIEndpoint):
        async def check_head(self) -> None:
            raise failure

    async def nothing() -> Any:
        raise AssertionError

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/v1", "headers": []}
    await Failing.as_asgi()(scope, nothing, send)
    assert sent[0]["status"] == status
    error = orjson.loads(sent[1]["body"])["error"]
    assert error["type"] == "server_error"
    assert str(failure) not in error["message"]
    assert ((b"retry-after", b"2") in sent[0]["headers"]) == (status == 503)


@pytest.mark.parametrize(
    ("status", "kind"), [(422, "invalid_request_error"), (500, "server_error")]
)
def test_the_type_of_an_error_says_whose_it_is(status: int, kind: str) -> None:
    """422: an idempotency key of another body."""
    error = errors.body(status, "x", param="Idempotency-Key")["error"]
    assert (error["type"], error["param"]) == (kind, "Idempotency-Key")


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/chat/completions", "/v1/chat/completions"),
        ("/models/", "/v1/models"),
        ("/audio/speech", "/v1/audio/speech"),
        ("/v1/v1/messages", "/v1/messages"),
        ("/v1/v1/messages/count_tokens", "/v1/messages/count_tokens"),
        ("/v1/chat/completions/", "/v1/chat/completions"),
        ("/v1//chat/completions", "/v1/chat/completions"),
        ("//v1/chat/completions", "/v1/chat/completions"),
        ("//v1/messages/count_tokens", "/v1/messages/count_tokens"),
        ("//api/v1/models/", "/v1/models"),
        ("/v1/chat/completions/chat/completions", "/v1/chat/completions"),
        ("/v1/chat/completions/v1/models", "/v1/models"),
        ("/api/v1/models", "/v1/models"),
        ("/api/chat/completions", "/v1/chat/completions"),
        ("/openai/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/threads/1/messages", ""),
        ("/v1/none/", ""),
        ("/audio/none", ""),
    ],
)
async def test_a_wrong_base_url_is_told_the_address_that_is_meant(path: str, meant: str) -> None:
    """[D5] In the shape of the API: a client showed a web page, or nothing, instead."""
    found = await gateway_data.call("GET", path, b"", {"host": gateway_data.HOST})
    error = orjson.loads(found.body)["error"]
    assert (found.status, error["code"]) == (404, "not_found")
    more = f" The address is {meant}: check the client's base URL." if meant else ""
    assert error["message"] == f"There is no GET here.{more}"


def test_a_model_that_is_none_is_told_where_the_names_are() -> None:
    """[RO2] Many clients come with a name of OpenAI's. They know the first sentence."""
    said = str(choosing.refusal("either", "gpt-4o"))
    assert said.startswith("The model `gpt-4o` does not exist. ")
    assert "GET /v1/models" in said


@pytest.mark.parametrize("path", ["/v1/completions", "/completions", "/v1/engines/x/completions"])
async def test_a_client_of_plain_completions_is_told_the_api_to_choose(path: str) -> None:
    found = await gateway_data.call("GET", path, b"", {"host": gateway_data.HOST})
    error = orjson.loads(found.body)["error"]
    assert found.status == 404
    assert error["message"].startswith("There is no GET here. Use /v1/chat/completions:")
