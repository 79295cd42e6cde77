"""The permission matrix: every route and every frame of a socket, a column per role.

A new route, method or frame without a row fails ``test_matrix.py``; the row is the decision.
``{session}``, ``{run}``, ``{file}``, ``{request}`` are objects of the member ``own``.

    anonymous   no credential                     staff     may open the admin, has no rights there
    other       a member, at objects of ``own``   owner     decides about access
    own         the member they belong to         revoked   a key of ``own`` that was revoked
                                                  bridge    the key of a bridge account
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One request and the status for each of ``gateway_data.WHO``, in that order.

    ``hides``: for ``other``, an object of ``own`` must answer like a missing one.
    """

    method: str
    path: str
    statuses: str
    body: Any = None
    headers: tuple[tuple[str, str], ...] = ()
    hides: bool = False


RENAME = {"action": "rename", "title": "x"}
THUMB = {"run_id": "{run}", "source_id": "s1", "verdict": "up"}
DONE = {"choice": "done"}
ENDPOINT = {"endpoint": "https://push.example/send/one"}
BROWSER: dict[str, Any] = {
    **ENDPOINT,
    "keys": {  # the base point of P-256, and 16 bytes
        "p256dh": "BGsX0fLhLEJH-Lzm5WOkQPJ3A32BLeszoPShOUXYmMKW"
        "T-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU",
        "auth": "AAAAAAAAAAAAAAAAAAAAAA",
    },
}
VERDICT = {"verdict": "deny"}
PLAN = {"text": "x", "at": "2100-01-01T08:00", "rule": "FREQ=DAILY", "time_zone": "UTC"}
ASK = {"text": "hi", "async": True}
ASK_HERE = {**ASK, "session_id": "{session}"}
CHAT = {"model": "default", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
MESSAGE = {**CHAT, "max_tokens": 10}
RESPOND = {"model": "default", "input": "hi", "background": True}
FOLLOW = {**RESPOND, "previous_response_id": "{response}"}
UI = {
    "id": "chat-1",
    "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "x"}]}],
}
AG_UI = {
    "threadId": "thread-1",
    "runId": "run-1",
    "messages": [{"id": "m", "role": "user", "content": "x"}],
}
WEBHOOK = (("x-telegram-bot-api-secret-token", "a-webhook-secret"),)
UPDATE = {"update_id": 1, "poll": {}}

RPC = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "list_sessions", "arguments": {}},
}
ACCEPT = (("accept", "application/json, text/event-stream"),)

