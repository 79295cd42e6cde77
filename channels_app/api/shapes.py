"""The bodies of the doors, as the OpenAPI document has them."""

from typing import Any

Json = dict[str, Any]

STRING: Json = {"type": "string"}
TEXT: Json = {"type": "string", "maxLength": 200_000}
FLAG: Json = {"type": "boolean"}
INTEGER: Json = {"type": "integer"}
ANY: Json = {"type": "object", "additionalProperties": True}


def ref(name: str) -> Json:
    """A reference to one of SCHEMAS."""
    return {"$ref": f"#/components/schemas/{name}"}


def listed(item: Json, **more: Any) -> Json:
    """A list."""
    return {"type": "array", "items": item, **more}


def shape(required: tuple[str, ...] = (), **properties: Json) -> Json:
    """An object; fields that are not named are ignored."""
    found: Json = {"type": "object", "properties": properties}
    return {**found, "required": list(required)} if required else found


def nullable(schema: Json) -> Json:
    """``schema`` or null."""
    return {**schema, "nullable": True}


def union(*schemas: Json) -> Json:
    """Any of them."""
    return {"anyOf": list(schemas)}


# A data URL, or the id of an uploaded file; also as an object with its name.
MEDIUM: Json = union(STRING, shape(url=STRING, id=STRING, name={**STRING, "maxLength": 255}))

SCHEMAS: Json = {
    "ServerSentEvent": shape(("data",), data=STRING, id=STRING, event=STRING),
    "DoorError": shape(
        ("ok", "status", "error"), ok=FLAG, status=INTEGER, error=STRING, field=STRING
    ),
    "OpenAIError": shape(
        ("error",),
        error=shape(
            ("message", "type", "param", "code"),
            message=STRING,
            type=STRING,
            param=nullable(STRING),
            code=nullable(STRING),
        ),
    ),
    "Inbound": shape(
        ("text",),
        text=TEXT,
        stream=FLAG,
        user_id={**STRING, "maxLength": 256},
        user_name={**STRING, "maxLength": 256},
        channel_name={**STRING, "maxLength": 256},
        session_id={**STRING, "maxLength": 64},
        images=listed(MEDIUM, maxItems=16),
        audios=listed(MEDIUM, maxItems=16),
        videos=listed(MEDIUM, maxItems=16),
        files=listed(MEDIUM, maxItems=16),
        **{"async": FLAG},
    ),
    "Answer": shape(
        ("ok", "status", "text", "format", "run_id", "session_id"),
        ok=FLAG,
        status=INTEGER,
        text=STRING,
        format=STRING,
        run_id=STRING,
        session_id=STRING,
        state=STRING,
        error=STRING,
        images=listed(STRING),
        image=STRING,
    ),
    "Uploaded": shape(
        ("ok", "id", "name", "size", "type"),
        ok=FLAG,
        id=STRING,
        name=STRING,
        size=INTEGER,
        type=STRING,
    ),
    "RunName": shape(("run_id",), run_id=STRING, user_id=STRING),
    "Stopped": shape(("ok", "cancelled"), ok=FLAG, status=INTEGER, cancelled=FLAG, run_id=STRING),
    "ChatMessage": shape(
        ("role",),
        role={**STRING, "enum": ["system", "developer", "user", "assistant", "tool"]},
        content=nullable(union(TEXT, listed(ANY))),
        tool_calls=nullable(listed(ANY)),
        tool_call_id=STRING,
    ),
    "ChatCompletionRequest": shape(
        ("model", "messages"),
        model=STRING,
        messages=listed(ref("ChatMessage"), minItems=1),
        stream=nullable(FLAG),
        stream_options=nullable(shape(include_usage=FLAG)),
        tools=nullable(listed(ANY, maxItems=128)),
        tool_choice=nullable(union(STRING, ANY)),
        temperature=nullable({"type": "number", "minimum": 0, "maximum": 2}),
        top_p=nullable({"type": "number", "minimum": 0, "maximum": 1}),
        presence_penalty=nullable({"type": "number", "minimum": -2, "maximum": 2}),
        frequency_penalty=nullable({"type": "number", "minimum": -2, "maximum": 2}),
        max_tokens=nullable({"type": "integer", "minimum": 1}),
        max_completion_tokens=nullable({"type": "integer", "minimum": 1}),
        seed=nullable(INTEGER),
        stop=nullable(union(STRING, listed(STRING, maxItems=4))),
        response_format=nullable(ANY),
        n=nullable({"type": "integer", "minimum": 1, "maximum": 1}),
        user=nullable({**STRING, "maxLength": 256}),
    ),
    "ChatCompletion": shape(
        ("id", "object", "created", "model", "choices", "usage"),
        id=STRING,
        object=STRING,
        created=INTEGER,
        model=STRING,
        choices=listed(ANY, minItems=1, maxItems=1),
        usage=ANY,
    ),
    "Model": shape(
        ("id", "object", "created", "owned_by"),
        id=STRING,
        object=STRING,
        created=INTEGER,
        owned_by=STRING,
    ),
    "Models": shape(("object", "data"), object=STRING, data=listed(ref("Model"))),
    "UiMessage": shape(
        ("role", "parts"),
        id=STRING,
        role={**STRING, "enum": ["system", "user", "assistant"]},
        parts=listed(ANY),
    ),
    "UiChat": shape(
        ("id",),
        id={**STRING, "minLength": 1, "maxLength": 100},
        messages=listed(ref("UiMessage"), minItems=1),
        message=ref("UiMessage"),
        tools=nullable(listed(ANY, maxItems=128)),
    ),
    "Process": shape(
        ("user_id", "text"),
        user_id={**STRING, "minLength": 1, "maxLength": 256},
        text=TEXT,
        request_id={**STRING, "maxLength": 180},
        user_name={**STRING, "maxLength": 256},
        chat_id={**STRING, "maxLength": 256},
        thread_id={**STRING, "maxLength": 256},
        context={**STRING, "maxLength": 2000},
        images=listed({**STRING, "format": "uri"}, maxItems=16),
        audios=listed({**STRING, "format": "uri"}, maxItems=16),
        videos=listed({**STRING, "format": "uri"}, maxItems=16),
        files=listed({**STRING, "format": "uri"}, maxItems=16),
    ),
    "Queued": shape(("ok", "status", "request_id"), ok=FLAG, status=INTEGER, request_id=STRING),
    "JsonRpc": shape(("jsonrpc",), jsonrpc=STRING, method=STRING, params=ANY),
    "JsonRpcError": shape(
        ("jsonrpc", "error"),
        jsonrpc=STRING,
        error=shape(("code", "message"), code=INTEGER, message=STRING),
    ),
    "Health": shape(("ok",), ok=FLAG, problems=listed(STRING)),
}
