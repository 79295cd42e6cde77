"""The route of ``/mcp``, for Channels' ``URLRouter``."""

from django.urls import re_path

from channels_app.mcp import endpoints

ROUTES = [re_path(r"^mcp/?$", endpoints.Mcp.as_asgi())]