#                                                  anon other own staff owner revoked bridge
PAGES: dict[str, list[Row]] = {
    "": [Row("GET", "/", "302 200 200 200 200 302 302")],
    r"api/^(?P<rest>[\s\S]*)$": [Row("GET", "/api/nothing", "404 404 404 404 404 404 404")],
    "favicon.ico": [Row("GET", "/favicon.ico", "302 302 302 302 302 302 302")],
    # The same page for any id: chat/sessions/<id>/messages sends its content.
    "c/<str:session_id>": [Row("GET", "/c/{session}", "302 200 200 200 200 302 302")],
    "chat/sessions": [Row("GET", "/chat/sessions", "401 200 200 200 200 401 401")],
    "chat/sessions/<str:session_id>": [
        Row("POST", "/chat/sessions/{session}", "401 404 200 404 404 401 401", RENAME, hides=True),
    ],
    "chat/sessions/<str:session_id>/messages": [
        Row("GET", "/chat/sessions/{session}/messages", "401 404 200 404 404 401 401", hides=True),
    ],
    "chat/sessions/<str:session_id>/export": [
        Row("GET", "/chat/sessions/{session}/export", "401 404 200 404 404 401 401", hides=True),
    ],
    "chat/assistants": [Row("GET", "/chat/assistants", "401 200 200 200 200 401 401")],
    "chat/assistants/<int:assistant_id>/picture": [
        Row("GET", "/chat/assistants/1/picture", "401 404 404 404 404 401 401"),
    ],
    "chat/sessions/<str:session_id>/assistant": [
        Row(
            "POST",
            "/chat/sessions/{session}/assistant",
            "401 404 200 404 404 401 401",
            {"assistant_id": 0, "model_id": 0},
            hides=True,
        ),
    ],
    "chat/usage": [Row("GET", "/chat/usage", "401 200 200 200 200 401 401")],
    "first-run/": [Row("GET", "/first-run/", "302 404 404 404 302 302 302")],
    "first-run/model": [
        Row("GET", "/first-run/model", "302 404 404 404 200 302 302"),
        Row("POST", "/first-run/model", "302 404 404 404 422 302 302", {"kind": "ollama"}),
    ],
    "first-run/message": [
        Row("GET", "/first-run/message", "302 404 404 404 200 302 302"),
        Row("POST", "/first-run/message", "302 404 404 404 302 302 302"),
    ],
    "first-run/phone": [
        Row("GET", "/first-run/phone", "302 404 404 404 200 302 302"),
        Row("POST", "/first-run/phone", "302 404 404 404 422 302 302", {"token": "x"}),
    ],
    "first-run/phone/state": [
        Row("GET", "/first-run/phone/state", "302 404 404 404 200 302 302"),
    ],
    "first-run/skip": [Row("POST", "/first-run/skip", "302 404 404 404 404 302 302")],
    "first-run/dismiss": [Row("POST", "/first-run/dismiss", "302 404 404 404 302 302 302")],
    "chat/settings": [
        Row("POST", "/chat/settings", "401 200 200 200 200 401 401", {"show_progress": True}),
    ],
    "chat/push/key": [Row("POST", "/chat/push/key", "401 200 200 200 200 401 401")],
    "chat/push/subscriptions": [
        Row("POST", "/chat/push/subscriptions", "401 200 200 200 200 401 401", BROWSER),
        Row("POST", "/chat/push/subscriptions", "401 400 400 400 400 401 401", {"keys": {}}),
    ],
    "chat/push/browsers": [Row("GET", "/chat/push/browsers", "401 200 200 200 200 401 401")],
    "chat/push/remove": [
        Row("POST", "/chat/push/remove", "401 200 200 200 200 401 401", ENDPOINT),
        Row("POST", "/chat/push/remove", "401 400 400 400 400 401 401", {"id": "1"}),
    ],
    "chat/push/settings": [
        Row("POST", "/chat/push/settings", "401 200 200 200 200 401 401", {"hide_text": True}),
    ],
    # The same for all roles.
    "manifest.webmanifest": [Row("GET", "/manifest.webmanifest", "200 200 200 200 200 200 200")],
    "sw.js": [Row("GET", "/sw.js", "200 200 200 200 200 200 200")],
    "offline": [Row("GET", "/offline", "200 200 200 200 200 200 200")],
    "share": [Row("POST", "/share", "303 303 303 303 303 303 303")],
    "chat/time-zone": [
        Row("POST", "/chat/time-zone", "401 200 200 200 200 401 401", {"time_zone": "UTC"}),
    ],
    "chat/reminders/<str:run_id>": [
        Row("POST", "/chat/reminders/{reminder}", "401 404 200 404 404 401 401", DONE, hides=True),
    ],
    "reminders": [Row("GET", "/reminders", "302 200 200 200 200 302 302")],
    "reminders/new": [
        Row("GET", "/reminders/new", "302 200 200 200 200 302 302"),
        Row("POST", "/reminders/new", "302 422 422 422 422 302 302", {"text": ""}),
    ],
    "reminders/time-zone": [
        Row("POST", "/reminders/time-zone", "302 422 422 422 422 302 302", {"zone": "UTC"}),
    ],
    "reminders/<str:name>": [
        Row("GET", "/reminders/{schedule}", "302 404 200 404 404 302 302", hides=True),
        Row("POST", "/reminders/{schedule}", "302 404 422 404 404 302 302", {"text": ""}),
    ],
    "reminders/<str:name>/<str:action>": [
        Row("POST", "/reminders/{schedule}/pause", "302 404 302 404 404 302 302"),
    ],
    "chat/feedback": [Row("POST", "/chat/feedback", "401 404 200 404 404 401 401", THUMB)],
    "chat/link-code": [Row("POST", "/chat/link-code", "401 200 200 200 200 401 401")],
    "sign-in": [Row("GET", "/sign-in", "200 302 302 302 302 200 200")],
    "sign-in/<str:token>": [
        Row("GET", "/sign-in/guessed", "403 403 403 403 403 403 403"),
        Row("POST", "/sign-in/guessed", "403 403 403 403 403 403 403"),
    ],
    "decide/<str:token>": [
        Row("GET", "/decide/guessed", "403 403 403 403 403 403 403"),
        Row("POST", "/decide/guessed", "403 403 403 403 403 403 403", {"verdict": "approve"}),
    ],
    "requests/<str:public_id>": [
        Row("GET", "/requests/{request}", "302 404 404 404 200 302 302"),
        Row("POST", "/requests/{request}", "302 404 404 404 400 302 302"),
    ],
    "tool-calls/<str:public_id>": [
        Row("GET", "/tool-calls/{call}", "302 404 404 404 200 302 302"),
        Row("POST", "/tool-calls/{call}", "302 404 404 404 400 302 302"),
    ],
    "texts/<str:language>/<str:version>.js": [
        Row("GET", "/texts/de/old.js", "200 200 200 200 200 200 200"),
    ],
    "mcp/oauth/sign-in/<str:value>": [
        Row("GET", "/mcp/oauth/sign-in/guessed", "404 404 404 404 404 404 404"),
        Row("GET", "/mcp/oauth/sign-in/{sign_in}", "302 404 200 404 404 302 302", hides=True),
        Row("POST", "/mcp/oauth/sign-in/{sign_in}", "302 404 200 404 404 302 302"),
    ],
    "mcp/oauth/callback/<slug:server>": [
        Row("GET", "/mcp/oauth/callback/x?state=x&code=y", "400 400 400 400 400 400 400"),
    ],
    "mcp/oauth/client/<slug:server>.json": [
        Row("GET", "/mcp/oauth/client/x.json", "200 200 200 200 200 200 200"),
    ],
    "sign-out": [Row("POST", "/sign-out", "302 302 302 302 302 302 302")],
    "trace/<str:run_id>/view": [
        Row("GET", "/trace/{run}/view", "302 404 200 404 200 302 302", hides=True),
    ],
    "agent/view/<str:message_type>/<path:message_id>": [
        Row("GET", "/agent/view/text/t?run={run}", "302 404 302 404 302 302 302", hides=True),
    ],
}

