"""A server's row as the client needs it, without the database; its end with its last user."""

import logging
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.db.models.signals import pre_delete

from core.database.transactions import atomic_write
from core.models import Assistant, McpServer, User
from core.providers import catalogue

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """A row of ``McpServer``; ``secrets`` are encrypted. Empty sets of ids: no limit to any."""

    id: int
    name: str
    url: str
    secrets: str
    key_header: str
    allow_private: bool
    seconds: int
    protocol: str
    authentication: str = McpServer.Authentication.KEY
    people: frozenset[int] = frozenset()
    assistants: frozenset[int] = frozenset()

    @property
    def is_of_gateway(self) -> bool:
        """Return whether the gateway has one account at it."""
        return self.authentication == McpServer.Authentication.GATEWAY

    @property
    def signs_in(self) -> bool:
        """Return whether its calls need a token of OAuth."""
        return self.authentication != McpServer.Authentication.KEY


def info_of(row: McpServer) -> ServerInfo:
    """Return a row. Reads its people and assistants."""
    return catalogue.of_row(
        ServerInfo,
        row,
        name=str(row),
        people=frozenset(each.pk for each in row.people.all()),
        assistants=frozenset(each.pk for each in row.assistants.all()),
    )


def disable_without(row: User | Assistant, *others: User | Assistant) -> list[McpServer]:
    """Disable the servers that only this person, or this assistant, may use, or ``others`` that go
    too, and return them: with the rows deleted, they would be open to all. Before their other rows
    are locked.
    """
    name = "people" if isinstance(row, User) else "assistants"
    going = [each.pk for each in (row, *others)]
    with atomic_write(joins=True):
        rows = McpServer.objects.select_for_update(of=("self",)).filter(enabled=True, **{name: row})
        found = [
            each
            for each in rows.order_by("pk")
            if not getattr(each, name).exclude(pk__in=going).exists()
        ]
        for server in found:
            server.enabled = False
            server.save(update_fields=["enabled"])
            logger.warning("MCP server %s is disabled: none of its %s is left", server.pk, name)
    return found


def connect_signals() -> None:
    """Leave no server open to all when a person or an assistant is deleted, in whatever way."""

    def going(instance: User | Assistant, origin: Any = None, **_: Any) -> None:
        # Of several, all are told of before the first is deleted.
        is_query = isinstance(origin, QuerySet) and origin.model is type(instance)
        disable_without(instance, *(origin if is_query else ()))

    for model in (User, Assistant):
        uid = f"mcp servers of {model.__name__}"
        pre_delete.connect(going, sender=model, weak=False, dispatch_uid=uid)
