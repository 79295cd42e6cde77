"""Stored files."""

from django.db import models
from django.db.models import Q

from core.lib.ids import public_id
from core.lib.text import visible_line
from core.models.conversations import ChatSession, Run
from core.models.people import User


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
            models.Index(fields=["created_at"], name="files_by_age"),
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
