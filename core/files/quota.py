"""Storage quota of a user: bytes and number of the files that the user sent."""

from django.conf import settings
from django.db.models import Count, Sum
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy

from core.models import StoredFile, User

MEGABYTE = 1024 * 1024
SENT = "sent"  # the origin of what counts


class QuotaExceededError(Exception):
    """The quota would be exceeded; the text is for the user."""


def check(*, user_id: int, size: int, number: int = 1) -> None:
    """Check that ``number`` more files of ``size`` bytes in total fit. Raises QuotaExceededError.

    Generated files do not count; a revoked one does until its bytes are removed.
    """
    most, most_files = settings.MAX_FILE_MEGABYTES_PER_USER, settings.MAX_FILES_PER_USER
    kept = StoredFile.objects.filter(user_id=user_id, origin=SENT, purged_at__isnull=True)
    now = kept.aggregate(size=Sum("size", default=0), number=Count("id"))
    too_large = most and now["size"] + size > most * MEGABYTE
    if too_large or (most_files and now["number"] + number > most_files):
        limit = f"{most} MB" if too_large else f"{most_files} files"
        raise QuotaExceededError(
            format_lazy(
                gettext_lazy(
                    "Not enough storage for this file: your limit is {limit}. Delete files that "
                    "you no longer need, or ask the owner."
                ),
                limit=limit,
            )
        )


def check_serialised(*, user_id: int, size: int) -> None:
    """Check as above, serialised per user. Inside the transaction that creates the row."""
    list(User.objects.select_for_update(no_key=True).filter(id=user_id).values_list("id"))
    check(user_id=user_id, size=size)
