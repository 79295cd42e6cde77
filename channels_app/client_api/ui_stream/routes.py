"""The routes of ``/ui/chat``, for Channels' ``URLRouter``."""

from django.urls import path

from channels_app.client_api.ui_stream import endpoints

ROUTES = [
    path("ui/chat", endpoints.Chat.as_asgi()),
    path("ui/chat/<str:chat>/stream", endpoints.Resume.as_asgi()),
    path("ui/chat/<str:chat>/stop", endpoints.Stop.as_asgi()),
]
