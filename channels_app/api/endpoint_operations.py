"""OpenAPI operations of the endpoints that Django REST framework does not serve ([D9]).

Written by hand, since they are plain ASGI handlers; ``tests/channels_app/api/test_document.py``
compares every route with it, and a fuzzer compares the responses.
"""

import re

from channels_app.api.shapes import ANY, FLAG, PRINTABLE, PUBLIC, SCHEMAS, STRING, Json, ref, shape
from channels_app.asgi.fields import MAX_CHAT_ID, MOST_EVENT_DIGITS

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
    "502": "The model failed.",
    "503": "Temporarily unavailable; see `Retry-After`.",
    "504": "The answer takes too long.",
}
TAGS = {
    "inbound": "Send messages and read the answers.",
    "openai": "The API of OpenAI: chat completions and models.",
    "ui": "UI message streams of the Vercel AI SDK.",
    "mcp": "The Model Context Protocol.",
    "bridge": "Messages of other platforms, answered through a callback.",
    "platforms": "Webhooks of messaging platforms.",
    "sessions": "Conversations and their messages.",
    "agent-sessions": "Sessions in which an agent publishes its results.",
    "runs": "Runs, one for each answer of the assistant.",
    "files": "Uploads, own files and signed links.",
    "requests": "Requests of senders who are not on the allowlist.",
    "health": "Health and metrics.",
}
# (path under /api, method): its summary.
SUMMARIES = {
    ("sessions", "get"): "List your sessions, newest first.",
    ("sessions", "post"): "Create a session.",
    ("sessions/{session_id}", "get"): "Read a session.",
    ("sessions/{session_id}", "patch"): "Rename a session.",
    ("sessions/{session_id}", "delete"): "Delete a session with its messages.",
    ("sessions/{session_id}/files", "get"): "List the files made in a session.",
    ("sessions/{session_id}/messages", "get"): "List the messages of a session, newest first.",
    ("agent-sessions", "get"): "List your agent sessions, newest first.",
    ("agent-sessions", "post"): "Create an agent session.",
    ("agent-sessions/{session_id}", "delete"): "Close an agent session and delete its results.",
    ("runs", "get"): "List your runs, newest first.",
    ("runs/{run_id}", "get"): "Read a run with its result.",
    ("runs/{run_id}/cancel", "post"): "Cancel a run.",
    ("runs/{run_id}/sources/{source_id}/feedback", "post"): "Rate a source of an answer.",
    ("files", "get"): "List your files, newest first.",
    ("requests", "get"): "List requests of unknown senders, newest first.",
    ("requests/{request_id}/decision", "post"): "Decide a request.",
}
PUBLIC_IDS = frozenset({"session_id", "run_id", "request_id"})
KEYED = ("400", "401", "403", "405", "429", "503")
BODY = ("408", "413", "415")


def content(schema: Json | None, *, stream: bool = False) -> Json:
    """Describe a response body: JSON, an event stream, or either."""
    found: Json = {"application/json": {"schema": schema}} if schema else {}
    if stream:
        found["text/event-stream"] = {"schema": ref("ServerSentEvent")}
    return found


def refusal(error: str, tag: str) -> Json:
    """Describe the body of an error; plain text too, for addresses that are opened in a browser."""
    sentence = {"text/plain": {"schema": STRING}} if tag == "ui" else {}
    return {**content(ref(error)), **sentence}


def operation(
    summary: str,
    *,
    tag: str,
    answers: dict[str, Json],
    error: str = "EndpointError",
    errors: tuple[str, ...] = (),
    body: str = "",
    parameters: tuple[Json, ...] = (),
) -> Json:
    """Describe one operation behind a key. ``answers``: status -> content; ``errors``: further
    statuses.
    """
    refused = {*KEYED, *errors, *(BODY if body else ())} - set(answers)
    responses = {
        **{
            status: {"description": WORDS[status], "content": found}
            for status, found in answers.items()
        },
        **{
            status: {"description": WORDS[status], "content": refusal(error, tag)}
            for status in sorted(refused)
        },
    }
    found: Json = {
        "summary": summary,
        "tags": [tag],
        "security": [{"apiKey": []}],
        "parameters": list(parameters),
        "responses": dict(sorted(responses.items())),
    }
    if body:
        found["requestBody"] = {"required": True, "content": content(ref(body))}
    return found


