"""How much one person may keep here: bytes and number of the files that they sent."""

from django.conf import settings
from django.db.models import Count, Sum

from core.models import StoredFile, User

MEGABYTE = 1024 * 1024
SENT = "sent"  # the origin of what counts


class NoRoomError(Exception):
    """What a person sends would be more than they may keep; the text is for them."""


def check(*, user_id: int, size: int, number: int = 1) -> None:
    """Whether ``number`` more files of together ``size`` bytes may be kept. Raises NoRoomError.

    Files made here do not count; one that was taken back does until its bytes are gone.
    """
    most, most_files = settings.MAX_FILE_MEGABYTES_PER_USER, settings.MAX_FILES_PER_USER
    kept = StoredFile.objects.filter(user_id=user_id, origin=SENT, purged_at__isnull=True)
    now = kept.aggregate(size=Sum("size", default=0), number=Count("id"))
    too_large = most and now["size"] + size > most * MEGABYTE
    if too_large or (most_files and now["number"] + number > most_files):
        limit = f"{most} MB" if too_large else f"{most_files} files"
        raise NoRoomError(
            f"Not enough storage for this file: your limit is {limit} here. Delete files that you "
            "no longer need, or ask the owner."
        )


def check_alone(*, user_id: int, size: int) -> None:
    """The same, one at a time for each person. Inside the transaction that makes the row."""
    list(User.objects.select_for_update(no_key=True).filter(id=user_id).values_list("id"))
    check(user_id=user_id, size=size)
