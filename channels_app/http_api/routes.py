"""The routes of ``/inbound`` and of runs, for Channels' ``URLRouter``."""

from django.urls import path

from channels_app.http_api import endpoints

ROUTES = [
    path("inbound", endpoints.Inbound.as_asgi()),
    path("inbound/result", endpoints.Result.as_asgi()),
    path("inbound/cancel", endpoints.Cancel.as_asgi()),
    path("runs/<str:run_id>/events", endpoints.RunEvents.as_asgi()),
]