API: dict[str, list[Row]] = {
    "api/sessions": [
        Row("GET", "/api/sessions", "401 200 200 200 200 401 401"),
        Row("POST", "/api/sessions", "401 201 201 201 201 401 401", {"title": "x"}),
    ],
    "api/sessions/<str:session_id>": [
        Row("GET", "/api/sessions/{session}", "401 404 200 404 404 401 401", hides=True),
        Row(
            "PATCH",
            "/api/sessions/{session}",
            "401 404 200 404 404 401 401",
            {"title": "y"},
            hides=True,
        ),
        Row("DELETE", "/api/sessions/{session}", "401 404 204 404 404 401 401", hides=True),
    ],
    "api/sessions/<str:session_id>/messages": [
        Row("GET", "/api/sessions/{session}/messages", "401 404 200 404 404 401 401", hides=True),
    ],
    "api/sessions/<str:session_id>/files": [
        Row("GET", "/api/sessions/{session}/files", "401 404 200 404 404 401 401", hides=True),
    ],
    "api/assistants": [Row("GET", "/api/assistants", "401 200 200 200 200 401 401")],
    "api/models": [Row("GET", "/api/models", "401 200 200 200 200 401 401")],
    "api/runs": [Row("GET", "/api/runs", "401 200 200 200 200 401 401")],
    "api/runs/<str:run_id>": [
        Row("GET", "/api/runs/{run}", "401 404 200 404 404 401 401", hides=True),
    ],
    "api/runs/<str:run_id>/cancel": [
        Row("POST", "/api/runs/{run}/cancel", "401 404 200 404 404 401 401", hides=True),
    ],
    "api/runs/<str:run_id>/sources/<str:source_id>/feedback": [
        Row(
            "POST",
            "/api/runs/{run}/sources/s1/feedback",
            "401 404 200 404 404 401 401",
            {"verdict": "up"},
            hides=True,
        ),
    ],
    "api/schedules": [
        Row("GET", "/api/schedules", "401 200 200 200 200 401 401"),
        Row("POST", "/api/schedules", "401 201 201 201 201 401 401", PLAN),
    ],
    "api/schedules/<str:schedule_id>": [
        Row("GET", "/api/schedules/{schedule}", "401 404 200 404 404 401 401", hides=True),
        Row("PATCH", "/api/schedules/{schedule}", "401 404 200 404 404 401 401", PLAN, hides=True),
        Row("DELETE", "/api/schedules/{schedule}", "401 404 204 404 404 401 401", hides=True),
    ],
    "api/schedules/<str:schedule_id>/pause": [
        Row("POST", "/api/schedules/{schedule}/pause", "401 404 200 404 404 401 401", hides=True),
    ],
    "api/schedules/<str:schedule_id>/resume": [
        Row("POST", "/api/schedules/{schedule}/resume", "401 404 200 404 404 401 401", hides=True),
    ],
    "api/schedules/<str:schedule_id>/occurrences": [
        Row(
            "GET",
            "/api/schedules/{schedule}/occurrences",
            "401 404 200 404 404 401 401",
            hides=True,
        ),
    ],
    "api/files": [Row("GET", "/api/files", "401 200 200 200 200 401 401")],
    "api/requests": [Row("GET", "/api/requests", "401 403 403 403 200 401 401")],
    "api/requests/<str:request_id>/decision": [
        Row("POST", "/api/requests/{request}/decision", "401 403 403 403 200 401 401", VERDICT),
    ],
    "api/agent-sessions": [
        Row("GET", "/api/agent-sessions", "401 200 200 200 200 401 401"),
        Row("POST", "/api/agent-sessions", "401 201 201 201 201 401 401", {"channel": "web"}),
    ],
    "api/agent-sessions/<str:session_id>": [
        Row("DELETE", "/api/agent-sessions/{agent}", "401 404 204 404 404 401 401", hides=True),
    ],
    "api/schema": [Row("GET", "/api/schema", "200 200 200 200 200 401 401")],
}

