"""The lean routes of this door."""

from channels_app.asgi.router import Route
from channels_app.ui_stream import views

ROUTES = [
    Route(r"/ui/chat", views.chat, methods=("POST",)),
    Route(r"/ui/chat/[^/]+/stream", views.resume, methods=("GET",)),
    Route(r"/ui/chat/[^/]+/stop", views.stop, methods=("POST",)),
]
