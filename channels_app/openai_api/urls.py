"""The lean routes of this door."""

from channels_app.asgi.router import Route
from channels_app.openai_api import errors, views

ROUTES = [
    Route(r"/v1/chat/completions", views.chat_completions, errors.plain, ("POST",)),
    Route(r"/v1/models", views.models, errors.plain, ("GET",)),
    Route(r"/v1/models/.+", views.model, errors.plain, ("GET",)),
    Route(r"/v1(/.*)?", views.unknown, errors.plain),
]