ENDPOINTS: dict[str, list[Row]] = {
    "healthz": [Row("GET", "/healthz", "200 200 200 200 200 200 200")],
    # 503: no worker runs in this test.
    "readyz": [Row("GET", "/readyz", "503 503 503 503 503 503 503")],
    "metrics": [Row("GET", "/metrics", "401 401 401 401 401 401 401")],
    "inbound": [
        Row("POST", "/inbound", "401 202 202 202 202 401 400", ASK),
        Row("POST", "/inbound", "401 404 202 404 404 401 400", ASK_HERE, hides=True),
    ],
    "inbound/result": [
        Row("GET", "/inbound/result?run_id={run}", "401 404 202 404 404 401 404", hides=True),
    ],
    "inbound/cancel": [
        Row(
            "POST",
            "/inbound/cancel",
            "401 404 200 404 404 401 404",
            {"run_id": "{run}"},
            hides=True,
        ),
    ],
    "runs/<str:run_id>/events": [
        Row("GET", "/runs/{run}/events", "401 404 200 404 404 401 404", hides=True),
    ],
    "v1/chat/completions": [
        Row("POST", "/v1/chat/completions", "401 200 200 200 200 401 400", CHAT),
    ],
    "v1/messages": [Row("POST", "/v1/messages", "401 200 200 200 200 401 400", MESSAGE)],
    "v1/messages/count_tokens": [
        Row("POST", "/v1/messages/count_tokens", "401 200 200 200 200 401 200", MESSAGE),
    ],
    r"(?s)^v1/messages/.*$": [Row("GET", "/v1/messages/none", "404 404 404 404 404 404 404")],
    "v1/embeddings": [
        Row("POST", "/v1/embeddings", "401 404 404 404 404 401 403", {"model": "x", "input": "x"}),
    ],
    "v1/audio/speech": [
        Row("POST", "/v1/audio/speech", "401 404 404 404 404 401 403", {"model": "x", "input": "x"})
    ],
    "v1/audio/transcriptions": [
        Row("POST", "/v1/audio/transcriptions", "401 415 415 415 415 401 403", {"model": "x"}),
    ],
    "v1/audio/translations": [
        Row("POST", "/v1/audio/translations", "401 415 415 415 415 401 403", {"model": "x"}),
    ],
    "v1/responses": [
        Row("POST", "/v1/responses", "401 200 200 200 200 401 400", RESPOND),
        Row("POST", "/v1/responses", "401 404 200 404 404 401 400", FOLLOW, hides=True),
    ],
    r"^v1/responses/(?:compact|input_tokens)$": [
        Row("POST", "/v1/responses/compact", "404 404 404 404 404 404 404"),
    ],
    "v1/responses/<str:response>": [
        Row("GET", "/v1/responses/{response}", "401 404 200 404 404 401 404", hides=True),
        Row("DELETE", "/v1/responses/{response}", "401 404 200 404 404 401 404", hides=True),
    ],
    "v1/responses/<str:response>/cancel": [
        Row("POST", "/v1/responses/{response}/cancel", "401 404 200 404 404 401 404", hides=True),
    ],
    "v1/responses/<str:response>/input_items": [
        Row(
            "GET", "/v1/responses/{response}/input_items", "401 404 200 404 404 401 404", hides=True
        ),
    ],
    "v1/models": [Row("GET", "/v1/models", "401 200 200 200 200 401 200")],
    "v1/models/<path:name>": [Row("GET", "/v1/models/default", "401 200 200 200 200 401 200")],
    r"(?s)^/*v1(?:/.*)?$": [Row("GET", "/v1/none", "404 404 404 404 404 404 404")],
    r"^/*(?:(?:(?:api/|openai/)?v1/|openai/)?"
    r"(?:(?:chat/)?completions|responses|messages|models|embeddings|audio/[a-z]+)"
    r"|api/chat/completions)/?$": [Row("GET", "/models", "404 404 404 404 404 404 404")],
    r"^telegram/(?P<name>.{1,64})/webhook$": [
        Row("POST", "/telegram/bot/webhook", "403 403 403 403 403 403 403", UPDATE),
        Row("POST", "/telegram/bot/webhook", "200 200 200 200 200 200 200", UPDATE, WEBHOOK),
        Row("POST", "/telegram/none/webhook", "404 404 404 404 404 404 404", UPDATE, WEBHOOK),
    ],
    r"^channels/(?P<channel>[^/]{1,64})/(?P<name>.{1,64})/webhook$": [
        # A channel whose gateway takes no calls; tests/channels_app/intake has one that does.
        Row("POST", "/channels/bridge/mail/webhook", "404 404 404 404 404 404 404", UPDATE),
        Row("POST", "/channels/none/mail/webhook", "404 404 404 404 404 404 404", UPDATE),
    ],
    "process": [
        # A bridge of its own key; this one has no callback, so nothing is taken.
        Row("POST", "/process", "401 403 403 403 403 401 409", {"user_id": "x", "text": "hi"}),
    ],
    r"^mcp/?$": [
        Row("GET", "/mcp", "405 405 405 405 405 405 405"),
        Row("POST", "/mcp", "401 200 200 200 200 401 403", RPC, ACCEPT),
        Row("POST", "/mcp/", "401 200 200 200 200 401 403", RPC, ACCEPT),
    ],
    "files": [
        Row("POST", "/files?name=a.txt", "401 201 201 201 201 401 403", {"some": "bytes"}),
    ],
    "files/out": [
        Row("GET", "/files/out?token=guessed", "403 403 403 403 403 403 403"),
    ],
    "files/<str:file_id>": [
        Row("GET", "/files/{file}", "401 404 200 404 404 401 403", hides=True),
        Row("DELETE", "/files/{file}", "401 404 200 404 404 401 403", hides=True),
    ],
    "ag-ui": [Row("POST", "/ag-ui", "401 200 200 200 200 401 403", AG_UI)],
    "ag-ui/<str:thread>/stream": [
        Row("GET", "/ag-ui/{session}/stream", "401 404 200 404 404 401 403", hides=True),
    ],
    "ag-ui/<str:thread>/stop": [
        Row("POST", "/ag-ui/{session}/stop", "401 200 200 200 200 401 403", hides=True),
    ],
    "ui/chat": [Row("POST", "/ui/chat", "401 200 200 200 200 401 403", UI)],
    # The run of ``own``'s session: other users' resume or stop does not find it.
    "ui/chat/<str:chat>/stream": [
        Row("GET", "/ui/chat/{session}/stream", "401 204 200 204 204 401 403", hides=True),
    ],
    "ui/chat/<str:chat>/stop": [
        Row("POST", "/ui/chat/{session}/stop", "401 200 200 200 200 401 403", hides=True),
    ],
}

