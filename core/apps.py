"""The Django app that holds conversations."""

from importlib import import_module

from django.apps import AppConfig


class CoreConfig(AppConfig):
    """Conversations: sessions, messages, runs, events, deliveries."""

    name = "core"
    verbose_name = "Conversations"

    def ready(self) -> None:
        """Note which migrations are on disk now: what a deployment adds later is not ours."""
        import_module("core.database.schema_version").own()
