"""The lean routes of this door."""

from channels_app.lean import Route
from channels_app.ui_stream import views

ROUTES = [
    Route(r"/ui/chat", views.chat),
    Route(r"/ui/chat/[^/]+/stream", views.resume),
    Route(r"/ui/chat/[^/]+/stop", views.stop),
]
