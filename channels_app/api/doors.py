"""The doors that Django REST framework does not serve, in the same OpenAPI document ([D9]).

Written by hand, since they are plain ASGI handlers; ``tests/api/test_document.py`` compares every
route with it, and a fuzzer compares what they answer.
"""

import re

from channels_app.api.shapes import ANY, FLAG, SCHEMAS, STRING, Json, ref, shape

WORDS = {
    "200": "As asked.",
    "201": "It is kept.",
    "202": "Not finished yet.",
    "204": "Nothing is running.",
    "400": "The input is wrong; the field is named.",
    "401": "Who are you? Or: a sender whom nobody has let in.",
    "403": "The key has no scope for this.",
    "404": "Not there, or not yours.",
    "405": "Not with this method.",
    "406": "Not in this form.",
    "408": "The body came too slowly.",
    "409": "It was stopped.",
    "410": "It was taken back.",
    "413": "Too large.",
    "415": "Not this kind of body.",
    "422": "The key stands for another body.",
    "429": "Too fast, or too many at once; see `Retry-After`.",
    "502": "The model failed.",
    "503": "Try again in a moment.",
    "504": "It takes too long.",
}
KEYED = ("400", "401", "403", "405", "429", "503")
BODY = ("408", "413", "415")


def content(schema: Json | None, *, stream: bool = False) -> Json:
    """What an answer holds: JSON, an event stream, or either."""
    found: Json = {"application/json": {"schema": schema}} if schema else {}
    if stream:
        found["text/event-stream"] = {"schema": ref("ServerSentEvent")}
    return found


def refusal(error: str, tag: str) -> Json:
    """What the answer to a refused request holds; a sentence too, where people read it."""
    sentence = {"text/plain": {"schema": STRING}} if tag == "ui" else {}
    return {**content(ref(error)), **sentence}


def operation(
    summary: str,
    *,
    tag: str,
    answers: dict[str, Json],
    error: str = "DoorError",
    errors: tuple[str, ...] = (),
    body: str = "",
    parameters: tuple[Json, ...] = (),
) -> Json:
    """One operation behind a key. ``answers``: status -> content; ``errors``: further statuses."""
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
    """One parameter."""
    return {"name": name, "in": where, "required": required or where == "path", "schema": schema}


IDEMPOTENCY = parameter("Idempotency-Key", "header", schema={**STRING, "maxLength": 128})
SENDER = parameter("user_id", "query")  # for which of its senders a bridge asks
ANSWER, BOTH = content(ref("Answer")), content(ref("Answer"), stream=True)


def inbound_paths() -> Json:
    """``/inbound`` and the events of a run ([D1], [D2])."""
    refused = {
        "401": content(ref("DoorError"), stream=True),
        "429": content(ref("DoorError"), stream=True),
    }
    finished = {"200": ANSWER, "202": ANSWER, "409": ANSWER, "502": ANSWER, "504": ANSWER}
    return {
        "/inbound": {
            "post": operation(
                "Say something; the answer as JSON or as a stream.",
                tag="inbound",
                body="Inbound",
                answers={
                    **finished,
                    **{
                        status: content(ref("DoorError"), stream=True)
                        for status in (*KEYED, *BODY, "404", "422")
                    },
                    "200": BOTH,
                },
                parameters=(IDEMPOTENCY,),
            )
        },
        "/inbound/result": {
            "get": operation(
                "The answer of a run, once it is there.",
                tag="inbound",
                answers=finished,
                errors=("404",),
                parameters=(parameter("run_id", "query", required=True), SENDER),
            )
        },
        "/inbound/cancel": {
            "post": operation(
                "Stop a run; what it said is kept.",
                tag="inbound",
                body="RunName",
                answers={"200": content(ref("Stopped"))},
                errors=("404",),
            )
        },
        "/runs/{run_id}/events": {
            "get": operation(
                "The stream of a run, after an event.",
                tag="inbound",
                answers={"200": content(None, stream=True), **refused},
                errors=("404",),
                parameters=(
                    parameter("run_id", "path"),
                    parameter("after", "query"),
                    SENDER,
                    parameter("Last-Event-ID", "header"),
                ),
            )
        },
    }


def file_paths() -> Json:
    """Uploads, one's own files, and signed links ([L4]); refusals of the latter are plain text."""
    upload = operation(
        "Upload a file; a message then names its id.",
        tag="files",
        answers={"201": content(ref("Uploaded"))},
        errors=("400", "408", "413"),
        parameters=(parameter("name", "query"),),
    )
    binary: Json = {"application/octet-stream": {"schema": {**STRING, "format": "binary"}}}
    upload["requestBody"] = {"required": True, "content": binary}
    return {
        "/files": {"post": upload},
        "/files/out": {
            "get": file_operation(
                "The file of a signed link.",
                ("403", "404", "405", "410"),
                parameter("token", "query", required=True),
                security=[],
            )
        },
        "/files/{file}": {
            "get": file_operation(
                "One's own file.",
                ("401", "403", "404", "405", "429"),
                parameter("file", "path"),
                security=[{"apiKey": []}],
            )
        },
    }


def file_operation(
    summary: str, refused: tuple[str, ...], given: Json, *, security: list[Json]
) -> Json:
    """An operation that answers with bytes, or a line of text."""
    line = {"text/plain": {"schema": STRING}}
    return {
        "summary": summary,
        "tags": ["files"],
        "security": security,
        "parameters": [given],
        "responses": {
            "200": {"description": WORDS["200"], "content": {"*/*": {"schema": STRING}}},
            **{status: {"description": WORDS[status], "content": line} for status in refused},
        },
    }


