"""Usage and cost of model calls, and the budgets that limit them.

Money is in billionths of a dollar.
"""

from django.db import models
from django.db.models import Q

from core.lib.text import visible_line
from core.models.conversations import Run
from core.models.language_models import Assistant
from core.models.people import ChannelAccount, User


class ModelCall(models.Model):
    """One call of a model: its tokens, its price, and for whom it was made.

    open, reserved in budgets before the call -> settled with the tokens that it used. Without a
    budget it is stored when it is settled, in the transaction that ends the run or the task.
    ``estimated``: the provider reported no usage. ``reserved``: [period, amount, unit] of each
    budget. While a call is open, its tokens are the estimated prompt and the longest answer.
    ``day``: when it was settled, in the owner's time zone. ``milliseconds``: how long it took; None
    for one that was not measured. ``failure``: the code of a failed call, "stopped", or "lost" with
    its worker. Ids without a foreign key: 0 for none; ``job_id``: of a
    long task, whose ``attempt`` it then is.
    """

    class State(models.TextChoices):
        OPEN = "open"
        SETTLED = "settled"

    class Purpose(models.TextChoices):
        TURN = "turn", "answer"
        TASK = "task", "long task"
        IMAGE = "image", "description of an image"
        TITLE = "title", "title"

    state = models.CharField(max_length=8, choices=State.choices, default=State.SETTLED)
    purpose = models.CharField(max_length=8, choices=Purpose.choices, default=Purpose.TURN)
    run = models.ForeignKey(
        Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="model_calls"
    )
    attempt = models.PositiveIntegerField(default=0, help_text="Of the run or the task.")
    job_id = models.PositiveBigIntegerField(default=0, db_default=0)
    user = models.ForeignKey(
        User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    account_id = models.PositiveBigIntegerField(default=0)
    key_id = models.PositiveBigIntegerField(default=0)
    assistant_id = models.PositiveBigIntegerField(default=0)
    model_id = models.PositiveBigIntegerField(default=0)
    model_name = models.CharField(max_length=300, blank=True)
    prompt_tokens = models.PositiveBigIntegerField(default=0)
    cached_tokens = models.PositiveBigIntegerField(default=0)
    completion_tokens = models.PositiveBigIntegerField(default=0)
    reasoning_tokens = models.PositiveBigIntegerField(default=0)
    cost = models.PositiveBigIntegerField(default=0)
    estimated = models.BooleanField(default=False)
    failure = models.CharField(max_length=40, blank=True)
    # NULL where it is unknown, so that SQLite need not copy the table for the new column.
    milliseconds = models.PositiveBigIntegerField(null=True, blank=True)
    reserved = models.JSONField(default=list)
    day = models.DateField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [
            models.Index(fields=["day", "id"], name="model_calls_by_day"),
            models.Index(fields=["user", "day"], name="model_calls_of_user"),
            models.Index(fields=["id"], condition=Q(state="open"), name="open_model_calls"),
        ]

    def __str__(self) -> str:
        return f"{visible_line(self.model_name, 100)} ({self.state})"

    @property
    def seconds(self) -> float | None:
        """Return how long it took; None where that is unknown."""
        return None if self.milliseconds is None else self.milliseconds / 1000


class Budget(models.Model):
    """A limit of tokens, money or messages for a day or a month, in the owner's time zone.

    With one limit for all when no target is set; else for one of: person, API key (``key_id``),
    account, assistant. ``each_person``: the limit is for each person by themselves. ``limit``:
    tokens, messages, or billionths of a dollar.
    """

    class Unit(models.TextChoices):
        TOKENS = "tokens", "tokens"
        MONEY = "money", "dollars"
        MESSAGES = "messages", "messages"

    class Period(models.TextChoices):
        DAY = "day", "a day"
        MONTH = "month", "a month"

    unit = models.CharField(max_length=8, choices=Unit.choices, default=Unit.MONEY)
    period = models.CharField(max_length=8, choices=Period.choices, default=Period.MONTH)
    limit = models.PositiveBigIntegerField()
    each_person = models.BooleanField("for each person", default=False)
    user = models.ForeignKey(
        User, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    key_id = models.PositiveBigIntegerField(default=0)
    account = models.ForeignKey(
        ChannelAccount, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    assistant = models.ForeignKey(
        Assistant, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        is_money = self.unit == self.Unit.MONEY
        limit = f"${self.limit / 1_000_000_000:,.2f}" if is_money else f"{self.limit} {self.unit}"
        return f"budget {self.pk}: {limit} a {self.period}"


class BudgetPeriod(models.Model):
    """The state of a budget in a day or month. ``person``: of an ``each_person`` budget, else 0.

    ``spent`` + ``reserved`` never pass the limit by a reservation. ``measure``: the budget's unit
    and period: one that is edited begins anew. ``refused_at``: of the first call that did not fit.
    ``told_80_at``, ``told_100_at``: when the person and the owner were told.
    """

    budget = models.ForeignKey(Budget, on_delete=models.CASCADE, related_name="periods")
    person = models.PositiveBigIntegerField(default=0)
    measure = models.CharField(max_length=24, default="", db_default="")
    start = models.DateField()
    spent = models.PositiveBigIntegerField(default=0)
    reserved = models.PositiveBigIntegerField(default=0)
    refused_at = models.DateTimeField(null=True, blank=True)
    told_80_at = models.DateTimeField(null=True, blank=True)
    told_100_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["budget", "person", "measure", "start"], name="one_budget_period"
            )
        ]
        indexes = [models.Index(fields=["start"], name="budget_periods_by_start")]

    def __str__(self) -> str:
        return f"{self.budget_id} {self.start}: {self.spent}"


class UsageDay(models.Model):
    """The sum of the calls of a past day that have these values in common; 0 or empty for none.

    Written once, when the day has been over for a day. ``failure``: the code of failed calls.
    """

    day = models.DateField()
    user_id = models.PositiveBigIntegerField(default=0)
    account_id = models.PositiveBigIntegerField(default=0)
    key_id = models.PositiveBigIntegerField(default=0)
    assistant_id = models.PositiveBigIntegerField(default=0)
    model_id = models.PositiveBigIntegerField(default=0)
    model_name = models.CharField(max_length=300, blank=True)
    purpose = models.CharField(max_length=8, blank=True)
    failure = models.CharField(max_length=40, blank=True)
    calls = models.PositiveBigIntegerField(default=0)
    estimated = models.PositiveBigIntegerField(default=0)
    prompt_tokens = models.PositiveBigIntegerField(default=0)
    cached_tokens = models.PositiveBigIntegerField(default=0)
    completion_tokens = models.PositiveBigIntegerField(default=0)
    reasoning_tokens = models.PositiveBigIntegerField(default=0)
    cost = models.PositiveBigIntegerField(default=0)

    class Meta:
        indexes = [
            models.Index(fields=["day"], name="usage_by_day"),
            models.Index(fields=["user_id", "day"], name="usage_of_user"),
        ]

    def __str__(self) -> str:
        return f"{self.day} {self.model_name}: {self.calls}"
