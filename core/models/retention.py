"""The owner's rules how long things are kept."""

from typing import ClassVar

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Coalesce

from core.lib.text import visible_line
from core.models.language_models import Assistant
from core.models.people import ChannelAccount, User

LEAST_DAYS = 2
ONE_TARGET = (
    Q(user__isnull=True, account__isnull=True)
    | Q(user__isnull=True, assistant__isnull=True)
    | Q(account__isnull=True, assistant__isnull=True)
)


class RetentionRule(models.Model):
    """How long rows of one kind are kept: for ever, some days, or the newest of a conversation.

    Of several that fit, the most specific one counts: person, account, assistant, everyone. With
    neither ``days`` nor ``newest``: for ever, as without a rule.

    ``counts``: how many rows of each table it would remove, as a worker counted at ``counted_at``.
    None and no time: to be counted; None and a time: being counted since then.
    """

    class Kind(models.TextChoices):
        MESSAGES = "messages", "messages, with their runs"
        EVENTS = "events", "event logs of runs"
        FILES = "files", "files"
        DELIVERIES = "deliveries", "deliveries"
        AUDIT = "audit", "texts of the audit"
        CALLS = "calls", "calls of models"
        USAGE = "usage", "sums of usage"
        CONVERSATIONS = "sessions", "empty conversations"

    # The most specific one first.
    TARGETS: ClassVar[tuple[str, ...]] = ("user", "account", "assistant")

    kind = models.CharField(max_length=16, choices=Kind.choices)
    user = models.ForeignKey(
        User,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="+",
        verbose_name="person",
    )
    account = models.ForeignKey(
        ChannelAccount, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    assistant = models.ForeignKey(
        Assistant, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    days = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(LEAST_DAYS)],
        help_text=f"Older ones are removed; at least {LEAST_DAYS}. Empty: kept for ever.",
    )
    newest = models.PositiveIntegerField(
        "newest messages",
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Of messages, instead of days: so many of each conversation are kept.",
    )
    created_at = models.DateTimeField(auto_now_add=True)
    counts = models.JSONField(null=True, blank=True, editable=False)
    counted_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                F("kind"),
                Coalesce("user", 0),
                Coalesce("account", 0),
                Coalesce("assistant", 0),
                name="one_retention_rule",
                violation_error_message="There is a rule for this. Change that one.",
            ),
            models.CheckConstraint(
                condition=ONE_TARGET,
                name="retention_one_target",
                violation_error_message="Choose a person, an account or an assistant, or none.",
            ),
            models.CheckConstraint(
                condition=Q(newest__isnull=True) | Q(kind="messages", days__isnull=True),
                name="retention_newest_messages",
                violation_error_message="The newest are kept of messages only, instead of days.",
            ),
            models.CheckConstraint(
                condition=~Q(kind="audit")
                | Q(user__isnull=True, account__isnull=True, assistant__isnull=True),
                name="retention_audit_of_all",
                violation_error_message="A rule for the audit is for everyone.",
            ),
            models.CheckConstraint(
                # The run that names the assistant may go before the file.
                condition=~Q(kind="files", assistant__isnull=False),
                name="retention_files_of_people",
                violation_error_message="Files belong to a person, not to an assistant.",
            ),
            models.CheckConstraint(
                condition=~Q(kind="sessions", assistant__isnull=False),
                name="retention_talks_of_people",
                violation_error_message="A conversation belongs to a person and an account.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} of {self.target()}: {self.duration()}"

    def target(self) -> str:
        """Return whose rows it is about, in words."""
        for name, label in zip(self.TARGETS, ("person", "account", "assistant"), strict=True):
            row = getattr(self, name)
            if row is not None:
                return visible_line(f"{label} {row}", 200)
        return "everyone"

    def duration(self) -> str:
        """Return how long, in words."""
        if self.newest is not None:
            return f"{self.newest} newest of each conversation"
        return "for ever" if self.days is None else f"{self.days} days"
