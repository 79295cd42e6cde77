"""Schedules of people, and their occurrences."""

from datetime import datetime

from django.db import models
from django.db.models import Q

from core.lib.ids import public_id
from core.lib.text import visible_line
from core.models.conversations import ChatSession, Run
from core.models.people import ChannelAccount, User


class Schedule(models.Model):
    """Something that is to happen at a time, once or again and again, for one person.

    active <-> paused; active | paused -> ended (deleted by the person, or without a next time).
    ``why``: the reason of a pause or an end.

    ``kind``: a text is sent as it is; a prompt is carried out by the assistant. ``rule`` is an
    RRULE of RFC 5545 without its name, empty for once; it counts from ``start``, a local time in
    ``time_zone`` (ISO 8601, without an offset). ``place``: where it was made, with ``session``.
    ``sender``, ``sender_kind``, ``group``, ``via_key``: the grant by which the person made it; it
    is checked at each occurrence. ``failures``: in a row; the third pauses the schedule.
    """

    class Kind(models.TextChoices):
        TEXT = "text", "text"
        PROMPT = "prompt", "prompt"

    class State(models.TextChoices):
        ACTIVE = "active", "active"
        PAUSED = "paused", "paused"
        ENDED = "ended", "ended"

    class Why(models.TextChoices):
        """Why a schedule is not active."""

        PERSON = "person", "by the person"
        OWNER = "owner", "by the owner"
        FAILURES = "failures", "failed three times in a row"
        GRANT = "grant", "the person is not on the list any more"
        OVER = "over", "nothing is left"

    class Missed(models.TextChoices):
        """The treatment of an occurrence that comes late, as the gateway was off or busy."""

        ONCE = "once", "once, as soon as possible"
        SKIP = "skip", "left out"

    public_id = models.CharField(max_length=32, unique=True, default=public_id, editable=False)
    user = models.ForeignKey(
        User, on_delete=models.CASCADE, related_name="schedules", db_index=False
    )
    kind = models.CharField(max_length=8, choices=Kind.choices)
    text = models.TextField()
    rule = models.CharField(max_length=500, blank=True)
    start = models.CharField(max_length=32)
    time_zone = models.CharField(max_length=64)
    missed = models.CharField(
        "if it was missed", max_length=8, choices=Missed.choices, default=Missed.ONCE
    )
    state = models.CharField(max_length=8, choices=State.choices, default=State.ACTIVE)
    why = models.CharField(max_length=16, choices=Why.choices, blank=True)
    failures = models.PositiveSmallIntegerField(default=0)
    session = models.ForeignKey(
        ChatSession, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    account = models.ForeignKey(
        ChannelAccount, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    chat = models.CharField(max_length=128, blank=True)
    thread = models.CharField(max_length=128, blank=True)
    sender = models.CharField(max_length=320, blank=True)
    sender_kind = models.CharField(max_length=8, blank=True)
    group = models.CharField(max_length=128, blank=True)
    via_key = models.PositiveBigIntegerField(default=0)
    assistant_id = models.PositiveBigIntegerField(default=0)
    # The call of a tool that made it: a repeated attempt of the run finds it.
    made_by = models.CharField(max_length=200, null=True, blank=True, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)

    # When it is due next, where a list has looked for it, and whether that is a snooze.
    next_at: datetime | None = None
    is_put_off: bool = False

    class Meta:
        indexes = [
            models.Index(fields=["user", "state", "id"], name="schedules_of_user"),
            models.Index(fields=["state", "-id"], name="schedules_by_state"),
            models.Index(fields=["via_key"], condition=Q(via_key__gt=0), name="schedules_by_key"),
            models.Index(fields=["changed_at"], condition=Q(state="ended"), name="ended_schedules"),
        ]

    def __str__(self) -> str:
        return f"{self.kind}: {visible_line(self.text, 60)}"


class Occurrence(models.Model):
    """One time of a schedule. Unique (schedule, ``nominal_at``): it happens once.

    waiting -> fired -> done | failed; waiting -> skipped (missed, or the one before lasts) |
    withdrawn (not wanted any more)

    ``nominal_at`` is the time of the rule, or that of a snooze (``snoozed``). ``look_at``: when a
    worker looks at it next; null when nothing is left to do. While it waits that is when it is
    due; afterwards until it is known whether it was carried out and delivered.

    *Executed* (``executed_at``: the text was queued, or the assistant has answered) and *delivered*
    (``delivered_at``: each message has arrived, or is in the web chat's conversation) are two
    facts. ``fired_at``: when it stopped waiting, also as skipped; ``was_missed``: long after
    ``nominal_at``. ``note``: why it failed, or went elsewhere. ``tries``: how often firing broke.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        FIRED = "fired", "running"
        DONE = "done", "done"
        FAILED = "failed", "failed"
        SKIPPED = "skipped", "missed"
        WITHDRAWN = "withdrawn", "withdrawn"

    # Begins the constraint below.
    schedule = models.ForeignKey(
        Schedule, on_delete=models.CASCADE, related_name="occurrences", db_index=False
    )
    nominal_at = models.DateTimeField()
    snoozed = models.BooleanField(default=False)
    state = models.CharField(max_length=12, choices=State.choices, default=State.WAITING)
    look_at = models.DateTimeField(null=True, blank=True)
    tries = models.PositiveSmallIntegerField(default=0)
    run = models.ForeignKey(
        Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="occurrences"
    )
    was_missed = models.BooleanField(default=False)
    fired_at = models.DateTimeField(null=True, blank=True)
    executed_at = models.DateTimeField(null=True, blank=True)
    delivered_at = models.DateTimeField(null=True, blank=True)
    acknowledged_at = models.DateTimeField(null=True, blank=True)
    note = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["schedule", "nominal_at"], name="one_occurrence")
        ]
        indexes = [
            models.Index(
                fields=["look_at"], condition=Q(look_at__isnull=False), name="occurrences_to_look"
            ),
            models.Index(
                fields=["schedule"], condition=Q(state="waiting"), name="waiting_occurrences"
            ),
            models.Index(
                fields=["fired_at"], condition=Q(fired_at__isnull=False), name="fired_occurrences"
            ),
            models.Index(
                fields=["nominal_at"],
                condition=Q(fired_at__isnull=True, look_at__isnull=True),
                name="unfired_occurrences",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.nominal_at:%Y-%m-%d %H:%M} ({self.state})"
