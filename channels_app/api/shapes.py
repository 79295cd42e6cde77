"""JSON schemas of request and response bodies for the OpenAPI document."""

from typing import Any

from django.conf import settings

from channels_app.asgi.chat_messages import MAX_MESSAGES
from channels_app.asgi.chat_tools import MAX_TOOLS
from channels_app.asgi.fields import (
    MAX_ASSISTANT,
    MAX_CHAT_ID,
    MAX_CONTEXT,
    MAX_MODEL,
    MAX_RUN_ID,
    MAX_SESSION_NAME,
)
from core.lib.ids import PUBLIC_ID

Json = dict[str, Any]

STRING: Json = {"type": "string"}
TEXT: Json = {"type": "string", "maxLength": settings.MAX_TEXT_CHARACTERS}
SAYS: Json = {**TEXT, "pattern": r"\S"}  # not only spaces
PUBLIC: Json = {"type": "string", "pattern": f"^{PUBLIC_ID.pattern}$"}
PRINTABLE: Json = {"type": "string", "pattern": "^[ -~]*$", "maxLength": MAX_SESSION_NAME}
FLAG: Json = {"type": "boolean"}
INTEGER: Json = {"type": "integer"}
ANY: Json = {"type": "object", "additionalProperties": True}


def ref(name: str) -> Json:
    """Return a reference to one of SCHEMAS."""
    return {"$ref": f"#/components/schemas/{name}"}


def listed(item: Json, **more: Any) -> Json:
    return {"type": "array", "items": item, **more}


def shape(required: tuple[str, ...] = (), **properties: Json) -> Json:
    """Return the schema of an object; unknown fields are ignored."""
    found: Json = {"type": "object", "properties": properties}
    return {**found, "required": list(required)} if required else found


def complete(**properties: Json) -> Json:
    """Return the schema of an object that has all of these fields."""
    return shape(tuple(properties), **properties)


def nullable(schema: Json) -> Json:
    """Return the schema of the same or null; OpenAPI 3.0 has the word beside a type only."""
    if "anyOf" in schema:
        return {**schema, "anyOf": [nullable(each) for each in schema["anyOf"]]}
    return {**schema, "nullable": True}


def union(*schemas: Json) -> Json:
    return {"anyOf": list(schemas)}


def optional(limit: int) -> Json:
    """Return the schema of a text that may be missing or null."""
    return nullable({**STRING, "maxLength": limit})


BASE64 = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
DATA_URL: Json = {**STRING, "pattern": f"^data:[^,]*;base64,{BASE64}$"}
FILE_ID: Json = {**STRING, "pattern": f"^(?:/files/)?{PUBLIC_ID.pattern}$"}
ADDRESS: Json = {**STRING, "pattern": "^https?://"}
LABEL = optional(255)


def media(*kinds: Json) -> Json:
    """Return the schema of a list of texts of these kinds, or of objects that contain one."""
    named = shape(("id",), id=FILE_ID, name=LABEL)
    found = [shape(("url",), url=union(*kinds), id={"enum": ["", None]}, name=LABEL), named]
    return nullable(listed(union(*kinds, *found), maxItems=settings.MAX_ATTACHMENTS))


MEDIA: Json = {
    "images": media(DATA_URL, FILE_ID, ADDRESS),
    **dict.fromkeys(("audios", "videos", "files"), media(DATA_URL, FILE_ID)),
}
# The assistant and the model of this turn.
WANTED: Json = {"assistant": optional(MAX_ASSISTANT), "model": optional(MAX_MODEL)}
BRIDGE_MEDIA = nullable(
    listed(
        union(DATA_URL, shape(("url",), url=DATA_URL, name=LABEL)),
        maxItems=settings.MAX_ATTACHMENTS,
    )
)


def says(found: Json) -> Json:
    """Return the schema of a message: with a text, or with media."""
    some = [
        {"required": [name], "properties": {name: {"type": "array", "minItems": 1}}}
        for name in MEDIA
    ]
    text = {"required": ["text"], "properties": {"text": SAYS}}
    return {**found, "anyOf": [text, *some]}


