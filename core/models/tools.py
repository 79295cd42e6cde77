"""Calls of tools that ask first or must not be repeated, what people have allowed, and rules."""

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Coalesce

from core.lib.ids import public_id
from core.lib.text import visible_line
from core.models.conversations import ChatSession, Run
from core.models.language_models import Assistant
from core.models.mcp import McpSignIn
from core.models.people import ChannelAccount, User


class RunPause(models.Model):
    """The part of a turn that waits for a yes: the run has ended, another one continues it.

    ``messages``: those that the turn had added for the model, in order (calls and results);
    ``continued_by``: the run that goes on, made with the last decision.
    """

    run = models.OneToOneField(
        Run, on_delete=models.CASCADE, primary_key=True, related_name="pause"
    )
    messages = models.JSONField(default=list)
    continued_by = models.OneToOneField(
        Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="continues"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"pause of run {self.run_id}"


class ToolCall(models.Model):
    """A call that needs a yes, or that must not be made twice.

    waiting -> allowed | denied | expired | withdrawn
    allowed, or at once -> started -> done | unsure

    ``run`` made the call; ``digest`` is of the tool and its arguments: a decision is about these.
    ``started`` is stored before the call leaves. A start whose worker died becomes ``unsure``, and
    the call is not repeated. ``carried_out_in``: the run that started it. ``kind``: it waits for
    a yes, or until ``asked_of`` signs in at an MCP server (``sign_in``).
    """

    class Kind(models.TextChoices):
        YES = "yes", "a yes"
        SIGN_IN = "sign_in", "a sign-in"

    class State(models.TextChoices):
        WAITING = "waiting"
        ALLOWED = "allowed"
        DENIED = "denied"
        EXPIRED = "expired"
        WITHDRAWN = "withdrawn"
        STARTED = "started"
        DONE = "done"
        UNSURE = "unsure", "unsure whether it happened"

    class Scope(models.TextChoices):
        ONCE = "once", "this call"
        HOUR = "hour", "in this conversation for an hour"
        ALWAYS = "always", "always for this person and tool"

    public_id = models.CharField(max_length=32, unique=True, default=public_id, editable=False)
    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="tool_calls", db_index=False
    )
    call_id = models.CharField(max_length=300)
    tool = models.CharField(max_length=128)
    arguments = models.TextField(help_text="JSON, as the model gave them or the owner edited them.")
    digest = models.CharField(max_length=64, editable=False)
    edited = models.BooleanField(default=False)
    cost = models.CharField(max_length=200, blank=True)
    state = models.CharField(max_length=16, choices=State.choices)
    kind = models.CharField(max_length=8, choices=Kind.choices, default=Kind.YES, db_default="yes")
    sign_in = models.ForeignKey(
        McpSignIn, null=True, blank=True, on_delete=models.SET_NULL, related_name="calls"
    )
    # The person who is asked; none for a call that needs no yes. Any owner answers for an owner.
    of_person = models.BooleanField(default=False)
    asked_of = models.ForeignKey(
        User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    expires_at = models.DateTimeField(null=True, blank=True)
    decided_by = models.ForeignKey(
        User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    decided_at = models.DateTimeField(null=True, blank=True)
    scope = models.CharField(max_length=8, choices=Scope.choices, blank=True)
    carried_out_in = models.ForeignKey(
        Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    attempt = models.PositiveIntegerField(default=0)
    result = models.JSONField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "call_id"], name="one_call"),
        ]
        indexes = [
            models.Index(fields=["expires_at"], condition=Q(state="waiting"), name="waiting_calls"),
            # A chore of each sweep looks for those whose attempt has ended.
            models.Index(fields=["id"], condition=Q(state="started"), name="started_calls"),
        ]

    def __str__(self) -> str:
        return f"{visible_line(self.tool, 60)} ({self.state})"


class ToolGrant(models.Model):
    """A yes that holds for later calls of a tool by a person: in one conversation, or everywhere
    (without ``session``), until ``until`` or for ever.
    """

    tool = models.CharField(max_length=128)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tool_grants")
    session = models.ForeignKey(
        ChatSession, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    until = models.DateTimeField(null=True, blank=True)
    created_by = models.ForeignKey(
        User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "allowed tool"
        constraints = [
            models.UniqueConstraint(
                F("user"), F("tool"), Coalesce("session", 0), name="one_tool_grant"
            )
        ]

    def __str__(self) -> str:
        return f"{visible_line(self.tool, 60)} for {visible_line(str(self.user), 60)}"


class ToolRule(models.Model):
    """The owner's rule when a tool asks; the most specific one counts: person, group, account,
    assistant, none of them.

    ``chat``: a group on ``account``. ``off``: the tool is not offered.
    """

    class Ask(models.TextChoices):
        NEVER = "never", "do not ask"
        FIRST = "first", "ask the first time for each person"
        ALWAYS = "always", "ask every time"
        OFF = "off", "do not offer the tool"

    tool = models.CharField(max_length=128)
    ask = models.CharField(max_length=8, choices=Ask.choices)
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
    chat = models.CharField("group", max_length=128, blank=True)
    assistant = models.ForeignKey(
        Assistant, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "rule of a tool"
        verbose_name_plural = "rules of tools"
        constraints = [
            models.UniqueConstraint(
                F("tool"),
                Coalesce("user", 0),
                Coalesce("account", 0),
                F("chat"),
                Coalesce("assistant", 0),
                name="one_tool_rule",
            )
        ]

    def __str__(self) -> str:
        return f"{visible_line(self.tool, 60)}: {self.get_ask_display()}"
