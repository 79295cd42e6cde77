"""Users, the accounts of channels, and the identities of users."""

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Q

from core.lib.encryption import decrypt


class User(AbstractUser):
    """A user. Users of channels have no usable password.

    ``only_listed``: an empty list of identities allows no sender, instead of every sender ([A1]).
    ``last_account``/``last_target``: the last-used channel and chat ([A4]).
    """

    display_name = models.CharField(max_length=200, blank=True)
    is_owner = models.BooleanField(
        default=False, help_text="Decides who may speak; gets the notices."
    )
    only_listed = models.BooleanField(
        "only listed identities",
        default=True,
        help_text="When off, an empty list of a kind lets everybody of that kind in as this user.",
    )
    language = models.CharField(max_length=16, blank=True)
    time_zone = models.CharField(max_length=64, blank=True)
    show_progress = models.BooleanField("show progress during long tasks", default=True)
    hide_push_text = models.BooleanField(
        "hide the text of notifications", default=False, db_default=False
    )
    last_account = models.ForeignKey(
        "core.ChannelAccount", null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    last_target = models.JSONField(default=dict, blank=True)
    last_spoke_at = models.DateTimeField(null=True, blank=True)

    class Meta(AbstractUser.Meta):
        verbose_name = "person"
        verbose_name_plural = "people"
        # The rule queries open lists for every message of an unknown sender.
        indexes = [
            models.Index(
                fields=["id"], condition=Q(only_listed=False, is_active=True), name="open_users"
            ),
            models.Index(fields=["id"], condition=Q(is_owner=True), name="owners"),
        ]

    def __str__(self) -> str:
        return self.display_name or self.get_full_name() or self.username


class ChannelAccount(models.Model):
    """One account on a channel: a Telegram bot, the web chat, the HTTP API, a bridge.

    ``status``: stopped -> starting -> running | error (the platform's words in ``status_text``) ->
    stopping -> stopped. ``health`` is the platform's last report (pending updates, its last error).
    One worker at a time polls an account, or tells its platform that it starts or stops: ``poller``
    until ``poller_until``; without a poller, the platform is told again then. ``deliveries_held``:
    why nothing is sent (its credentials are refused). ``outage_at``: when the owner was notified
    that its deliveries wait.
    """

    channel = models.CharField(max_length=64)
    name = models.CharField(max_length=64, default="default")
    enabled = models.BooleanField(default=True)
    config = models.JSONField(default=dict, blank=True)
    secrets = models.TextField(blank=True, editable=False, help_text="Encrypted; never shown.")
    status = models.CharField(max_length=16, default="stopped", editable=False)
    status_text = models.CharField(max_length=500, blank=True, editable=False)
    health = models.JSONField(default=dict, blank=True, editable=False)
    poller = models.CharField(max_length=100, blank=True, editable=False)
    poller_until = models.DateTimeField(null=True, blank=True, editable=False)
    deliveries_held = models.CharField(max_length=300, blank=True, editable=False)
    outage_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["channel", "name"], name="one_account")]

    def __str__(self) -> str:
        return f"{self.channel}/{self.name}"

    @property
    def sender_kind(self) -> str:
        """Return the kind of addresses that its senders have: a bridge may say email or phone."""
        return str(self.config.get("kind", "im"))

    def open_secrets(self) -> dict[str, str]:
        """Return the decrypted secrets. Raises DecryptError when the key was changed."""
        return decrypt(self.secrets)


class ChannelIdentity(models.Model):
    """One identity of a user, normalised on write ([A2]). No channel: any channel of that kind."""

    class Kind(models.TextChoices):
        """The three lists of requirement 1."""

        IM = "im", "instant messenger"
        EMAIL = "email", "e-mail"
        PHONE = "phone", "phone"

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="identities")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    channel = models.CharField(max_length=64, blank=True)
    account = models.ForeignKey(ChannelAccount, null=True, blank=True, on_delete=models.CASCADE)
    value = models.CharField(max_length=320)
    expires_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name_plural = "channel identities"
        constraints = [
            models.UniqueConstraint(
                fields=["user", "kind", "channel", "value"],
                condition=Q(account__isnull=True),
                name="one_identity",
            ),
            models.UniqueConstraint(
                fields=["user", "kind", "account", "value"],
                condition=Q(account__isnull=False),
                name="one_identity_of_an_account",
            ),
        ]
        indexes = [
            models.Index(fields=["kind", "value"]),
            models.Index(
                fields=["expires_at"],
                condition=Q(expires_at__isnull=False),
                name="identities_by_expiry",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind}:{self.value}" + (f" on {self.channel}" if self.channel else "")
