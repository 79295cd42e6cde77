"""The Django app of the channels."""

from django.apps import AppConfig


class ChannelsAppConfig(AppConfig):
    """Endpoints, channels and the commands that run the gateway."""

    name = "channels_app"
    verbose_name = "Channels"
