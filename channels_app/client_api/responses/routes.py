"""The routes of ``/v1/responses``, for Channels' ``URLRouter``."""

from django.urls import path

from channels_app.client_api.responses import endpoints

ROUTES = [
    path("v1/responses", endpoints.Responses.as_asgi()),
    path("v1/responses/<str:response>", endpoints.Response.as_asgi()),
    path("v1/responses/<str:response>/cancel", endpoints.Cancel.as_asgi()),
    path("v1/responses/<str:response>/input_items", endpoints.InputItems.as_asgi()),
]
