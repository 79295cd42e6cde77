"""Sessions, runs and their events, received messages, and the transcript."""

from typing import Any, ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Coalesce

from core.lib.ids import public_id
from core.lib.tokens import estimate
from core.models.people import ChannelAccount, User
from core.models.run_fields import Route, RunOptions


class ChatSession(models.Model):
    """One conversation of one user on one account.

    A platform conversation is (account, chat, thread); web, HTTP and agent sessions use their own
    ``public_id`` as chat. ``flush_at`` is when the waiting batch becomes a run ([C2]).

    ``for_agent``: opened for a program that sends results ([S4]); it may share its chat with the
    user's own conversation. Messages of the user go to the agent instead of the assistant where the
    topic was created for it (``own_topic``), and while it waits for an answer (``reply_until``).
    """

    public_id = models.CharField(max_length=32, unique=True, default=public_id, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="sessions")
    account = models.ForeignKey(ChannelAccount, on_delete=models.CASCADE)
    chat = models.CharField(max_length=128)
    thread = models.CharField(max_length=128, blank=True)
    title = models.CharField(max_length=200, blank=True)
    batch_started_at = models.DateTimeField(null=True, blank=True)
    flush_at = models.DateTimeField(null=True, blank=True)
    history_from = models.BigIntegerField(
        default=0, help_text="Messages up to this id are forgotten."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    last_message_at = models.DateTimeField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    for_agent = models.BooleanField(default=False)
    own_topic = models.BooleanField(default=False)
    reply_until = models.DateTimeField(null=True, blank=True)
    # The person's choice for this conversation (``Assistant``, ``LanguageModel``); 0 for nothing.
    assistant_id = models.PositiveBigIntegerField(default=0, db_default=0)
    model_id = models.PositiveBigIntegerField(default=0, db_default=0)
    shortened_at = models.DateTimeField(
        null=True, blank=True, help_text="When it was said that old messages are left out."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["account", "chat", "thread", "user"],
                condition=Q(closed_at__isnull=True, for_agent=False),
                name="one_open_session",
            )
        ]
        indexes = [
            models.Index(fields=["user", "-last_message_at"]),
            # The admin's list; a session without a message counts from its creation.
            models.Index(
                Coalesce("last_message_at", "created_at").desc(), name="sessions_by_activity"
            ),
            models.Index(
                fields=["flush_at"], condition=Q(flush_at__isnull=False), name="due_batches"
            ),
            models.Index(
                fields=["user", "account"],
                condition=Q(for_agent=True, closed_at__isnull=True),
                name="open_agent_sessions",
            ),
        ]

    def __str__(self) -> str:
        return self.title or self.public_id


