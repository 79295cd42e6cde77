"""The parts of which the operations of the OpenAPI document are made."""

from functools import partial

from channels_app.api.shapes import PRINTABLE, STRING, Json, ref

WORDS = {
    "200": "OK.",
    "201": "Created.",
    "202": "Accepted; the result comes later.",
    "204": "No content.",
    "206": "The part of the file that was asked for.",
    "400": "Invalid request; `field` names the field or header.",
    "401": "Missing or invalid API key, or the sender is not on the allowlist.",
    "403": "The API key has no permission for this.",
    "404": "Not found.",
    "405": "Method not allowed; see `Allow`.",
    "406": "Not acceptable: no such representation.",
    "408": "The request body arrived too slowly.",
    "409": "Conflict: the run was cancelled.",
    "410": "Gone: the link was revoked.",
    "413": "The request body, or one of its fields, is too large.",
    "415": "Unsupported media type, or a compressed body.",
    "416": "The file has no such part.",
    "422": "The idempotency key was used with another request.",
    "429": "Too many requests; see `Retry-After`.",
    "499": "The answer was stopped.",
    "502": "The model failed.",
    "503": "Temporarily unavailable; see `Retry-After`.",
    "507": "The disk of the gateway cannot take the file.",
    "504": "The answer takes too long.",
    "529": "The model's server, or the gateway, is overloaded; see `Retry-After`.",
}
OPEN = ("400", "405", "429", "503")
KEYED = (*OPEN, "401", "403")
BODY = ("408", "413", "415")


def content(schema: Json | None, *, stream: bool = False) -> Json:
    """Describe a response body: JSON, an event stream, or either."""
    found: Json = {"application/json": {"schema": schema}} if schema else {}
    if stream:
        found["text/event-stream"] = {"schema": ref("ServerSentEvent")}
    return found


ERROR = content(ref("EndpointError"))


def operation(
    summary: str,
    *,
    tag: str,
    answers: dict[str, Json],
    errors: tuple[str, ...] = (),
    error: Json = ERROR,
    key: bool = True,
    body: Json | None = None,
    parameters: tuple[Json, ...] = (),
) -> Json:
    """Describe one operation. ``answers``: status -> content; ``errors``: statuses besides those
    that every endpoint has, with the content ``error``; ``key``: whether it needs an API key.
    """
    refused = (*(KEYED if key else OPEN), *errors, *(BODY if body else ()))
    contents = {**dict.fromkeys(refused, error), **answers}
    found: Json = {
        "summary": summary,
        "tags": [tag],
        "security": [{"apiKey": []}] if key else [],
        "parameters": list(parameters),
        "responses": {
            status: {"description": WORDS[status], "content": contents[status]}
            for status in sorted(contents)
        },
    }
    if body:
        found["requestBody"] = {"required": True, "content": content(body)}
    return found


def parameter(name: str, where: str, *, required: bool = False, schema: Json = STRING) -> Json:
    return {"name": name, "in": where, "required": required or where == "path", "schema": schema}


IDEMPOTENCY = parameter("Idempotency-Key", "header", schema={**STRING, "maxLength": 128})
SESSION = parameter("X-Session-Id", "header", schema=PRINTABLE)
Operations = dict[tuple[str, str], Json]  # (path, method): operation

of_openai = partial(operation, tag="openai", error=content(ref("OpenAIError")))
