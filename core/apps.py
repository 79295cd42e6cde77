"""The Django app that holds conversations."""

from django.apps import AppConfig
from django.db import DEFAULT_DB_ALIAS
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate, pre_migrate

from core.database import schema_version, text_search, transactions


class CoreConfig(AppConfig):
    """Conversations: sessions, messages, runs, events, deliveries."""

    name = "core"
    verbose_name = "Gateway"

    def ready(self) -> None:
        """Read the migrations on disk now: files of a later deployment are not this code's."""
        schema_version.own()
        from core.providers import catalogue  # noqa: PLC0415 - models are ready here only
        from core.tools.mcp import servers  # noqa: PLC0415
        from core.tools.mcp.oauth import connections  # noqa: PLC0415

        connection_created.connect(transactions.limit_idle_transactions)
        catalogue.connect_signals()
        connections.connect_signals()
        servers.connect_signals()
        pre_migrate.connect(before_migrations, sender=self)
        post_migrate.connect(after_migrations, sender=self)


def before_migrations(*, using: str, **_: object) -> None:
    """Let the migrations replace tables that the search refers to."""
    if using == DEFAULT_DB_ALIAS:
        text_search.release()


def after_migrations(*, using: str, **_: object) -> None:
    """Create what the search needs."""
    if using == DEFAULT_DB_ALIAS:
        text_search.prepare()
