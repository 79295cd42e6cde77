"""The lean routes of this door."""

from channels_app.asgi.router import Route
from channels_app.ui_stream import endpoints

ROUTES = [
    Route(r"/ui/chat", endpoints.chat, methods=("POST",)),
    Route(r"/ui/chat/[^/]+/stream", endpoints.resume, methods=("GET",)),
    Route(r"/ui/chat/[^/]+/stop", endpoints.stop, methods=("POST",)),
]
