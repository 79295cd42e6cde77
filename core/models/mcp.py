"""Servers of the Model Context Protocol whose tools the assistant may use, and those tools."""

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Coalesce

from core.lib.encryption import decrypt
from core.lib.ids import public_id
from core.lib.text import visible_line
from core.models.language_models import Assistant
from core.models.people import User

SLUG = RegexValidator(r"^[a-z0-9][a-z0-9-]*$", "Small letters, digits and hyphens only.")


class McpServer(models.Model):
    """A server that speaks the protocol over Streamable HTTP.

    ``slug`` is a part of the names of its tools. ``secrets``: encrypted; ``key`` is sent in
    ``key_header``, where that is empty as a bearer token; ``client_secret`` belongs to
    ``client_id``, the client that the owner has registered for OAuth. ``registration``: encrypted;
    the client that the gateway has registered itself. ``people``, ``assistants``: those that
    may use its tools; empty for all. ``protocol``: the version that was negotiated last.
    ``listed_at``: when its list of tools was read, or tried to be, last.
    """

    class Authentication(models.TextChoices):
        KEY = "key", "none, or a key"
        GATEWAY = "gateway", "OAuth: one account, that of the gateway"
        PERSON = "person", "OAuth: each person with their own account"

    name = models.CharField(max_length=64, unique=True)
    slug = models.CharField("short name", max_length=24, unique=True, validators=[SLUG])
    url = models.CharField("address", max_length=500)
    secrets = models.TextField(blank=True, editable=False, help_text="Encrypted; never shown.")
    key_header = models.CharField("header of the key", max_length=64, blank=True)
    authentication = models.CharField(
        max_length=8, choices=Authentication.choices, default=Authentication.KEY, db_default="key"
    )
    client_id = models.CharField("client id", max_length=500, blank=True, db_default="")
    registration = models.TextField(blank=True, editable=False, db_default="")
    allow_private = models.BooleanField("the address may be inside the network", default=False)
    seconds = models.PositiveIntegerField("seconds for a call", default=60)
    enabled = models.BooleanField(default=True)
    assistants = models.ManyToManyField(Assistant, blank=True, related_name="+")
    people = models.ManyToManyField(User, blank=True, related_name="+")
    protocol = models.CharField(max_length=16, blank=True, editable=False)
    check_result = models.CharField(max_length=500, blank=True, editable=False)
    checked_at = models.DateTimeField(null=True, blank=True, editable=False)
    listed_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "MCP server"

    def __str__(self) -> str:
        return visible_line(self.name, 64)

    def open_secrets(self) -> dict[str, str]:
        """Return the decrypted secrets. Raises DecryptError when the key was changed."""
        return decrypt(self.secrets)


class McpTool(models.Model):
    """A tool of a server.

    new (``accepted_hash`` empty) -> accepted -> changed (the hashes differ) -> accepted
    gone (``offered_hash`` empty) <- and back, whatever it was

    ``title``, ``description``, ``schema``, ``read_only`` and ``idempotent`` are as the owner has
    accepted them, ``accepted_hash`` is of these; ``offered`` and ``offered_hash`` are the server's
    last description. It is offered to models while it is enabled and both hashes are the same.
    ``call_name``: its name for models.
    """

    class Ask(models.TextChoices):
        NEVER = "never", "do not ask"
        FIRST = "first", "ask the first time for each person"
        ALWAYS = "always", "ask every time"

    server = models.ForeignKey(McpServer, on_delete=models.CASCADE, related_name="tools")
    name = models.CharField(max_length=200)
    call_name = models.CharField(max_length=64, unique=True, editable=False)
    title = models.CharField(max_length=200, blank=True)
    description = models.TextField(blank=True)
    schema = models.JSONField(default=dict, blank=True)
    read_only = models.BooleanField(default=False)
    idempotent = models.BooleanField(default=False)
    accepted_hash = models.CharField(max_length=64, blank=True, editable=False)
    accepted_at = models.DateTimeField(null=True, blank=True, editable=False)
    offered = models.JSONField(default=dict, blank=True, editable=False)
    offered_hash = models.CharField(max_length=64, blank=True, editable=False)
    enabled = models.BooleanField(default=False)
    ask = models.CharField(max_length=8, choices=Ask.choices, default=Ask.ALWAYS)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "tool of an MCP server"
        verbose_name_plural = "tools of MCP servers"
        constraints = [
            models.UniqueConstraint(fields=["server", "name"], name="one_tool_of_a_server")
        ]

    def __str__(self) -> str:
        return visible_line(self.name, 80)

    @property
    def state(self) -> str:
        """Return "gone", "new", "changed" or "accepted"."""
        if not self.offered_hash:
            return "gone"
        if not self.accepted_hash:
            return "new"
        return "accepted" if self.accepted_hash == self.offered_hash else "changed"


