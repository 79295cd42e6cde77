"""Long tasks and deliveries: work that is claimed under a lease."""

from django.db import models
from django.db.models import Q

from core.lib.leases import Lease
from core.models.conversations import ChatSession, Run
from core.models.people import ChannelAccount


class Job(models.Model):
    """A long task of a run. queued -> running -> succeeded | failed | cancelled.

    Unique (run, tool_call_id): a retried run reuses the result.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="jobs")
    tool_call_id = models.CharField(max_length=100)
    tool = models.CharField(max_length=64)
    parameters = models.JSONField(default=dict)
    state = models.CharField(max_length=16, choices=Run.State.choices, default=Run.State.QUEUED)
    attempt = models.PositiveIntegerField(default=0)
    lease_until = models.DateTimeField(null=True, blank=True)
    percent = models.PositiveSmallIntegerField(null=True, blank=True)
    message = models.CharField(max_length=300, blank=True)
    result = models.JSONField(default=dict)
    error = models.CharField(max_length=500, blank=True)
    said = models.PositiveIntegerField(default=0, db_default=0, help_text="Messages that it sent.")
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "long task"
        constraints = [
            models.UniqueConstraint(fields=["run", "tool_call_id"], name="one_job_a_tool_call")
        ]
        indexes = [
            # One each: SQLite finds `state = ?` in no condition of several states.
            models.Index(fields=["id"], condition=Q(state="queued"), name="queued_jobs"),
            models.Index(fields=["id"], condition=Q(state="running"), name="running_jobs"),
            models.Index(
                fields=["finished_at"], condition=Q(finished_at__isnull=False), name="jobs_by_end"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tool} ({self.state})"


class JobStep(models.Model):
    """A stored step of a job: an answer of the model by its question, a message by its number.

    ``key`` is unique within a kind. Answers are removed when their job ends.
    """

    class Kind(models.TextChoices):
        ANSWER = "answer"
        MESSAGE = "message"

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="steps")
    kind = models.CharField(max_length=16, choices=Kind.choices)
    key = models.CharField(max_length=80)
    data = models.TextField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "kind", "key"], name="one_step_a_key")
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


class Delivery(models.Model):
    """One block for a platform; the row is committed before the network call.

    pending -> sending -> sent | pending (retry_at) | dead | uncertain. Ordered per ``conversation``
    by id. ``dedupe_key`` is ``run:<id>:<block>`` or ``notice:<what>``: a block is enqueued once.
    sent -> pending when its payload changes: the message exists, so the new one goes out as an
    edit, which is idempotent.

    ``attempt`` is the fence of a claim, ``tries`` counts failed requests to the platform.
    ``queued_at``: since when it is due, where that is not ``created_at``. In doubt (``doubt_chat``,
    the account and chat): an earlier request may have created a message with an unknown id above
    ``after_id``.
    """

    class State(models.TextChoices):
        PENDING = "pending"
        SENDING = "sending"
        SENT = "sent"
        DEAD = "dead"
        UNCERTAIN = "uncertain"
        DISMISSED = "dismissed"

    account = models.ForeignKey(ChannelAccount, on_delete=models.CASCADE)
    session = models.ForeignKey(ChatSession, null=True, blank=True, on_delete=models.CASCADE)
    run = models.ForeignKey(
        Run, null=True, blank=True, on_delete=models.CASCADE, related_name="deliveries"
    )
    block_index = models.PositiveIntegerField(default=0)
    dedupe_key = models.CharField(max_length=200, unique=True)
    conversation = models.CharField(max_length=300)
    target = models.JSONField(default=dict, help_text="chat, thread, reply_to")
    payload = models.JSONField(default=dict)
    state = models.CharField(max_length=16, choices=State.choices, default=State.PENDING)
    attempt = models.PositiveIntegerField(default=0)
    tries = models.PositiveIntegerField(default=0)
    queued_at = models.DateTimeField(null=True, blank=True)
    retry_at = models.DateTimeField(null=True, blank=True)
    claimed_at = models.DateTimeField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    external_message_id = models.CharField(max_length=200, blank=True)
    doubt_chat = models.CharField(max_length=160, blank=True)
    after_id = models.BigIntegerField(null=True, blank=True)
    error = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    sent_at = models.DateTimeField(null=True, blank=True)

    # Of this process, while it sends: the lease of its claim, whether the reader may see a repeat,
    # and whether nothing is left to be found afterwards.
    lease: Lease | None = None
    may_repeat: bool = False
    settles_doubt: bool = False

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [
            models.UniqueConstraint(
                fields=["run", "block_index"], condition=Q(run__isnull=False), name="one_block"
            )
        ]
        indexes = [
            models.Index(fields=["state", "conversation", "id"], name="deliveries_by_state"),
            models.Index(fields=["id"], condition=Q(state="pending"), name="pending_deliveries"),
            models.Index(
                fields=["lease_until"], condition=Q(state="sending"), name="sending_by_lease"
            ),
            models.Index(
                fields=["doubt_chat"], condition=~Q(doubt_chat=""), name="deliveries_in_doubt"
            ),
            models.Index(
                fields=["sent_at"], condition=Q(sent_at__isnull=False), name="deliveries_by_age"
            ),
            # When an account recovers, its waiting deliveries are due immediately.
            models.Index(
                fields=["account"],
                condition=Q(state="pending", tries__gt=0),
                name="failing_deliveries",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.dedupe_key} ({self.state})"
