"""The routes of all protocols, for Channels' ``URLRouter``."""

from typing import Any

from django.urls import path, re_path

from channels_app.asgi.http import Receive, Scope, Send
from channels_app.client_api.ag_ui import endpoints as ag_ui
from channels_app.client_api.anthropic import endpoints as anthropic
from channels_app.client_api.openai import endpoints as openai
from channels_app.client_api.passthrough import endpoints as passthrough
from channels_app.client_api.responses import endpoints as responses
from channels_app.client_api.ui_stream import endpoints as ui_stream

CALLS = "(?:(?:chat/)?completions|responses|messages|models|embeddings|audio/[a-z]+)"
# ``/api/…`` without ``/v1`` is the gateway's own, but for the one call.
MISPLACED = rf"^/*(?:(?:(?:api/|openai/)?v1/|openai/)?{CALLS}|api/chat/completions)/?$"


def by_version(theirs: Any, others: Any) -> Any:
    """Return an application: ``theirs`` answers requests with the header ``anthropic-version``,
    which Anthropic's clients send, and ``others`` all else.
    """

    async def choose(scope: Scope, receive: Receive, send: Send) -> None:
        is_theirs = any(name.lower() == b"anthropic-version" for name, _ in scope["headers"])
        await (theirs if is_theirs else others)(scope, receive, send)

    choose.consumer_class = others.consumer_class  # type: ignore[attr-defined]  # as Channels does
    return choose


unknown = by_version(anthropic.Unknown.as_asgi(), openai.Unknown.as_asgi())
UNKNOWN = [
    # All that is left of /v1.
    re_path(r"(?s)^/*v1(?:/.*)?$", unknown),
    # Of clients whose base URL lacks /v1, ends with a slash, or has another path before /v1.
    re_path(MISPLACED, unknown),
]
ROUTES = [
    # The first: the router compares one address after the other.
    path("v1/chat/completions", openai.ChatCompletions.as_asgi()),
    path("ag-ui", ag_ui.Runs.as_asgi()),
    path("ag-ui/<str:thread>/stream", ag_ui.Connect.as_asgi()),
    path("ag-ui/<str:thread>/stop", ag_ui.Stop.as_asgi()),
    path("ui/chat", ui_stream.Chat.as_asgi()),
    path("ui/chat/<str:chat>/stream", ui_stream.Resume.as_asgi()),
    path("ui/chat/<str:chat>/stop", ui_stream.Stop.as_asgi()),
    path("v1/responses", responses.Responses.as_asgi()),
    re_path(r"^v1/responses/(?:compact|input_tokens)$", openai.Unknown.as_asgi()),  # no ids
    path("v1/responses/<str:response>", responses.Response.as_asgi()),
    path("v1/responses/<str:response>/cancel", responses.Cancel.as_asgi()),
    path("v1/responses/<str:response>/input_items", responses.InputItems.as_asgi()),
    path("v1/messages", anthropic.Messages.as_asgi()),
    path("v1/messages/count_tokens", anthropic.CountTokens.as_asgi()),
    re_path(r"(?s)^v1/messages/.*$", anthropic.Unknown.as_asgi()),
    path("v1/embeddings", passthrough.Embeddings.as_asgi()),
    path("v1/audio/speech", passthrough.Speech.as_asgi()),
    path("v1/audio/transcriptions", passthrough.Transcriptions.as_asgi()),
    path("v1/audio/translations", passthrough.Translations.as_asgi()),
    # Both APIs have these two.
    path("v1/models", by_version(anthropic.Models.as_asgi(), openai.Models.as_asgi())),
    path("v1/models/<path:name>", by_version(anthropic.OneModel.as_asgi(), openai.Model.as_asgi())),
    *UNKNOWN,
]