class McpFinding(models.Model):
    """Something about a server that the owners are told once: ``key`` names it.

    ``reported_at``: when the notice was queued.
    """

    server = models.ForeignKey(McpServer, on_delete=models.CASCADE, related_name="findings")
    key = models.CharField(max_length=150)
    text = models.CharField(max_length=500)
    created_at = models.DateTimeField(auto_now_add=True)
    reported_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["server", "key"], name="one_finding_of_a_server")
        ]
        indexes = [
            models.Index(
                fields=["server"],
                condition=Q(reported_at__isnull=True),
                name="unreported_findings",
            )
        ]

    def __str__(self) -> str:
        return visible_line(self.text, 120)


class McpConnection(models.Model):
    """The account of a person at a server, or of the gateway (without ``user``).

    connected -> (refreshed: ``version`` + 1) -> ended (empty ``secrets``) -> connected by a sign-in

    ``secrets``: encrypted; the tokens, and what refreshing them needs. ``scope``: as it was asked
    for. ``refreshing_until``: the lease of the worker that refreshes. ``proven_at``: when a call
    was accepted with it; ``repeated``: further sign-ins without one. ``refused_at``: when the
    server did not accept a new sign-in.
    """

    server = models.ForeignKey(McpServer, on_delete=models.CASCADE, related_name="connections")
    user = models.ForeignKey(
        User, null=True, blank=True, on_delete=models.CASCADE, related_name="mcp_connections"
    )
    secrets = models.TextField(blank=True, editable=False)
    scope = models.TextField(blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    version = models.PositiveIntegerField(default=0)
    refreshing_until = models.DateTimeField(null=True, blank=True)
    proven_at = models.DateTimeField(null=True, blank=True)
    refused_at = models.DateTimeField(null=True, blank=True)
    repeated = models.PositiveSmallIntegerField(default=0)
    connected_at = models.DateTimeField()

    class Meta:
        verbose_name = "account at an MCP server"
        verbose_name_plural = "accounts at MCP servers"
        constraints = [
            models.UniqueConstraint(
                F("server"), Coalesce("user", 0), name="one_connection_of_a_person"
            )
        ]

    def __str__(self) -> str:
        return f"{visible_line(str(self.user or 'the gateway'), 60)} at {self.server}"


class McpSignIn(models.Model):
    """A request that ``user`` signs in at a server; ``of_gateway``: for the gateway, as its owner.

    open -> (link opened: ``state_hash``) -> exchanging -> done; open again when the link is opened
    again; open -> ended (declined, taken back)

    ``scope`` and ``resource_metadata``: as the server has demanded. ``secrets``: encrypted; for
    the exchange of the code. ``browser_hash``: of the cookie of the browser that goes there.
    """

    class State(models.TextChoices):
        OPEN = "open"
        EXCHANGING = "exchanging"
        DONE = "done"
        ENDED = "ended"

    public_id = models.CharField(max_length=32, unique=True, default=public_id, editable=False)
    server = models.ForeignKey(McpServer, on_delete=models.CASCADE, related_name="sign_ins")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    of_gateway = models.BooleanField(default=False)
    scope = models.TextField(blank=True)
    resource_metadata = models.CharField(max_length=2000, blank=True)
    state = models.CharField(max_length=16, choices=State.choices, default=State.OPEN)
    state_hash = models.CharField(max_length=64, null=True, unique=True)  # noqa: DJ001 - unique
    browser_hash = models.CharField(max_length=64, blank=True)
    secrets = models.TextField(blank=True, editable=False)
    expires_at = models.DateTimeField(db_index=True)
    created_at = models.DateTimeField(auto_now_add=True)
    done_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "sign-in at an MCP server"
        verbose_name_plural = "sign-ins at MCP servers"

    def __str__(self) -> str:
        return f"{self.user} at {self.server} ({self.state})"


class McpRevocation(models.Model):
    """Tokens to revoke at their server, whose connection is gone. ``secrets``: encrypted."""

    secrets = models.TextField(editable=False)
    allow_private = models.BooleanField(default=False)
    attempts = models.PositiveSmallIntegerField(default=0)
    due_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"revocation {self.pk}"
