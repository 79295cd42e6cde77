"""The lean routes of this door."""

from channels_app.asgi.router import Route
from channels_app.bridge import views

ROUTES = [Route(r"/process", views.process, methods=("POST",))]