def parameter(name: str, where: str, *, required: bool = False, schema: Json = STRING) -> Json:
    """Describe one parameter."""
    return {"name": name, "in": where, "required": required or where == "path", "schema": schema}


IDEMPOTENCY = parameter("Idempotency-Key", "header", schema={**STRING, "maxLength": 128})
SENDER = parameter("user_id", "query")  # the sender for which a bridge calls
SESSION = parameter("X-Session-Id", "header", schema=PRINTABLE)
RUN_ASKED = parameter("run_id", "query", required=True, schema=PUBLIC)
EVENT = {**STRING, "pattern": f"^[0-9]{{0,{MOST_EVENT_DIGITS}}}$"}
LINE: Json = {"text/plain": {"schema": STRING}}
ANSWER, BOTH = content(ref("Answer")), content(ref("Answer"), stream=True)


def inbound_paths() -> Json:
    """Describe ``/inbound`` and the events of a run ([D1], [D2])."""
    refused = {
        "401": content(ref("EndpointError"), stream=True),
        "429": content(ref("EndpointError"), stream=True),
    }
    finished = {"200": ANSWER, "202": ANSWER, "409": ANSWER, "502": ANSWER, "504": ANSWER}
    return {
        "/inbound": {
            "post": operation(
                "Send a message; the answer is JSON or a stream.",
                tag="inbound",
                body="Inbound",
                answers={
                    **finished,
                    **{
                        status: content(ref("EndpointError"), stream=True)
                        for status in (*KEYED, *BODY, "404", "422")
                    },
                    "200": BOTH,
                },
                parameters=(IDEMPOTENCY,),
            )
        },
        "/inbound/result": {
            "get": operation(
                "Read the answer of a run.",
                tag="inbound",
                answers=finished,
                errors=("404",),
                parameters=(RUN_ASKED, SENDER),
            )
        },
        "/inbound/cancel": {
            "post": operation(
                "Cancel a run; its partial answer is kept.",
                tag="inbound",
                body="RunName",
                answers={"200": content(ref("Stopped"))},
                errors=("404",),
            )
        },
        "/runs/{run_id}/events": {
            "get": operation(
                "Stream the events of a run after a given event.",
                tag="inbound",
                answers={"200": content(None, stream=True), **refused},
                errors=("404",),
                parameters=(
                    parameter("run_id", "path", schema=PUBLIC),
                    parameter("after", "query", schema=EVENT),
                    SENDER,
                    parameter("Last-Event-ID", "header", schema=EVENT),
                ),
            )
        },
    }


def file_paths() -> Json:
    """Describe uploads, own files, and signed links ([L4]); errors of the latter are plain text."""
    upload = operation(
        "Upload a file; a message then names its id.",
        tag="files",
        answers={"201": content(ref("Uploaded"))},
        errors=("408", "413"),
        parameters=(parameter("name", "query"),),
    )
    binary: Json = {
        "application/octet-stream": {"schema": {**STRING, "format": "binary", "minLength": 1}}
    }
    upload["requestBody"] = {"required": True, "content": binary}
    return {
        "/files": {"post": upload},
        "/files/out": {
            "get": file_operation(
                "Download the file of a signed link.",
                ("403", "404", "410"),
                parameter("token", "query", required=True),
                security=[],
            )
        },
        "/files/{file}": {
            "get": file_operation(
                "Download one of your files.",
                ("401", "403", "404"),
                OWN_FILE,
                security=[{"apiKey": []}],
            ),
            "delete": own_file_deleted(),
        },
    }


OWN_FILE = parameter("file", "path", schema=PUBLIC)


