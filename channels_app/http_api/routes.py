"""The lean routes of this door."""

from channels_app.asgi.router import Route
from channels_app.http_api import endpoints

ROUTES = [
    Route(r"/inbound", endpoints.inbound, methods=("POST",)),
    Route(r"/inbound/result", endpoints.result, methods=("GET",)),
    Route(r"/inbound/cancel", endpoints.cancel, methods=("POST",)),
    Route(r"/runs/[^/]+/events", endpoints.run_events, methods=("GET",)),
]
