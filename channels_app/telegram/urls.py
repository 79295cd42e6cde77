"""The lean routes of this door."""

from channels_app.asgi.router import Route
from channels_app.telegram import views

ROUTES = [Route(r"/telegram/[A-Za-z0-9_.-]{1,64}/webhook", views.webhook, methods=("POST",))]
