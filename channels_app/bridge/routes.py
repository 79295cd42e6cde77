"""The lean routes of this door."""

from channels_app.asgi.router import Route
from channels_app.bridge import endpoints

ROUTES = [Route(r"/process", endpoints.process, methods=("POST",))]
