"""OpenAPI operations of ``/v1/messages`` and of what is passed through to a provider, for
``channels_app/api/endpoint_operations.py``."""

from collections.abc import Callable
from typing import Any

from channels_app.api.shapes import (
    ANY,
    FLAG,
    INTEGER,
    STRING,
    Json,
    listed,
    nullable,
    ref,
    shape,
    union,
)

NAME: Json = {**STRING, "minLength": 1}
ASKED: dict[str, Json] = {
    "model": NAME,
    "messages": listed(ANY, minItems=1),
    "system": nullable(union(STRING, listed(ANY))),
    "tools": nullable(listed(ANY)),
    "tool_choice": nullable(ANY),
    "thinking": nullable(ANY),
}
SCHEMAS: dict[str, Json] = {
    "MessageRequest": shape(
        ("model", "max_tokens", "messages"),
        **ASKED,
        max_tokens={"type": "integer", "minimum": 1},
        stream=nullable(FLAG),
        temperature=nullable({"type": "number", "minimum": 0, "maximum": 1}),
        top_p=nullable({"type": "number", "minimum": 0, "maximum": 1}),
        top_k=nullable({"type": "integer", "minimum": 0}),
        stop_sequences=nullable(listed(STRING, maxItems=4)),
        metadata=nullable(shape(user_id=nullable(STRING))),
        output_config=nullable(ANY),
    ),
    "AnthropicMessage": shape(
        ("id", "type", "role", "model", "content", "stop_reason", "usage"),
        id=STRING,
        type=STRING,
        role=STRING,
        model=STRING,
        content=listed(ANY),
        stop_reason=nullable(STRING),
        stop_sequence=nullable(STRING),
        usage=ANY,
    ),
    "MessageTokens": shape(("input_tokens",), input_tokens=INTEGER),
    "MessageTokensRequest": shape(("model", "messages"), **ASKED),
    "AnthropicError": shape(
        ("type", "error", "request_id"),
        type=STRING,
        error=shape(("type", "message"), type=STRING, message=STRING, details=ANY),
        request_id=STRING,
    ),
    "EmbeddingsRequest": shape(
        ("model", "input"),
        model=NAME,
        input=union(
            STRING,
            listed(STRING, minItems=1),
            listed(INTEGER, minItems=1),
            listed(listed(INTEGER), minItems=1),
        ),
        dimensions=nullable(INTEGER),
        encoding_format=nullable(STRING),
    ),
    "SpeechRequest": shape(("model", "input"), model=NAME, input=NAME, voice=ANY),
    "RecordingRequest": shape(
        ("model", "file"), model=STRING, file={**STRING, "format": "binary"}, language=STRING
    ),
}


def operations(
    operation: Callable[..., Json],
    content: Callable[..., Json],
    *,
    error: Json,
    headers: tuple[Json, ...],
) -> dict[tuple[str, str], Json]:
    """Return the operations, made with the functions of the document; ``error``: of OpenAI's API;
    ``headers``: of a request for a new message.
    """
    theirs = content(ref("AnthropicError"))
    found = {
        ("/v1/messages", "post"): operation(
            "Create a message.",
            tag="anthropic",
            body=ref("MessageRequest"),
            answers={"200": content(ref("AnthropicMessage"), stream=True)},
            errors=("404", "422", "502", "504", "529"),
            error=theirs,
            parameters=headers,
        ),
        ("/v1/messages/count_tokens", "post"): operation(
            "Estimate the tokens of a message.",
            tag="anthropic",
            body=ref("MessageTokensRequest"),
            answers={"200": content(ref("MessageTokens"))},
            errors=("404",),
            error=theirs,
        ),
        ("/v1/embeddings", "post"): passed_on(
            operation("Create embeddings.", **passing(error), body=ref("EmbeddingsRequest")),
            "application/json",
        ),
        ("/v1/audio/speech", "post"): passed_on(
            operation("Turn text into speech.", **passing(error), body=ref("SpeechRequest")), "*/*"
        ),
    }
    for path, summary in (
        ("transcriptions", "Transcribe a recording."),
        ("translations", "Translate a recording into English."),
    ):
        one = operation(summary, **passing(error), body=ref("RecordingRequest"))
        form = {"multipart/form-data": {"schema": ref("RecordingRequest")}}
        one["requestBody"] = {"required": True, "content": form}
        found[f"/v1/audio/{path}", "post"] = passed_on(one, "*/*")
    return found


def passing(error: Json) -> dict[str, Any]:
    """Return what all requests that are passed through have in common."""
    errors = ("404", "422", "502", "504")
    return {"tag": "openai", "answers": {"200": {}}, "errors": errors, "error": error}


def passed_on(found: Json, kind: str) -> Json:
    """Return an operation with the type of the provider's answer."""
    found["responses"]["200"]["content"] = {kind: {"schema": ANY if "json" in kind else STRING}}
    return found
