"""OpenAPI operations of ``/v1/messages`` and of what is passed through to a provider, for
``channels_app/api/endpoint_operations.py``."""

from functools import partial
from typing import Any

from channels_app.api.operations import (
    IDEMPOTENCY,
    SESSION,
    Operations,
    content,
    of_openai,
    operation,
)
from channels_app.api.shapes import (
    ANY,
    FLAG,
    INTEGER,
    STRING,
    Json,
    complete,
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
    "MessageTokens": complete(input_tokens=INTEGER),
    "MessageTokensRequest": shape(("model", "messages"), **ASKED),
    "AnthropicError": complete(
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


def passed_on(kind: str, summary: str, **more: Any) -> Json:
    """Describe what a provider answers, with the type ``kind``."""
    found = of_openai(summary, answers={"200": {}}, errors=("404", "422", "502", "504"), **more)
    found["responses"]["200"]["content"] = {kind: {"schema": ANY if "json" in kind else STRING}}
    return found


def recorded(summary: str) -> Json:
    """Describe what a provider makes of a recording, which is sent as a form."""
    found = passed_on("*/*", summary, body=ref("RecordingRequest"))
    form = {"multipart/form-data": {"schema": ref("RecordingRequest")}}
    found["requestBody"] = {"required": True, "content": form}
    return found


of_anthropic = partial(operation, tag="anthropic", error=content(ref("AnthropicError")))
OPERATIONS: Operations = {
    ("/v1/messages", "post"): of_anthropic(
        "Create a message.",
        body=ref("MessageRequest"),
        answers={"200": content(ref("AnthropicMessage"), stream=True)},
        errors=("404", "422", "499", "502", "504", "529"),
        parameters=(SESSION, IDEMPOTENCY),
    ),
    ("/v1/messages/count_tokens", "post"): of_anthropic(
        "Estimate the tokens of a message.",
        body=ref("MessageTokensRequest"),
        answers={"200": content(ref("MessageTokens"))},
        errors=("404",),
    ),
    ("/v1/embeddings", "post"): passed_on(
        "application/json", "Create embeddings.", body=ref("EmbeddingsRequest")
    ),
    ("/v1/audio/speech", "post"): passed_on(
        "*/*", "Turn text into speech.", body=ref("SpeechRequest")
    ),
    ("/v1/audio/transcriptions", "post"): recorded("Transcribe a recording."),
    ("/v1/audio/translations", "post"): recorded("Translate a recording into English."),
}
