"""The lean routes of this door."""

from channels_app.http_api import views
from channels_app.lean import Route

ROUTES = [
    Route(r"/inbound", views.inbound),
    Route(r"/inbound/result", views.result),
    Route(r"/inbound/cancel", views.cancel),
    Route(r"/runs/[^/]+/events", views.run_events),
]
