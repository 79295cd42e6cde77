"""OpenAPI operations of the endpoints that Django REST framework does not serve ([D9]).

Written by hand, since they are plain ASGI handlers; ``tests/channels_app/api/test_document.py``
compares every route with it, and a fuzzer compares the responses.
"""

import re
from functools import partial

from channels_app.api import message_operations, response_operations
from channels_app.api.operations import (
    BODY,
    ERROR,
    IDEMPOTENCY,
    SESSION,
    WORDS,
    Operations,
    content,
    of_openai,
    operation,
    parameter,
)
from channels_app.api.shapes import (
    ANY,
    FLAG,
    INTEGER,
    PRINTABLE,
    PUBLIC,
    SCHEMAS,
    STRING,
    Json,
    complete,
    ref,
    shape,
)
from channels_app.asgi.fields import MAX_CHAT_ID, MAX_RUN_ID, MOST_EVENT_DIGITS

TAGS = {
    "inbound": "Send messages and read the answers.",
    "openai": "The API of OpenAI: chat completions, responses, models, embeddings and audio.",
    "anthropic": "The API of Anthropic: messages.",
    "ui": "UI message streams of the Vercel AI SDK.",
    "ag-ui": "AG-UI 1.0, the protocol of agent front ends.",
    "mcp": "The Model Context Protocol.",
    "bridge": "Messages of other platforms, answered through a callback.",
    "platforms": "Webhooks of messaging platforms.",
    "sessions": "Conversations and their messages.",
    "assistants": "Assistants that you may choose.",
    "models": "Models that you may choose.",
    "agent-sessions": "Sessions in which an agent publishes its results.",
    "runs": "Runs, one for each answer of the assistant.",
    "files": "Uploads, own files and signed links.",
    "schedules": "Reminders and tasks at a time.",
    "requests": "Requests of senders who are not on the allowlist.",
    "health": "Health and metrics.",
}
# (path under /api, method): its summary.
SUMMARIES = {
    ("sessions", "get"): "List your sessions, newest first.",
    ("sessions", "post"): "Create a session.",
    ("sessions/{session_id}", "get"): "Read a session.",
    ("sessions/{session_id}", "patch"): "Rename a session, or choose what answers in it.",
    ("sessions/{session_id}", "delete"): "Delete a session with its messages.",
    ("sessions/{session_id}/files", "get"): "List the files made in a session.",
    ("sessions/{session_id}/messages", "get"): "List the messages of a session, newest first.",
    ("assistants", "get"): "List the assistants that you may choose.",
    ("models", "get"): "List the models that you may choose.",
    ("agent-sessions", "get"): "List your agent sessions, newest first.",
    ("agent-sessions", "post"): "Create an agent session.",
    ("agent-sessions/{session_id}", "delete"): "Close an agent session and delete its results.",
    ("runs", "get"): "List your runs, newest first.",
    ("runs/{run_id}", "get"): "Read a run with its result.",
    ("runs/{run_id}/cancel", "post"): "Cancel a run.",
    ("runs/{run_id}/sources/{source_id}/feedback", "post"): "Rate a source of an answer.",
    ("files", "get"): "List your files, newest first.",
    ("schedules", "get"): "List your schedules, newest first.",
    ("schedules", "post"): "Create a schedule; it goes to your web chat.",
    ("schedules/{schedule_id}", "get"): "Read a schedule with its next times.",
    ("schedules/{schedule_id}", "patch"): "Change a schedule.",
    ("schedules/{schedule_id}", "delete"): "End a schedule.",
    ("schedules/{schedule_id}/pause", "post"): "Pause a schedule.",
    ("schedules/{schedule_id}/resume", "post"): "Resume a schedule from its next time on.",
    ("schedules/{schedule_id}/occurrences", "get"): "List what became of a schedule, newest first.",
    ("requests", "get"): "List requests of unknown senders, newest first.",
    ("requests/{request_id}/decision", "post"): "Decide a request.",
}
PUBLIC_IDS = frozenset({"session_id", "run_id", "request_id", "schedule_id"})
LINE: Json = {"text/plain": {"schema": STRING}}
ERROR_OR_EVENT = content(ref("EndpointError"), stream=True)
# For addresses that are opened in a browser.
ERROR_OR_LINE = {**ERROR, **LINE}

