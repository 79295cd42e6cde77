"""The Django app that holds the doors."""

from django.apps import AppConfig


class ChannelsAppConfig(AppConfig):
    """Doors, channels and the commands that run the gateway."""

    name = "channels_app"
    verbose_name = "Channels"
