"""The files in a message before it is a run: which wait to be fetched or described, and how much of
a person's quota they would take. The work itself: ``channels_app.worker.media``.
"""

import base64
import hashlib
from typing import Any

from django.db.models import QuerySet

from core.documents.sniffing import media_type
from core.files import storage
from core.models import StoredFile


def sizes_to_keep(items: list[dict[str, Any]], *, user_id: int) -> list[int]:
    """Return the bytes of each file in a message that would be stored anew, by its length."""
    found = []
    for item in items:
        url = data_url(item)
        if not (url and waits(item)):
            continue
        size = len(url.partition(",")[2]) * 3 // 4
        # Base64 pads to threes: one of these lengths is that of a file that was sent before.
        same = sent_files(size__range=(size - 2, size), user_id=user_id)
        if not (same.exists() and same.filter(sha256=digest_of(url)).exists()):
            found.append(size)
    return found


def waits(item: dict[str, Any]) -> bool:
    """Return whether a medium still has to be described; pictures in a data URL need not be."""
    if "text" in item:
        return False
    url = data_url(item)
    in_message = url != "" and not is_sent_as_picture(item)
    return "remote" in item or "upload" in item or in_message


def is_sent_as_picture(item: dict[str, Any]) -> bool:
    """Return whether a medium is a picture in a data URL, which goes to the model as it is."""
    url = data_url(item)
    return url != "" and item["kind"] == "image" and is_picture(url)


def data_url(item: dict[str, Any]) -> str:
    """Return the data URL of a medium; "" for one that is elsewhere."""
    url = item.get("url")
    return url if isinstance(url, str) and url.startswith("data:") else ""


def is_picture(url: str) -> bool:
    """Return whether a data URL holds a picture of a type that models take, by its first bytes."""
    start = url.partition(",")[2][:64]
    try:
        return media_type(base64.b64decode(start[: len(start) // 4 * 4])) in storage.PICTURES
    except ValueError:  # also for characters outside of ASCII
        return False


def digest_of(url: str) -> str:
    """Return the SHA-256 of the file in a data URL."""
    return hashlib.sha256(base64.b64decode(url.partition(",")[2])).hexdigest()


def sent_files(**fields: Any) -> QuerySet[StoredFile]:
    """Return the stored files that a person sent, with these fields: clients repeat files."""
    return StoredFile.objects.filter(**fields, origin=storage.SENT, revoked_at=None, purged_at=None)
