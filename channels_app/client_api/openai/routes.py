"""The routes of chat completions, and of all that is left of ``/v1``."""

from django.urls import path, re_path

from channels_app.client_api.openai import endpoints

ROUTES = [path("v1/chat/completions", endpoints.ChatCompletions.as_asgi())]
REST = [re_path(r"(?s)^v1(?:/.*)?$", endpoints.Unknown.as_asgi())]
