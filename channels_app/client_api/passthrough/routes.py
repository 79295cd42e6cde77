"""The routes of what is passed through, for Channels' ``URLRouter``; they stand before OpenAI's."""

from django.urls import path

from channels_app.client_api.passthrough import endpoints

ROUTES = [
    path("v1/embeddings", endpoints.Embeddings.as_asgi()),
    path("v1/audio/speech", endpoints.Speech.as_asgi()),
    path("v1/audio/transcriptions", endpoints.Transcriptions.as_asgi()),
    path("v1/audio/translations", endpoints.Translations.as_asgi()),
]
