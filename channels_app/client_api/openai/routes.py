"""The routes of chat completions, and of all that is left of ``/v1`` or belongs there."""

from django.urls import path, re_path

from channels_app.client_api.openai import endpoints

CALLS = "(?:(?:chat/)?completions|responses|messages|models|embeddings|audio/[a-z]+)"
# ``/api/…`` without ``/v1`` is the gateway's own, but for the one call.
MISPLACED = rf"^/*(?:(?:(?:api/|openai/)?v1/|openai/)?{CALLS}|api/chat/completions)/?$"
ROUTES = [path("v1/chat/completions", endpoints.ChatCompletions.as_asgi())]
REST = [
    re_path(r"(?s)^/*v1(?:/.*)?$", endpoints.Unknown.as_asgi()),
    # Of clients whose base URL lacks /v1, ends with a slash, or has another path before /v1.
    re_path(MISPLACED, endpoints.Unknown.as_asgi()),
]
