"""The rows of a conversation, and their state machines.

State changes only in the modules ``inbox``, ``runs``, ``outbox`` and ``jobs``, and only by
conditional UPDATE. The constraints below enforce the guarantees of that code.
"""

from typing import ClassVar

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Q
from django.db.models.functions import Coalesce

from core.lib.encryption import decrypt
from core.lib.ids import public_id
from core.lib.leases import Lease
from core.lib.text import visible_line


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
    last_account = models.ForeignKey(
        "core.ChannelAccount", null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    last_target = models.JSONField(default=dict, blank=True)
    last_spoke_at = models.DateTimeField(null=True, blank=True)

    class Meta(AbstractUser.Meta):
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

    ``status``: stopped -> starting -> running | error (the platform's words in ``status_text``).
    ``health`` is the platform's last report (pending updates, its last error). A polled account is
    polled by one worker at a time: ``poller`` until ``poller_until``. ``deliveries_held``: why
    nothing is sent (its credentials are refused). ``outage_at``: when the owner was notified that
    its deliveries wait.
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
    ``attempt`` is the fencing token: a writer with an older one is refused. An expired lease puts
    the run back in the queue, at most ``RUN_MAX_ATTEMPTS`` times. ``route`` is the target of the
    answer, taken when the batch was flushed ([C3]).

    No index has ``lease_until`` or ``worker``: a renewal of the lease changes no index. Expired
    leases are looked for among the running runs (``one_running_run``).
    """

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        CANCELLED = "cancelled"

    FINAL: ClassVar[tuple[str, ...]] = (State.SUCCEEDED, State.FAILED, State.CANCELLED)

    public_id = models.CharField(max_length=32, unique=True, default=public_id, editable=False)
    # Both keys begin an index below.
    session = models.ForeignKey(
        ChatSession, on_delete=models.CASCADE, related_name="runs", db_index=False
    )
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+", db_index=False)
    origin = models.CharField(max_length=64, help_text="The channel it came through.")
    route = models.JSONField(default=dict)
    options = models.JSONField(default=dict, help_text="Options of the client for the agent.")
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
        ]

    def __str__(self) -> str:
        return f"{self.public_id} ({self.state})"


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
    options = models.JSONField(default=dict)
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
    """One message of the readable transcript of a session; the agent's history."""

    session = models.ForeignKey(  # begins two indexes below
        ChatSession, on_delete=models.CASCADE, related_name="messages", db_index=False
    )
    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.SET_NULL)
    role = models.CharField(max_length=16)
    text = models.TextField(blank=True)
    format = models.CharField(max_length=16, default="plain")
    data = models.JSONField(default=dict, help_text="Images, files, sources, interrupted.")
    tokens = models.PositiveIntegerField(default=0, help_text="Estimated; for the history budget.")
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
            # When an account recovers, its waiting deliveries are due immediately.
            models.Index(
                fields=["account"],
                condition=Q(state="pending", tries__gt=0),
                name="failing_deliveries",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.dedupe_key} ({self.state})"


class StoredFile(models.Model):
    """A file under ``GATEWAY_HOME/files``; ``path`` is ours and random, ``name`` only a label."""

    public_id = models.CharField(max_length=32, unique=True, default=public_id, editable=False)
    user = models.ForeignKey(  # begins an index below
        User, on_delete=models.CASCADE, related_name="files", db_index=False
    )
    session = models.ForeignKey(ChatSession, null=True, blank=True, on_delete=models.CASCADE)
    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.SET_NULL)
    name = models.CharField(max_length=255)
    content_type = models.CharField(max_length=100)
    size = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    path = models.CharField(max_length=200)
    origin = models.CharField(max_length=16, default="sent", help_text="sent to us, or made by us.")
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    purged_at = models.DateTimeField(null=True, blank=True, help_text="Its bytes are gone since.")
    opens = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [
            models.Index(fields=["user", "-id"], name="files_of_user"),
            models.Index(
                fields=["id"],
                condition=Q(purged_at__isnull=True, revoked_at__isnull=False),
                name="revoked_files",
            ),
            models.Index(
                fields=["expires_at"],
                condition=Q(purged_at__isnull=True, expires_at__isnull=False),
                name="files_by_expiry",
            ),
        ]

    def __str__(self) -> str:
        """Show the uploader's name of the file, with invisible characters visible."""
        return visible_line(self.name, 80)


class Skill(models.Model):
    """Whether the owner enabled the skill in ``GATEWAY_HOME/skills/<name>``."""

    name = models.CharField(max_length=100, primary_key=True)
    enabled = models.BooleanField(default=False)
    changed_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return visible_line(self.name, 80)


class Installation(models.Model):
    """State of the whole database: one row, with the id 1.

    ``version``: of the code that migrated it last. ``files_mark``: the mark of the folder of stored
    files on each machine, to detect a folder that is not shared.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    version = models.CharField(max_length=40, blank=True, default="")
    files_mark = models.CharField(max_length=64, blank=True, default="")

    def __str__(self) -> str:
        return self.version


class WorkerHeartbeat(models.Model):
    """The last heartbeat of each worker process ([D8]); ``problem``: why it takes no work.

    Of ``runs`` workers: how many runs one has at once (``places``), and how long a run has taken
    lately (``place_seconds``; 0: not measured yet).
    """

    name = models.CharField(max_length=100, primary_key=True)
    queue = models.CharField(max_length=16)
    seen_at = models.DateTimeField()
    problem = models.CharField(max_length=200, default="", db_default="")
    places = models.PositiveIntegerField(default=0, db_default=0)
    place_seconds = models.FloatField(default=0.0, db_default=0.0)

    def __str__(self) -> str:
        return self.name
