"""The routes of all protocols, for Channels' ``URLRouter``."""

from django.urls import path

from channels_app.client_api.ag_ui import routes as ag_ui
from channels_app.client_api.anthropic import endpoints as of_anthropic
from channels_app.client_api.anthropic import routes as anthropic
from channels_app.client_api.by_version import by_version
from channels_app.client_api.openai import endpoints as of_openai
from channels_app.client_api.openai import routes as openai
from channels_app.client_api.passthrough import routes as passthrough
from channels_app.client_api.responses import routes as responses
from channels_app.client_api.ui_stream import routes as ui_stream

# Both APIs have them.
MODELS = [
    path("v1/models", by_version(of_anthropic.Models.as_asgi(), of_openai.Models.as_asgi())),
    path(
        "v1/models/<path:name>",
        by_version(of_anthropic.OneModel.as_asgi(), of_openai.Model.as_asgi()),
    ),
]
ROUTES = [
    *openai.ROUTES,  # the first: the router compares one address after the other
    *ag_ui.ROUTES,
    *ui_stream.ROUTES,
    *responses.ROUTES,
    *anthropic.ROUTES,
    *passthrough.ROUTES,
    *MODELS,
    *openai.REST,  # the last: it answers all that is left of /v1
]
