"""The URL of the webhooks of all channels but Telegram's, which has one of its own."""

from django.urls import re_path

from channels_app.intake import webhook

urlpatterns = [
    re_path(
        r"^channels/(?P<channel>[^/]{1,64})/(?P<name>.{1,64})/webhook$",
        webhook.webhook,
    ),
]
