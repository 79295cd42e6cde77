"""The installation: its version, its workers, its skills, its backups."""

from datetime import time

from django.db import models

from core.lib.text import visible_line


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
    files on each machine, to detect a folder that is not shared. ``models_version`` rises with
    each change of providers, models, assistants and budgets. ``setup``: the state of each step of
    the first run. ``secrets``: encrypted; the key that signs Web Push (``vapid``). ``restored_at``:
    when it was restored from a backup, and ``restored_from``: when that was made.
    ``certificate_ends_at``: of GATEWAY_URL, as it was at ``certificate_checked_at``.
    ``folded_until``, ``folded_run``: end and id of the last run whose event log was folded.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    version = models.CharField(max_length=40, blank=True, default="")
    files_mark = models.CharField(max_length=64, blank=True, default="")
    models_version = models.PositiveBigIntegerField(default=0, db_default=0)
    setup = models.JSONField(null=True, blank=True)
    secrets = models.TextField(default="", db_default="", blank=True, editable=False)
    restored_at = models.DateTimeField(null=True, blank=True)
    restored_from = models.DateTimeField(null=True, blank=True)
    certificate_checked_at = models.DateTimeField(null=True, blank=True)
    certificate_ends_at = models.DateTimeField(null=True, blank=True)
    folded_until = models.DateTimeField(null=True, blank=True)
    folded_run = models.PositiveBigIntegerField(default=0, db_default=0)

    def __str__(self) -> str:
        return self.version


class Alert(models.Model):
    """A trouble of the installation that lasts: seen -> told to the owners -> deleted when over.

    ``name``: of what is watched, such as ``disk:<machine>`` or ``key:<id>``.
    """

    name = models.CharField(max_length=100, primary_key=True)
    seen_at = models.DateTimeField()
    told_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return visible_line(self.name, 100)


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


class BackupSchedule(models.Model):
    """When backups are made: one row, with the id 1.

    ``at``: in the zone TIME_ZONE. ``next_at``: None until a worker has planned it.
    """

    class Day(models.IntegerChoices):
        """Every day, or ISO 8601's number of a weekday."""

        EVERY = 0, "Every day"
        MONDAY = 1, "Every Monday"
        TUESDAY = 2, "Every Tuesday"
        WEDNESDAY = 3, "Every Wednesday"
        THURSDAY = 4, "Every Thursday"
        FRIDAY = 5, "Every Friday"
        SATURDAY = 6, "Every Saturday"
        SUNDAY = 7, "Every Sunday"

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    is_on = models.BooleanField("on", default=False)
    day = models.PositiveSmallIntegerField(choices=Day, default=Day.EVERY)
    at = models.TimeField("time", default=time(3))
    next_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        verbose_name = verbose_name_plural = "backup schedule"

    def __str__(self) -> str:
        when = f"{self.Day(self.day).label}, {self.at:%H:%M}"
        return when if self.is_on else f"Off ({when})"


class Backup(models.Model):
    """A backup that was asked for, or made by a command.

    ``name``: its folder. ``rows``: 0 where they are not counted. ``lease_until``: of the worker
    that makes it. ``size``: bytes of its database and the files that it names.
    """

    class State(models.TextChoices):
        """``removed``: by the rule of what is kept."""

        WAITING = "waiting"
        RUNNING = "running"
        GOOD = "good"
        FAILED = "failed"
        REMOVED = "removed"

    class Cause(models.TextChoices):
        """The origin of the request."""

        SCHEDULE = "schedule"
        ADMIN = "admin"
        COMMAND = "command"

    state = models.CharField(max_length=8, choices=State, default=State.WAITING)
    cause = models.CharField(max_length=8, choices=Cause)
    asked_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    name = models.CharField(max_length=40, default="", blank=True)
    rows = models.PositiveBigIntegerField(default=0)
    files = models.PositiveBigIntegerField(default=0)
    size = models.PositiveBigIntegerField(default=0)
    has_keys = models.BooleanField(default=False)
    error = models.TextField(default="", blank=True)

    def __str__(self) -> str:
        return self.name or f"asked for {self.asked_at:%Y-%m-%d %H:%M}"
