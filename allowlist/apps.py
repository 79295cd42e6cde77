"""The Django app that holds who may speak."""

from django.apps import AppConfig


class AllowlistConfig(AppConfig):
    """The rule, unknown requests, keys, the audit."""

    name = "allowlist"
    verbose_name = "Who may speak"
