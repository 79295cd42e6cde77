"""The Django app of the channels."""

from django.apps import AppConfig
from django.conf import settings


class ChannelsAppConfig(AppConfig):
    """Endpoints, channels and the commands that run the gateway."""

    name = "channels_app"
    verbose_name = "Channels"

    def ready(self) -> None:
        """Connect what happens at a sign-out."""
        if "axes" in settings.INSTALLED_APPS:  # a process that serves pages
            from channels_app.webchat import push  # noqa: PLC0415 - models are ready here only

            push.connect_signals()
