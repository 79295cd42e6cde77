"""The Django app of the allowlist."""

from django.apps import AppConfig
from django.core.checks import Tags, register


class AllowlistConfig(AppConfig):
    """The rule, unknown requests, keys, the audit."""

    name = "allowlist"
    verbose_name = "Access"

    def ready(self) -> None:
        """Register the system checks; they need the loaded models."""
        from allowlist.checks import open_to_everyone  # noqa: PLC0415 - models are ready only now

        register(open_to_everyone, Tags.security, deploy=True)
