"""The lean routes of this door."""

from channels_app.asgi.router import Route
from channels_app.openai_api import endpoints, errors

ROUTES = [
    Route(r"/v1/chat/completions", endpoints.chat_completions, errors.plain, ("POST",)),
    Route(r"/v1/models", endpoints.models, errors.plain, ("GET",)),
    Route(r"/v1/models/.+", endpoints.model, errors.plain, ("GET",)),
    Route(r"/v1(/.*)?", endpoints.unknown, errors.plain),
]
