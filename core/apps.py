"""The Django app that holds conversations."""

from django.apps import AppConfig

from core.database import schema_version


class CoreConfig(AppConfig):
    """Conversations: sessions, messages, runs, events, deliveries."""

    name = "core"
    verbose_name = "Conversations"

    def ready(self) -> None:
        """Note which migrations are on disk now: what a deployment adds later is not ours."""
        schema_version.own()
