"""Unknown requests and patterns, API keys, one-time links and codes, and the audit trail."""

from collections.abc import Iterable
from datetime import datetime

from django.conf import settings
from django.db import models
from django.db.models import Q

from core.lib.ids import public_id
from core.lib.text import visible_line
from core.models import ChannelAccount, ChannelIdentity


class UnknownRequest(models.Model):
    """A sender that no user matched ([A5]): one row per (account, kind, sender).

    pending -> approved | denied | blocked | expired. The first decision wins ([A6]); expired and
    denied go back to pending when the sender writes again; blocked does not, until an owner
    unblocks it: then it is expired.

    ``notice_at``: when a notice was queued for the owners; ``notified_at``: when one was delivered
    or displayed to an owner, or when an owner decided without one, which silences later notices.
    Unblocking clears both.
    """

    class State(models.TextChoices):
        PENDING = "pending"
        APPROVED = "approved"
        DENIED = "denied"
        BLOCKED = "blocked"
        EXPIRED = "expired"

    public_id = models.CharField(max_length=32, unique=True, default=public_id, editable=False)
    account = models.ForeignKey(ChannelAccount, on_delete=models.CASCADE)
    kind = models.CharField(max_length=8, choices=ChannelIdentity.Kind.choices)
    sender = models.CharField(max_length=320)
    sender_name = models.CharField(max_length=200, blank=True)
    chat = models.CharField(max_length=128, blank=True)
    is_group = models.BooleanField(default=False, help_text="The sender is a group's id.")
    state = models.CharField(max_length=16, choices=State.choices, default=State.PENDING)
    count = models.PositiveIntegerField(default=0)
    last_text = models.CharField(max_length=200, blank=True)
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    notice_at = models.DateTimeField(null=True, blank=True)
    notified_at = models.DateTimeField(null=True, blank=True)
    answered_at = models.DateTimeField(null=True, blank=True)
    decided_at = models.DateTimeField(null=True, blank=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    decided_via = models.CharField(max_length=32, blank=True)
    granted_user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["account", "kind", "sender"], name="one_request_a_sender"
            )
        ]
        indexes = [
            models.Index(
                fields=["-last_seen_at"], condition=Q(state="pending"), name="pending_requests"
            ),
            models.Index(fields=["-last_seen_at", "-id"], name="requests_by_time"),
            # During a flood only a few cause a notice or a reply: checked for every message.
            models.Index(
                fields=["notice_at"],
                condition=Q(notice_at__isnull=False),
                name="told_requests",
            ),
            # Requests without a confirmed notice: queried at every sweep.
            models.Index(
                fields=["notice_at"],
                condition=Q(state="pending", notice_at__isnull=False, notified_at__isnull=True),
                name="untold_requests",
            ),
            models.Index(
                fields=["answered_at"],
                condition=Q(answered_at__isnull=False),
                name="answered_requests",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind}:{self.sender} ({self.state})"


class ApiKey(models.Model):
    """A key of one user, or of one bridge account ([A10]). Stored as a hash; shown once."""

    class Scope(models.TextChoices):
        CHAT = "chat", "chat"
        INBOUND = "inbound", "POST /inbound"
        SEND_RESULT = "send_result", "send results (MCP)"
        ADMIN_REQUESTS = "admin:requests", "decide unknown requests"

    # Set on an instance that was just made, for the page that shows it; never stored.
    token: str = ""

    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16, unique=True, editable=False)
    digest = models.CharField(max_length=64, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="api_keys",
    )
    account = models.ForeignKey(ChannelAccount, null=True, blank=True, on_delete=models.CASCADE)
    scopes = models.JSONField(default=list)
    model_only = models.BooleanField(
        default=False,
        db_default=False,
        help_text=(
            "For coding agents with instructions and tools of their own: at /v1 the assistant's "
            "models answer, without its instructions and tools."
        ),
    )
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "API key"
        indexes = [
            models.Index(
                fields=["expires_at"],
                condition=Q(expires_at__isnull=False, revoked_at__isnull=True),
                name="keys_by_expiry",
            )
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(user__isnull=False, account__isnull=True)
                | Q(user__isnull=True, account__isnull=False),
                name="key_of_a_person_or_a_bridge",
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} (lk_{self.prefix}…)"

    def is_usable(self, now: datetime) -> bool:
        """Return whether it is neither revoked nor expired, and its person or account is active."""
        if self.revoked_at is not None or (self.expires_at is not None and self.expires_at <= now):
            return False
        if self.user is not None:
            return self.user.is_active
        return self.account is not None and self.account.enabled

    @classmethod
    def usable_of(cls, numbers: Iterable[int], now: datetime) -> set[int]:
        """Return which of these keys are still valid; long connections ask again ([A9])."""
        found = cls.objects.select_related("user", "account").in_bulk(numbers)
        return {number for number, key in found.items() if key.is_usable(now)}


class SignInLink(models.Model):
    """A one-time link that signs a user in; only a hash of its token is stored."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)
    refusals = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"sign-in of {self.user_id}"


class BlockPattern(models.Model):
    """A pattern of denied senders: no row, no notice, no held message; only ``hits`` counts.

    ``*`` matches any text and ``?`` one character of the normalised sender ([A2]). It is checked
    for denied senders only: it never affects a listed sender.
    """

    kind = models.CharField(
        max_length=8,
        blank=True,
        choices=[("", "any kind"), *ChannelIdentity.Kind.choices],
        help_text="Empty: every kind.",
    )
    account = models.ForeignKey(
        ChannelAccount,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        help_text="Empty: every account.",
    )
    pattern = models.CharField(
        max_length=200, help_text="For example *@spam.example or +44900*. * is anything, ? is one."
    )
    note = models.CharField(max_length=200, blank=True)
    hits = models.PositiveIntegerField(default=0, editable=False)
    last_hit_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="+",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return visible_line(f"{self.kind or 'any'}:{self.pattern}", 200)


class LinkCode(models.Model):
    """A code that a user sends on another channel to link it; stored as a hash.

    open -> used once | expired. Creating a new one ends the user's open ones, and so does a change
    of an identity by an owner.
    ``identity_expires_at``: the expiry of the requesting identity; the linked identity has the
    same.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    expires_at = models.DateTimeField()
    identity_expires_at = models.DateTimeField(null=True, blank=True)
    used_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"link code of {self.user_id}"


class LinkAttempt(models.Model):
    """A wrong code: counted for an hour, per sender and per account."""

    account = models.ForeignKey(ChannelAccount, on_delete=models.CASCADE)
    kind = models.CharField(max_length=8)
    sender = models.CharField(max_length=320)
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["account", "at"], name="link_attempts_by_age")]

    def __str__(self) -> str:
        return f"{self.kind}:{self.sender}"


class AuditEntry(models.Model):
    """One row of the append-only audit, written in the transaction of the recorded change."""

    at = models.DateTimeField()
    actor = models.CharField(max_length=200, blank=True)
    action = models.CharField(max_length=64)
    subject = models.CharField(max_length=400, blank=True)
    data = models.JSONField(default=dict)
    previous = models.CharField(max_length=64, blank=True)
    digest = models.CharField(max_length=64)

    class Meta:
        verbose_name_plural = "audit entries"
        indexes = [models.Index(fields=["action", "-id"])]

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.subject}"
