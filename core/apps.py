"""The Django app that holds conversations."""

from django.apps import AppConfig

from core.database import schema_version


class CoreConfig(AppConfig):
    """Conversations: sessions, messages, runs, events, deliveries."""

    name = "core"
    verbose_name = "Conversations"

    def ready(self) -> None:
        """Read the migrations on disk now: files of a later deployment are not this code's."""
        schema_version.own()
