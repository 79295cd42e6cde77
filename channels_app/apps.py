"""The Django app of the channels."""

from importlib import import_module

from django.apps import AppConfig, apps


class ChannelsAppConfig(AppConfig):
    """Doors, channels and the commands that run the gateway."""

    name = "channels_app"
    verbose_name = "Channels"

    def ready(self) -> None:
        """Let drf-spectacular know how keys are described; a worker has none and describes none."""
        if apps.is_installed("drf_spectacular"):
            import_module("channels_app.api.openapi")
