"""The Django app that holds conversations."""

from django.apps import AppConfig


class CoreConfig(AppConfig):
    """Conversations: sessions, messages, runs, events, deliveries."""

    name = "core"
    verbose_name = "Conversations"
