"""A server's row as the client needs it, without the database."""

from dataclasses import dataclass

from core.models import McpServer
from core.providers import catalogue


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
