"""The lean routes of this door."""

from channels_app.asgi.router import Route
from channels_app.mcp import views

ROUTES = [Route(r"/mcp/?", views.mcp, error_body=views.error_body, methods=("POST",))]
