"""The values of a sign-in that no log shows: their texts leave the secrets out."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """The gateway as a client of OAuth.

    ``client_id``, ``client_secret``: those that the owner has registered, with the authorization
    server ``issuer`` (empty before the first sign-in); ``metadata_url``: of its
    metadata document, where authorization servers can read it; ``registration``: the client (JSON)
    that was registered last time, and ``is_known``: its server knows it for sure, and is not asked.
    """

    redirect_uri: str
    name: str = "Latchkey"
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    issuer: str = ""
    metadata_url: str = ""
    registration: str = field(default="", repr=False)
    is_known: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A sign-in that has begun. ``address``: for the browser; ``scope``: that is asked for;
    ``kept``: for the exchange of the code; ``issuer``: of the authorization server;
    ``registered``: the client, if it is a new one.
    """

    address: str = field(repr=False)
    state: str = field(repr=False)
    scope: str
    kept: dict[str, str] = field(repr=False)
    issuer: str
    registered: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens of a server. ``seconds``: until the access token ends; None when it does not say."""

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    seconds: int | None
    scope: str