def own_file_deleted() -> Json:
    """Describe ``DELETE /files/{file}``: JSON on success, a line of text on an error."""
    found = operation(
        "Delete one of your files.",
        tag="files",
        answers={"200": content(shape(("ok", "status"), ok=FLAG, status={"type": "integer"}))},
        errors=("404",),
        parameters=(OWN_FILE,),
    )
    for status, each in found["responses"].items():
        if status != "200":
            each["content"].update(LINE)
    return found


def file_operation(
    summary: str, refused: tuple[str, ...], given: Json, *, security: list[Json]
) -> Json:
    """Describe an operation that answers with bytes or a line of text; JSON before it reads the
    request.
    """
    refusals = sorted({*refused, "400", "405", "416", "429", "503"})
    files: Json = {"*/*": {"schema": STRING}}
    return {
        "summary": summary,
        "tags": ["files"],
        "security": security,
        "parameters": [given, parameter("Range", "header")],
        "responses": {
            **{s: {"description": WORDS[s], "content": files} for s in ("200", "206")},
            **{
                status: {
                    "description": WORDS[status],
                    "content": {**LINE, **content(ref("EndpointError"))},
                }
                for status in refusals
            },
        },
    }


def openai_paths() -> Json:
    """Describe ``/v1`` ([D5])."""
    return {
        "/v1/chat/completions": {
            "post": operation(
                "Create a chat completion.",
                tag="openai",
                error="OpenAIError",
                body="ChatCompletionRequest",
                answers={"200": content(ref("ChatCompletion"), stream=True)},
                errors=("404", "422", "502", "504"),
                parameters=(SESSION, IDEMPOTENCY),
            )
        },
        "/v1/models": {
            "get": operation(
                "List the models.",
                tag="openai",
                error="OpenAIError",
                answers={"200": content(ref("Models"))},
            )
        },
        "/v1/models/{model}": {
            "get": operation(
                "Read a model.",
                tag="openai",
                error="OpenAIError",
                answers={"200": content(ref("Model"))},
                errors=("404",),
                parameters=(parameter("model", "path"),),
            )
        },
    }


def ui_paths() -> Json:
    """Describe ``/ui/chat``."""
    chat = parameter(
        "chat",
        "path",
        schema={**PRINTABLE, "minLength": 1, "pattern": "^[ -.0-~]+$", "maxLength": MAX_CHAT_ID},
    )
    return {
        "/ui/chat": {
            "post": operation(
                "Send a chat message; the answer is a UI message stream.",
                tag="ui",
                body="UiChat",
                answers={"200": content(None, stream=True)},
                errors=("404",),
            )
        },
        "/ui/chat/{chat}/stream": {
            "get": operation(
                "Resume the running answer of a chat from its beginning.",
                tag="ui",
                answers={"200": content(None, stream=True), "204": {}},
                errors=("404",),
                parameters=(chat,),
            )
        },
        "/ui/chat/{chat}/stop": {
            "post": operation(
                "Stop the running answer of a chat.",
                tag="ui",
                answers={"200": content(ref("Stopped"))},
                errors=("404",),
                parameters=(chat,),
            )
        },
    }


def platform_paths() -> Json:
    """Describe the platforms' webhooks ([D6]); authenticated by a secret in a header, not a key."""
    account = parameter("account", "path", schema={**STRING, "pattern": "^[A-Za-z0-9_.-]{1,64}$"})
    not_found = {**content(ref("EndpointError")), "text/html": {"schema": STRING}}
    hook = operation(
        "Receive an update of Telegram.",
        tag="platforms",
        answers={"200": content(shape(("ok",), ok=FLAG, outcome=STRING)), "404": not_found},
        errors=BODY,
        parameters=(account, parameter("X-Telegram-Bot-Api-Secret-Token", "header")),
    )
    hook["security"] = []
    hook["requestBody"] = {"required": True, "content": content(ANY)}
    return {"/telegram/{account}/webhook": {"post": hook}}