SENDER = parameter("user_id", "query")  # the sender for which a bridge calls
RANGE = parameter("Range", "header")
OWN_FILE = parameter("file", "path", schema=PUBLIC)
CHAT = parameter(
    "chat",
    "path",
    schema={**PRINTABLE, "minLength": 1, "pattern": "^[ -.0-~]+$", "maxLength": MAX_CHAT_ID},
)
CHANNEL = parameter(
    "channel", "path", schema={**STRING, "minLength": 1, "maxLength": 64, "pattern": "^[^/]+$"}
)
ACCOUNT = parameter("account", "path", schema={**STRING, "minLength": 1, "maxLength": 64})
EVENT = {**STRING, "pattern": f"^[0-9]{{0,{MOST_EVENT_DIGITS}}}$"}
LAST_EVENT = parameter("Last-Event-ID", "header", schema=EVENT)
# At /ui/chat and /ag-ui: the run and the number.
OF_RUN = {**STRING, "pattern": f"^([A-Za-z0-9_-]{{22}}\\.)?[0-9]{{0,{MOST_EVENT_DIGITS}}}$"}
LAST_OF_RUN = parameter("Last-Event-ID", "header", schema=OF_RUN)
THREAD = {**CHAT, "name": "thread"}
RUN = {**PRINTABLE, "maxLength": MAX_RUN_ID}
ANSWER = content(ref("Answer"))
FINISHED = dict.fromkeys(("200", "202", "409", "502", "504"), ANSWER)
FILE = {status: {"*/*": {"schema": STRING}} for status in ("200", "206")}
EVENTS = content(None, stream=True)
STOPPED = content(ref("Stopped"))
HEALTH = content(ref("Health"))
HEALTH_ERROR = content(complete(ok=FLAG, error=STRING))

