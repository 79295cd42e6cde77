"""The routes of chat completions, and of all that is left of ``/v1`` or belongs there."""

from django.urls import path, re_path

from channels_app.client_api.openai import endpoints

MISPLACED = r"^(?:chat/completions|responses|messages|models|embeddings|audio/[a-z]+)/?$"
ROUTES = [path("v1/chat/completions", endpoints.ChatCompletions.as_asgi())]
REST = [
    re_path(r"(?s)^v1(?:/.*)?$", endpoints.Unknown.as_asgi()),
    # Of clients whose base URL lacks /v1.
    re_path(MISPLACED, endpoints.Unknown.as_asgi()),
]
