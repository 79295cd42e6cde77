"""The routes of the Messages API, for Channels' ``URLRouter``; they stand before OpenAI's."""

from django.urls import path, re_path

from channels_app.client_api.anthropic import endpoints

ROUTES = [
    path("v1/messages", endpoints.Messages.as_asgi()),
    path("v1/messages/count_tokens", endpoints.CountTokens.as_asgi()),
    re_path(r"(?s)^v1/messages/.*$", endpoints.Unknown.as_asgi()),
]