SOCKET_WHO = ("anonymous", "other", "own", "owner", "revoked", "bridge")
SAY_HERE = {"type": "message", "text": "hi", "client_id": "c", "session_id": "{session}"}
CLOSED = "closed 4401"
# Frame class -> the frames that are sent and what each of SOCKET_WHO gets: the types of the frames
# that come back, with the status of an error, or the code of the close.
FRAMES: dict[str, list[tuple[dict[str, Any], list[str]]]] = {
    "Say": [
        (
            {"type": "message", "text": "hi", "client_id": "c"},
            [CLOSED, "accepted", "accepted", "accepted", CLOSED, "error 403"],
        ),
        (SAY_HERE, [CLOSED, "error 404", "accepted", "error 404", CLOSED, "error 403"]),
        (
            {"text": "hi", "user_id": "stranger"},
            [CLOSED, "", "", "", CLOSED, "401"],
        ),
    ],
    "Stop": [
        (
            {"type": "stop", "run_id": "{run}"},
            [CLOSED, "error 404", "", "error 404", CLOSED, "error 403"],
        )
    ],
    "Resume": [
        (
            {"type": "resume", "run_id": "{run}", "after": 0},
            [CLOSED, "error 404", "event retrieval", "error 404", CLOSED, "error 403"],
        )
    ],
    "Decide": [
        (
            {"type": "decide", "request": "{request}", "verdict": "deny"},
            [CLOSED, "error 404", "error 404", "notice", CLOSED, "error 404"],
        )
    ],
    "DecideCall": [
        (
            {"type": "decide", "tool_call": "{call}", "digest": "{digest}", "choice": "deny"},
            [CLOSED, "error 404", "error 404", "notice", CLOSED, "error 404"],
        )
    ],
    "Auth": [
        (
            {"type": "auth", "key": "lk_000000000000_" + "x" * 43},
            ["error 401 " + CLOSED, *["error 400"] * 3, CLOSED, "error 400"],
        )
    ],
    "Visible": [({"type": "visible", "visible": True}, [CLOSED, "", "", "", CLOSED, ""])],
    "Shown": [({"type": "shown", "cards": []}, [CLOSED, "", "", "", CLOSED, ""])],
    "Ping": [({"type": "ping"}, [CLOSED, "pong", "pong", "pong", CLOSED, "pong"])],
}

