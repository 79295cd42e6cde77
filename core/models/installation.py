"""The installation: its version, its workers, its skills."""

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