SCHEMAS: Json = {
    "ServerSentEvent": shape(("data",), data=STRING, id=STRING, event=STRING),
    "EndpointError": shape(
        ("ok", "status", "error"), ok=FLAG, status=INTEGER, error=STRING, field=STRING
    ),
    "OpenAIError": complete(
        error=complete(message=STRING, type=STRING, param=nullable(STRING), code=nullable(STRING))
    ),
    "Inbound": says(
        shape(
            ("text",),
            text=TEXT,
            stream=FLAG,
            user_id=optional(256),
            user_name=optional(256),
            channel_name=optional(256),
            session_id=optional(64),
            **WANTED,
            **MEDIA,
            **{"async": FLAG},
        )
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
        code=STRING,
        images=listed(STRING),
        image=STRING,
    ),
    "Uploaded": complete(ok=FLAG, id=STRING, name=STRING, size=INTEGER, type=STRING),
    "RunName": shape(("run_id",), run_id=PUBLIC, user_id=optional(256)),
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
        model={**STRING, "minLength": 1},
        messages=listed(ref("ChatMessage"), minItems=1, maxItems=MAX_MESSAGES),
        stream=nullable(FLAG),
        stream_options=nullable(shape(include_usage=FLAG)),
        tools=nullable(listed(ANY, maxItems=MAX_TOOLS)),
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
    "ChatCompletion": complete(
        id=STRING,
        object=STRING,
        created=INTEGER,
        model=STRING,
        choices=listed(ANY, minItems=1, maxItems=1),
        usage=ANY,
    ),
    "Model": complete(id=STRING, object=STRING, created=INTEGER, owned_by=STRING),
    "Models": complete(object=STRING, data=listed(ref("Model"))),
    "UiMessage": shape(
        ("role", "parts"),
        id=STRING,
        role={**STRING, "enum": ["system", "user", "assistant"]},
        parts=listed(ANY),
    ),
    "UiChat": shape(
        ("id",),
        id={**PRINTABLE, "minLength": 1, "maxLength": MAX_CHAT_ID},
        messages=nullable(listed(ref("UiMessage"), minItems=1, maxItems=MAX_MESSAGES)),
        message=ref("UiMessage"),
        tools={"anyOf": [nullable(listed(ANY, maxItems=MAX_TOOLS)), {"type": "object"}]},
        system=nullable(TEXT),
        **WANTED,
    ),
    "RunAgentInput": shape(
        ("threadId", "runId", "messages"),
        threadId={**PRINTABLE, "minLength": 1, "maxLength": MAX_CHAT_ID},
        runId={**PRINTABLE, "minLength": 1, "maxLength": MAX_RUN_ID},
        messages=listed(ANY, maxItems=MAX_MESSAGES),
        tools=nullable(listed(ANY, maxItems=MAX_TOOLS)),
        context=nullable(listed(ANY)),
        state={},
        forwardedProps={},
        resume=nullable(listed(ANY)),
    ),
    "Process": says(
        shape(
            ("user_id",),
            user_id={**STRING, "maxLength": 256, "pattern": r"\S"},
            text=nullable(TEXT),
            request_id=optional(180),
            user_name=optional(256),
            chat_id=optional(256),
            thread_id=optional(256),
            context=optional(MAX_CONTEXT),
            **dict.fromkeys(MEDIA, BRIDGE_MEDIA),
        )
    ),
    "Queued": complete(ok=FLAG, status=INTEGER, request_id=STRING),
    "JsonRpc": shape(("jsonrpc",), jsonrpc=STRING, method=STRING, params=ANY),
    "JsonRpcError": complete(jsonrpc=STRING, error=complete(code=INTEGER, message=STRING)),
    "Health": shape(("ok",), ok=FLAG, problems=listed(STRING)),
}
