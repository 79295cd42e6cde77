"""The routes under ``/v1``, for Channels' ``URLRouter``."""

from django.urls import path, re_path

from channels_app.client_api.anthropic import endpoints as anthropic
from channels_app.client_api.by_version import by_version
from channels_app.client_api.openai import endpoints

ROUTES = [
    path("v1/chat/completions", endpoints.ChatCompletions.as_asgi()),
    path("v1/models", by_version(anthropic.Models.as_asgi(), endpoints.Models.as_asgi())),
    path(
        "v1/models/<path:name>",
        by_version(anthropic.OneModel.as_asgi(), endpoints.Model.as_asgi()),
    ),
    re_path(r"(?s)^v1(?:/.*)?$", endpoints.Unknown.as_asgi()),
]