def bridge_paths() -> Json:
    """Describe ``/process`` ([D4])."""
    asked = operation(
        "Send a message of another platform; the answer goes to the account's callback.",
        tag="bridge",
        body="Process",
        answers={"202": content(ref("Queued"))},
        errors=("409", "422"),
        parameters=(
            parameter("X-Latchkey-Timestamp", "header"),
            parameter("X-Latchkey-Signature", "header"),
        ),
    )
    asked["responses"]["409"]["description"] = (
        "The signature was used before, or the account has no callback."
    )
    return {"/process": {"post": asked}}


def mcp_paths() -> Json:
    """Describe ``/mcp`` ([D7]); its messages are defined by the Model Context Protocol."""
    call = operation(
        "Send a message of the Model Context Protocol (streamable HTTP).",
        tag="mcp",
        error="JsonRpcError",
        body="JsonRpc",
        answers={"200": content(ref("JsonRpc"), stream=True), "202": {}},
        errors=("404", "406"),
        parameters=(SESSION,),
    )
    return {"/mcp": {"post": call}}


HEALTH_ERROR = shape(("ok", "error"), ok=FLAG, error=STRING)


def health_paths() -> Json:
    """Describe the health endpoints ([D8]); they need no key."""
    up = {"description": WORDS["200"], "content": content(ref("Health"))}
    down = {
        "description": "Something is wrong; it is named to those with a key or METRICS_TOKEN.",
        "content": content(ref("Health")),
    }
    numbers = {"description": WORDS["200"], "content": {"text/plain": {"schema": STRING}}}
    missing_token = {
        "description": WORDS["401"],
        "content": content(HEALTH_ERROR),
    }
    return {
        "/healthz": {"get": open_operation("Liveness: whether the process is up.", {"200": up})},
        "/readyz": {
            "get": open_operation("Readiness: whether all parts work.", {"200": up, "503": down})
        },
        "/metrics": {
            "get": open_operation("Metrics for Prometheus.", {"200": numbers, "401": missing_token})
        },
    }


def open_operation(summary: str, responses: Json) -> Json:
    """Describe an operation without a key; wrong keys, methods and hosts still count."""
    refused = {
        status: {"description": WORDS[status], "content": content(HEALTH_ERROR)}
        for status in ("400", "405", "429", "503")
        if status not in responses
    }
    responses = dict(sorted({**responses, **refused}.items()))
    return {"summary": summary, "tags": ["health"], "security": [], "responses": responses}


def every_path() -> list[Json]:
    """Return the paths of all these endpoints."""
    return [
        inbound_paths(),
        file_paths(),
        openai_paths(),
        ui_paths(),
        bridge_paths(),
        mcp_paths(),
        platform_paths(),
        health_paths(),
    ]


def document(result: Json, **_: object) -> Json:
    """Add the endpoints that are plain ASGI handlers, and to every operation of /api its summary,
    tag and errors. A hook of drf-spectacular.
    """
    for path, methods in result["paths"].items():
        for method, found in methods.items():
            finish(found, path.removeprefix("/api/"), method)
    result["components"]["schemas"].update(SCHEMAS)
    for paths in every_path():
        for path, methods in paths.items():
            for method, found in methods.items():
                found["operationId"] = re.sub(r"\W+", "_", f"{path}_{method}").strip("_")
        result["paths"].update(paths)
    result["tags"] = [{"name": name, "description": words} for name, words in TAGS.items()]
    result["servers"] = [{"url": "/", "description": "The gateway that serves this document."}]
    return result


def finish(found: Json, path: str, method: str) -> None:
    """Add the statuses and summaries that drf-spectacular cannot derive."""
    found["summary"] = SUMMARIES[path, method]
    found["tags"] = [path.partition("/")[0]]
    for each in found.get("parameters", ()):
        if each["in"] == "path" and each["name"] in PUBLIC_IDS:
            each["schema"] = PUBLIC
    statuses = ["400", "401", "403", "404", "405", "406", "429"]
    for status in (*statuses, *(BODY if "requestBody" in found else ())):
        found["responses"].setdefault(status, {"content": content(ref("EndpointError"))})
    for status, each in found["responses"].items():
        each["description"] = WORDS[status]
    found["responses"] = dict(sorted(found["responses"].items()))
