"""The routes of ``/ag-ui``, for Channels' ``URLRouter``."""

from django.urls import path

from channels_app.client_api.ag_ui import endpoints

ROUTES = [
    path("ag-ui", endpoints.Runs.as_asgi()),
    path("ag-ui/<str:thread>/stream", endpoints.Connect.as_asgi()),
    path("ag-ui/<str:thread>/stop", endpoints.Stop.as_asgi()),
]