of_inbound = partial(operation, tag="inbound")
INBOUND: Operations = {  # [D1], [D2]
    ("/inbound", "post"): of_inbound(
        "Send a message; the answer is JSON or a stream.",
        body=ref("Inbound"),
        answers={**FINISHED, "200": content(ref("Answer"), stream=True)},
        errors=("404", "422"),
        error=ERROR_OR_EVENT,
        parameters=(IDEMPOTENCY,),
    ),
    ("/inbound/result", "get"): of_inbound(
        "Read the answer of a run.",
        answers=FINISHED,
        errors=("404",),
        parameters=(parameter("run_id", "query", required=True, schema=PUBLIC), SENDER),
    ),
    ("/inbound/cancel", "post"): of_inbound(
        "Cancel a run; its partial answer is kept.",
        body=ref("RunName"),
        answers={"200": STOPPED},
        errors=("404",),
    ),
    ("/runs/{run_id}/events", "get"): of_inbound(
        "Stream the events of a run after a given event.",
        answers={"200": EVENTS, "401": ERROR_OR_EVENT, "429": ERROR_OR_EVENT},
        errors=("404",),
        parameters=(
            parameter("run_id", "path", schema=PUBLIC),
            parameter("after", "query", schema=EVENT),
            SENDER,
            LAST_EVENT,
        ),
    ),
}
of_files = partial(operation, tag="files")
FILES: Operations = {  # [L4]
    ("/files", "post"): of_files(
        "Upload a file; a message then names its id.",
        answers={"201": content(ref("Uploaded"))},
        errors=("408", "413", "415", "507"),
        parameters=(parameter("name", "query"),),
    ),
    ("/files/out", "get"): of_files(
        "Download the file of a signed link.",
        answers=FILE,
        errors=("403", "404", "410", "416"),
        error=ERROR_OR_LINE,
        key=False,
        parameters=(parameter("token", "query", required=True), RANGE),
    ),
    ("/files/{file}", "get"): of_files(
        "Download one of your files.",
        answers=FILE,
        errors=("404", "416"),
        error=ERROR_OR_LINE,
        parameters=(OWN_FILE, RANGE),
    ),
    ("/files/{file}", "delete"): of_files(
        "Delete one of your files.",
        answers={"200": content(complete(ok=FLAG, status=INTEGER))},
        errors=("404",),
        error=ERROR_OR_LINE,
        parameters=(OWN_FILE,),
    ),
}
FILES["/files", "post"]["requestBody"] = {
    "required": True,
    "content": {
        "application/octet-stream": {"schema": {**STRING, "format": "binary", "minLength": 1}}
    },
}
OPENAI: Operations = {  # [D5]
    ("/v1/chat/completions", "post"): of_openai(
        "Create a chat completion.",
        body=ref("ChatCompletionRequest"),
        answers={"200": content(ref("ChatCompletion"), stream=True)},
        errors=("404", "422", "499", "502", "504"),
        parameters=(SESSION, IDEMPOTENCY),
    ),
    ("/v1/models", "get"): of_openai("List the models.", answers={"200": content(ref("Models"))}),
    ("/v1/models/{model}", "get"): of_openai(
        "Read a model.",
        answers={"200": content(ref("Model"))},
        errors=("404",),
        parameters=(parameter("model", "path"),),
    ),
    **response_operations.OPERATIONS,
    **message_operations.OPERATIONS,
}
of_ui = partial(operation, tag="ui", errors=("404",), error=ERROR_OR_LINE)
UI: Operations = {
    ("/ui/chat", "post"): of_ui(
        "Send a chat message; the answer is a UI message stream.",
        body=ref("UiChat"),
        answers={"200": EVENTS},
    ),
    ("/ui/chat/{chat}/stream", "get"): of_ui(
        "Resume the running answer of a chat, or one that was cut.",
        answers={"200": EVENTS, "204": {}},
        parameters=(CHAT, LAST_OF_RUN, parameter("run_id", "query")),
    ),
    ("/ui/chat/{chat}/stop", "post"): of_ui(
        "Stop the running answer of a chat.",
        answers={"200": STOPPED},
        parameters=(CHAT,),
    ),
}
of_ag_ui = partial(operation, tag="ag-ui")
AG_UI: Operations = {
    ("/ag-ui", "post"): of_ag_ui(
        "Run the assistant; the answer is a stream of AG-UI events.",
        body=ref("RunAgentInput"),
        answers={"200": EVENTS},
        errors=("404", "422"),
        parameters=(LAST_OF_RUN,),
    ),
    ("/ag-ui/{thread}/stream", "get"): of_ag_ui(
        "Reconnect to a thread, or read the rest of a stream that was cut.",
        answers={"200": EVENTS},
        errors=("404", "413"),
        parameters=(THREAD, LAST_OF_RUN, parameter("runId", "query", schema=RUN)),
    ),
    ("/ag-ui/{thread}/stop", "post"): of_ag_ui(
        "Stop the run of a thread.",
        answers={"200": STOPPED},
        errors=("404",),
        parameters=(THREAD,),
    ),
}
BRIDGE: Operations = {  # [D4]
    ("/process", "post"): operation(
        "Send a message of another platform; the answer goes to the account's callback.",
        tag="bridge",
        body=ref("Process"),
        answers={"202": content(ref("Queued"))},
        errors=("409", "422"),
        parameters=(
            parameter("X-Latchkey-Timestamp", "header"),
            parameter("X-Latchkey-Signature", "header"),
        ),
    )
}
BRIDGE["/process", "post"]["responses"]["409"]["description"] = (
    "The signature was used before, or the account has no callback."
)
MCP: Operations = {  # [D7]; its messages are defined by the Model Context Protocol
    ("/mcp", "post"): operation(
        "Send a message of the Model Context Protocol (streamable HTTP).",
        tag="mcp",
        body=ref("JsonRpc"),
        answers={"200": content(ref("JsonRpc"), stream=True), "202": {}},
        errors=("404", "406"),
        error=content(ref("JsonRpcError")),
        parameters=(SESSION,),
    )
}
of_platforms = partial(operation, tag="platforms", key=False)
PLATFORMS: Operations = {  # [D6]; authenticated by a secret or a signature, not by a key
    ("/telegram/{account}/webhook", "post"): of_platforms(
        "Receive an update of Telegram.",
        body=ANY,
        answers={
            "200": content(shape(("ok",), ok=FLAG, outcome=STRING)),
            "404": {**ERROR, "text/html": {"schema": STRING}},
        },
        errors=("401", "403"),
        parameters=(ACCOUNT, parameter("X-Telegram-Bot-Api-Secret-Token", "header")),
    ),
    ("/channels/{channel}/{account}/webhook", "post"): of_platforms(
        "Receive a call of the platform of an installed channel.",
        body=ANY,
        answers={"200": content(ANY), "404": {**ERROR, "text/html": {"schema": STRING}}},
        errors=("403",),
        parameters=(CHANNEL, ACCOUNT),
    ),
}
of_health = partial(operation, tag="health", error=HEALTH_ERROR, key=False)
HEALTH_CHECKS: Operations = {  # [D8]
    ("/healthz", "get"): of_health(
        "Liveness: whether the process is up.",
        answers={"200": HEALTH},
    ),
    ("/readyz", "get"): of_health(
        "Readiness: whether all parts work.",
        answers={"200": HEALTH, "503": HEALTH},
    ),
    ("/metrics", "get"): of_health(
        "Metrics for Prometheus.",
        answers={"200": LINE},
        errors=("401",),
    ),
}
HEALTH_CHECKS["/readyz", "get"]["responses"]["503"]["description"] = (
    "Something is wrong; it is named to those with a key or METRICS_TOKEN."
)
OPERATIONS = INBOUND | FILES | OPENAI | UI | AG_UI | BRIDGE | MCP | PLATFORMS | HEALTH_CHECKS


def document(result: Json, **_: object) -> Json:
    """Add the endpoints that are plain ASGI handlers, and to every operation of /api its summary,
    tag and errors. A hook of drf-spectacular.
    """
    for path, methods in result["paths"].items():
        for method, found in methods.items():
            finish(found, path.removeprefix("/api/"), method)
    more = response_operations.SCHEMAS | message_operations.SCHEMAS
    result["components"]["schemas"].update(SCHEMAS | more)
    for (path, method), found in OPERATIONS.items():
        name = re.sub(r"\W+", "_", f"{path}_{method}").strip("_")
        result["paths"].setdefault(path, {})[method] = {**found, "operationId": name}
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
    if any(each["name"] == IDEMPOTENCY["name"] for each in found.get("parameters", ())):
        statuses.append("422")
    for status in (*statuses, *(BODY if "requestBody" in found else ())):
        found["responses"].setdefault(status, {"content": ERROR})
    for status, each in found["responses"].items():
        each["description"] = WORDS[status]
    found["responses"] = dict(sorted(found["responses"].items()))