# Every tool of the MCP server, called with the session of ``own``; then what each of gateway.WHO
# gets: the status of a refused request, else that of the tool's own answer. For ``other`` an error
# must be the one for a session or file that does not exist.
TOOL_STATUSES = "401 error {own} error error 401 403"
TOOLS: dict[str, tuple[dict[str, Any], str]] = {
    "send_result": ({"content": "done"}, TOOL_STATUSES.format(own="success")),
    "send_file": ({"file_id": "{file}"}, TOOL_STATUSES.format(own="success")),
    # Only one's own sessions are listed, so there is nothing that could not exist.
    "list_sessions": ({}, "401 success success success success 401 403"),
    "wait_for_reply": ({"timeout_seconds": 0}, TOOL_STATUSES.format(own="timeout")),
}

# Path of a socket -> who may open it with a cookie, and the frames that it takes besides pings.
SAID_TO_CHAT = {"message", "stop", "resume", "decide", "auth", "visible", "shown"}
SOCKETS = {
    "/ws": ({"other", "own", "staff", "owner"}, SAID_TO_CHAT),
    "/ws/desk": ({"owner"}, set[str]()),
}

# Every action of an admin page -> whether staff who may only look at that page are offered it.
ACTIONS: dict[str, dict[str, bool]] = {
    "core.Run": {"cancel": False, "let_go": False},
    "core.Delivery": {"retry": False, "dismiss": False},
    "core.StoredFile": {"take_back": False},
    "core.Job": {"cancel": False},
    "core.Schedule": {"pause": False, "resume": False, "end": False},
    "core.Skill": {"switch_on": False, "switch_off": False},
    "core.ChannelAccount": {"test_connection": False, "delete_selected": False},
    "core.User": {"delete_selected": False},
    "core.ChatSession": {"open_for_agent": False, "close": False},
    "core.InboundMessage": {"read_again": False},
    "allowlist.ApiKey": {"revoke": False},
    "allowlist.UnknownRequest": {
        "approve": False,
        "approve_24h": False,
        "deny": False,
        "block": False,
        "unblock": False,
    },
    "allowlist.BlockPattern": {"delete_selected": False},
    "core.ToolGrant": {"revoke": False},
    "core.ToolRule": {"delete_selected": False},
    "core.RetentionRule": {"delete_selected": False},
    "core.Assistant": {"delete_selected": False},
    "core.Budget": {"delete_selected": False},
    "core.LanguageModel": {"delete_selected": False},
    "core.McpServer": {"delete_selected": False},
    "core.ModelProvider": {"delete_selected": False},
    "core.SearchProvider": {"delete_selected": False},
    "axes.AccessAttempt": {"delete_selected": False},
}