class Run(models.Model):
    """One turn of the assistant: a batch of messages and the answer to it.

    queued -> running -> succeeded | failed | cancelled. At most one running per session.
    held: was open in a backup that was restored; the owner lets it go (-> queued) or drops it.
    ``attempt`` is the fencing token: a writer with an older one is refused. An expired lease puts
    the run back in the queue, at most ``RUN_MAX_ATTEMPTS`` times. The keys of ``route`` and
    ``options``: ``core.models.run_fields``. ``via_key``: the primary key of the API key that its
    last message came with; 0 for none.

    No index has ``lease_until`` or ``worker``: a renewal of the lease changes no index. Expired
    leases are looked for among the running runs (``one_running_run``).
    """

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        CANCELLED = "cancelled"
        HELD = "held"

    FINAL: ClassVar[tuple[str, ...]] = (State.SUCCEEDED, State.FAILED, State.CANCELLED)
    OPEN: ClassVar[tuple[str, ...]] = (State.QUEUED, State.RUNNING)
    UNFINISHED: ClassVar[tuple[str, ...]] = (*OPEN, State.HELD)

    public_id = models.CharField(max_length=32, unique=True, default=public_id, editable=False)
    # Both keys begin an index below.
    session = models.ForeignKey(
        ChatSession, on_delete=models.CASCADE, related_name="runs", db_index=False
    )
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+", db_index=False)
    origin = models.CharField(max_length=64, help_text="The channel it came through.")
    route: "models.JSONField[Any, Route]" = models.JSONField(default=dict)
    options: "models.JSONField[Any, RunOptions]" = models.JSONField(
        default=dict, help_text="Options of the client for the agent."
    )
    via_key = models.PositiveBigIntegerField(default=0, db_default=0)
    # Chosen when the run is stored: an assistant, the version of its instructions, and a model that
    # the person wants before those of its chain; 0 for none. No foreign keys: nothing looks for the
    # runs of a model, and deleting one would read them all.
    assistant_id = models.PositiveBigIntegerField(default=0, db_default=0)
    assistant_version = models.PositiveIntegerField(default=0, db_default=0)
    model_id = models.PositiveBigIntegerField(default=0, db_default=0)
    text = models.TextField(blank=True)
    state = models.CharField(max_length=16, choices=State.choices, default=State.QUEUED)
    attempt = models.PositiveIntegerField(default=0)
    lease_until = models.DateTimeField(null=True, blank=True)
    worker = models.CharField(max_length=100, blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    last_seq = models.PositiveIntegerField(default=0)
    result = models.JSONField(default=dict, help_text="The fields of the final answer.")
    usage = models.JSONField(default=dict)
    error = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    condensed_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="When its log was cut to its answer."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["session"], condition=Q(state="running"), name="one_running_run"
            )
        ]
        indexes = [
            # Not partial: SQLite finds `state IN (?, ?)` in no condition of an index.
            models.Index(fields=["session", "state", "id"], name="runs_of_session_by_state"),
            models.Index(fields=["id"], condition=Q(state="queued"), name="queued_runs"),
            # The next session with queued runs, without a look at those of this one.
            models.Index(
                fields=["session", "id"], condition=Q(state="queued"), name="queued_by_session"
            ),
            models.Index(
                fields=["id"],
                condition=Q(state="queued", cancel_requested_at__isnull=False),
                name="queued_to_cancel",
            ),
            models.Index(fields=["session", "-id"]),
            models.Index(fields=["user", "-id"], name="runs_of_user"),
            models.Index(
                fields=["finished_at"],
                condition=Q(finished_at__isnull=False, condensed_at__isnull=True),
                name="runs_to_condense",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.public_id} ({self.state})"

    @property
    def history_from(self) -> int:
        """Return the id up to which messages are none of its conversation: that of the session when
        it was stored, whatever begins anew afterwards.
        """
        return self.route.get("history_from", self.session.history_from)


class RunFailure(models.Model):
    """Why a run failed: the code (``core.providers.failures``), and the model server's reason.

    The reason is for owners: one line, bounded, without credentials.
    """

    run = models.OneToOneField(
        Run, on_delete=models.CASCADE, primary_key=True, related_name="failure"
    )
    code = models.CharField(max_length=40)
    reason = models.CharField(max_length=500, blank=True)
    at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.code


class ModelTrouble(models.Model):
    """How often runs failed with one code, and whether the model currently fails with it.

    ``since``: of the first failure without a later answer; none when it works. ``told_at``: when
    the owner was notified; cleared with the notice that it works again.
    """

    code = models.CharField(max_length=40, primary_key=True)
    count = models.PositiveBigIntegerField(default=0)
    since = models.DateTimeField(null=True, blank=True)
    last_at = models.DateTimeField(null=True, blank=True)
    told_at = models.DateTimeField(null=True, blank=True)
    reason = models.CharField(max_length=500, blank=True)
    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")

    def __str__(self) -> str:
        return self.code


class InboundMessage(models.Model):
    """A received message, committed before its sender gets a 2xx.

    received -> batched -> answered
       |-> held (sender unknown) -> received (approved, replayed once) | purged (denied, expired)
       |-> ignored (an unsupported kind), counted
       '-> quarantined (cannot be parsed), shown in the admin, retriable

    ``ack`` is the reaction on the platform's message ([C4]): nothing -> shown -> cleared.
    ``via_key``: the primary key of the API key that it came with; 0 for none. ``media_bytes``: the
    size of ``media`` in this row, counted for held messages only.
    """

    class State(models.TextChoices):
        RECEIVED = "received"
        BATCHED = "batched"
        ANSWERED = "answered"
        HELD = "held"
        PURGED = "purged"
        IGNORED = "ignored"
        QUARANTINED = "quarantined"

    class Ack(models.TextChoices):
        """The state of the acknowledgement reaction."""

        SHOWN = "shown"
        CLEARED = "cleared"

    account = models.ForeignKey(ChannelAccount, on_delete=models.CASCADE)
    session = models.ForeignKey(ChatSession, null=True, blank=True, on_delete=models.CASCADE)
    run = models.ForeignKey(
        Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="inbound"
    )
    user = models.ForeignKey(User, null=True, blank=True, on_delete=models.CASCADE)
    kind = models.CharField(max_length=8, default="im")
    sender = models.CharField(max_length=320, blank=True)
    sender_name = models.CharField(max_length=200, blank=True)
    chat = models.CharField(max_length=128, blank=True)
    thread = models.CharField(max_length=128, blank=True)
    external_update_id = models.CharField(max_length=200, blank=True)
    external_message_id = models.CharField(max_length=200, blank=True)
    text = models.TextField(blank=True)
    media = models.JSONField(default=list)
    media_bytes = models.PositiveBigIntegerField(default=0, db_default=0)
    via_key = models.PositiveBigIntegerField(default=0, db_default=0)
    options: "models.JSONField[Any, RunOptions]" = models.JSONField(default=dict)
    raw = models.BinaryField(blank=True, default=b"")
    state = models.CharField(max_length=16, choices=State.choices, default=State.RECEIVED)
    ack = models.CharField(max_length=8, choices=Ack.choices, blank=True)
    note = models.CharField(max_length=300, blank=True)
    body_digest = models.CharField(
        max_length=64,
        blank=True,
        default="",
        db_default="",
        help_text="Of the request, where its client chose the key by which a repetition is known.",
    )
    received_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["account", "external_update_id"],
                condition=~Q(external_update_id=""),
                name="one_update",
            ),
            models.UniqueConstraint(
                fields=["account", "chat", "external_message_id"],
                # A client's message id is unique per sender only: ``one_update``.
                condition=~Q(external_message_id="") & Q(body_digest=""),
                name="one_platform_message",
            ),
        ]
        indexes = [
            models.Index(
                fields=["session", "id"], condition=Q(state="received"), name="waiting_messages"
            ),
            models.Index(
                fields=["account", "kind", "sender", "id"],
                condition=Q(state="held"),
                name="held_messages",
            ),
            models.Index(fields=["received_at"], condition=Q(state="held"), name="held_by_age"),
            models.Index(
                fields=["id", "media_bytes"],
                condition=Q(state="held", media_bytes__gt=0),
                name="held_media",
            ),
            models.Index(fields=["received_at"], condition=Q(state="purged"), name="purged_by_age"),
            models.Index(fields=["session"], condition=Q(ack="shown"), name="shown_acks"),
            models.Index(fields=["id"], condition=Q(state="quarantined"), name="quarantined"),
            models.Index(
                fields=["received_at"], condition=Q(state="ignored"), name="ignored_by_age"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.account_id}:{self.chat}:{self.external_message_id} ({self.state})"


class RunEvent(models.Model):
    """One event of a run's append-only log: ``data`` is a protocol message as JSON text."""

    pk = models.CompositePrimaryKey("run_id", "seq")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events", db_index=False)
    seq = models.PositiveIntegerField()
    data = models.TextField()

    def __str__(self) -> str:
        return f"{self.run_id}#{self.seq}"


class Message(models.Model):
    """One message of the readable transcript of a session; the agent's history.

    ``calls``: the calls of tools that came before an answer's text, with their results, shortened
    (``core.agent.calls``); ``call_tokens`` are theirs. None: there were none.
    """

    session = models.ForeignKey(  # begins two indexes below
        ChatSession, on_delete=models.CASCADE, related_name="messages", db_index=False
    )
    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.SET_NULL)
    role = models.CharField(max_length=16)
    text = models.TextField(blank=True)
    format = models.CharField(max_length=16, default="plain")
    data = models.JSONField(default=dict, help_text="Images, files, sources, interrupted.")
    tokens = models.PositiveIntegerField(default=0, help_text="Estimated; for the history budget.")
    # NULL where there are none, so that SQLite need not copy the table for the new columns.
    call_tokens = models.IntegerField(null=True, blank=True, editable=False)
    calls = models.JSONField(null=True, blank=True, editable=False)
    dedupe_key = models.CharField(max_length=200, null=True, blank=True, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        # Their texts are searched by an index of the database's own kind: ``text_search``.
        indexes = [
            models.Index(fields=["session", "-id"]),
            models.Index(fields=["session", "run", "id"], name="history_of_session"),
            models.Index(fields=["created_at", "role"], name="messages_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.role}: {self.text[:60]}"

    @property
    def shown(self) -> str:
        """Return the text that people see; ``text`` is that which the model is told."""
        return str(self.data.get("said", self.text))

    def tell_model(self, told: str) -> None:
        """Let the model be told another text than people see; "" for none."""
        self.data = {**self.data, "said": self.shown}
        self.text, self.tokens = told, estimate(told) if told else 0
