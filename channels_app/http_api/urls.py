"""The lean routes of this door."""

from channels_app.asgi.router import Route
from channels_app.http_api import views

ROUTES = [
    Route(r"/inbound", views.inbound, methods=("POST",)),
    Route(r"/inbound/result", views.result, methods=("GET",)),
    Route(r"/inbound/cancel", views.cancel, methods=("POST",)),
    Route(r"/runs/[^/]+/events", views.run_events, methods=("GET",)),
]