def openai_paths() -> Json:
    """``/v1`` ([D5])."""
    return {
        "/v1/chat/completions": {
            "post": operation(
                "A chat completion, as OpenAI's clients ask for it.",
                tag="openai",
                error="OpenAIError",
                body="ChatCompletionRequest",
                answers={"200": content(ref("ChatCompletion"), stream=True)},
                errors=("404", "422", "502", "504"),
                parameters=(parameter("X-Session-Id", "header"), IDEMPOTENCY),
            )
        },
        "/v1/models": {
            "get": operation(
                "The models.",
                tag="openai",
                error="OpenAIError",
                answers={"200": content(ref("Models"))},
            )
        },
        "/v1/models/{model}": {
            "get": operation(
                "One model.",
                tag="openai",
                error="OpenAIError",
                answers={"200": content(ref("Model"))},
                errors=("404",),
                parameters=(parameter("model", "path"),),
            )
        },
    }


def ui_paths() -> Json:
    """``/ui/chat``."""
    chat = parameter("chat", "path", schema={**STRING, "minLength": 1, "maxLength": 100})
    return {
        "/ui/chat": {
            "post": operation(
                "A UI message stream (Vercel AI SDK, version 1).",
                tag="ui",
                body="UiChat",
                answers={"200": content(None, stream=True)},
                errors=("404",),
            )
        },
        "/ui/chat/{chat}/stream": {
            "get": operation(
                "The open answer of a chat, from its beginning.",
                tag="ui",
                answers={"200": content(None, stream=True), "204": {}},
                errors=("404",),
                parameters=(chat,),
            )
        },
        "/ui/chat/{chat}/stop": {
            "post": operation(
                "Stop the open answer of a chat.",
                tag="ui",
                answers={"200": content(ref("Stopped"))},
                errors=("404",),
                parameters=(chat,),
            )
        },
    }


def platform_paths() -> Json:
    """Where platforms push to ([D6]); their secret stands in a header instead of a key."""
    account = parameter("account", "path", schema={**STRING, "pattern": "^[A-Za-z0-9_.-]{1,64}$"})
    nobody = {**content(ref("DoorError")), "text/html": {"schema": STRING}}
    hook = operation(
        "One update of Telegram.",
        tag="platforms",
        answers={"200": content(shape(("ok",), ok=FLAG, outcome=STRING)), "404": nobody},
        errors=BODY,
        parameters=(account, parameter("X-Telegram-Bot-Api-Secret-Token", "header")),
    )
    hook["security"] = []
    hook["requestBody"] = {"required": True, "content": content(ANY)}
    return {"/telegram/{account}/webhook": {"post": hook}}


def bridge_paths() -> Json:
    """``/process`` ([D4])."""
    asked = operation(
        "Ask for somebody on another platform; the answer is POSTed to the account's callback.",
        tag="bridge",
        body="Process",
        answers={"202": content(ref("Queued"))},
        errors=("409", "422"),
        parameters=(
            parameter("X-Latchkey-Timestamp", "header"),
            parameter("X-Latchkey-Signature", "header"),
        ),
    )
    asked["responses"]["409"]["description"] = "Asked before with this signature, or no callback."
    return {"/process": {"post": asked}}


def mcp_paths() -> Json:
    """``/mcp`` ([D7]); its messages are described by the Model Context Protocol."""
    call = operation(
        "One message of the Model Context Protocol, over streamable HTTP.",
        tag="mcp",
        error="JsonRpcError",
        body="JsonRpc",
        answers={"200": content(ref("JsonRpc"), stream=True), "202": {}},
        errors=("404", "406"),
        parameters=(parameter("X-Session-Id", "header"),),
    )
    return {"/mcp": {"post": call}}


def health_paths() -> Json:
    """Health ([D8]); no key."""
    up = {"description": WORDS["200"], "content": content(ref("Health"))}
    down = {
        "description": "Something is wrong; it is named to those with a key or METRICS_TOKEN.",
        "content": content(ref("Health")),
    }
    numbers = {"description": WORDS["200"], "content": {"text/plain": {"schema": STRING}}}
    stranger = {
        "description": WORDS["401"],
        "content": content(shape(("ok", "error"), ok=FLAG, error=STRING)),
    }
    return {
        "/healthz": {"get": open_operation("Whether the process is up.", {"200": up})},
        "/readyz": {"get": open_operation("Whether all parts work.", {"200": up, "503": down})},
        "/metrics": {
            "get": open_operation("Numbers for Prometheus.", {"200": numbers, "401": stranger})
        },
    }


def open_operation(summary: str, responses: Json) -> Json:
    """An operation without a key."""
    return {"summary": summary, "tags": ["health"], "security": [], "responses": responses}


def every_path() -> list[Json]:
    """The paths of all doors."""
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
    """A hook of drf-spectacular: add the doors, and to every operation of /api its errors."""
    for methods in result["paths"].values():
        for found in methods.values():
            add_errors(found)
    result["components"]["schemas"].update(SCHEMAS)
    for paths in every_path():
        for path, methods in paths.items():
            for method, found in methods.items():
                found["operationId"] = re.sub(r"\W+", "_", f"{path}_{method}").strip("_")
        result["paths"].update(paths)
    return result


def add_errors(found: Json) -> None:
    """The statuses that Django REST framework answers by itself."""
    statuses = ["400", "401", "403", "404", "405", "406", "429"]
    if "requestBody" in found:
        statuses.append("415")
    for status in statuses:
        found["responses"].setdefault(
            status, {"description": WORDS[status], "content": content(ref("DoorError"))}
        )
