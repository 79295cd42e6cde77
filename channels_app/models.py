"""Ratings of sources, and signatures that were seen."""

from django.conf import settings
from django.db import models

from core.lib.text import visible_line
from core.models import Run


class SeenSignature(models.Model):
    """A bridge's signature that was used ([D4]); stored while its time stamp is valid."""

    digest = models.CharField(max_length=64, unique=True)
    at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.digest[:12]


class SourceFeedback(models.Model):
    """A user's rating of one source of one run.

    ``source_id`` is unique within its retrieval, the message ``message_id`` of the run. Title,
    address and query are copied: the log of a run may be deleted earlier.
    """

    class Verdict(models.TextChoices):
        UP = "up", "useful"
        DOWN = "down", "not useful"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    message_id = models.CharField(max_length=200)
    source_id = models.CharField(max_length=200)
    verdict = models.CharField(max_length=8, choices=Verdict.choices)
    title = models.CharField(max_length=300, blank=True)
    url = models.CharField(max_length=1000, blank=True)
    query = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name_plural = "source feedback"
        constraints = [
            models.UniqueConstraint(
                fields=["run", "user", "message_id", "source_id"], name="one_thumb_a_source"
            )
        ]

    def __str__(self) -> str:
        return f"{self.verdict}: {visible_line(self.title or self.source_id, 80)}"
