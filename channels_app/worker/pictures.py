"""The pictures that a model with vision gets with a run, as data URLs: those of its own files (a
frame of each film), and the newest of the messages before it.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from django.conf import settings

from channels_app.intake.media import data_url, is_sent_as_picture
from channels_app.worker.media_files import known_file
from core.database.statements import Said
from core.database.transactions import patiently
from core.files import storage
from core.media import frame, picture
from core.models import Message, Run, StoredFile

# Pictures of earlier messages: at most, and of so many messages.
EARLIER_PICTURES, LOOKED_BACK = 4, 10
# The last pictures that were made, by the file's public id: the next turns of a chat send them,
# too, and to make one takes a process of its own.
made_pictures: dict[str, str] = {}
MADE_PICTURES = 16


async def pictures_of(run: Run, made: dict[str, str]) -> dict[str, str]:
    """Return the pictures of a run's files (a frame of each film) as data URLs, for a vision model,
    by the file's public id: at most MAX_ATTACHMENTS, and the run's text says so.

    ``made`` are those that exist already.
    """
    found: dict[str, str] = {}
    seen = [item for item in run.route.get("media", []) if item.get("seen")]
    most = settings.MAX_ATTACHMENTS
    if len(seen) > most:  # several albums at once
        run.text += f"\n[Only the first {most} of these {len(seen)} pictures are shown.]"
    for item in seen[:most]:
        url = made.get(item["file"]) or await picture_of(run, item)
        found |= {item["file"]: url} if url else {}
    return found


async def earlier_pictures(run: Run, earlier: Sequence[Said]) -> dict[int, list[str]]:
    """Return the newest pictures of the last messages before a run, as data URLs by the message's
    id: a question may be about them. None of a run that has failed, maybe for its picture.
    """
    found: dict[int, list[str]] = {}
    most, ids = EARLIER_PICTURES, [said.id for said in earlier[:LOOKED_BACK]]
    for name, items in await patiently(partial(media_of, ids)):
        shown = [item for item in items if item.get("seen") or is_sent_as_picture(item)][:most]
        most -= len(shown)
        urls = await asyncio.gather(*(picture_of(run, item) for item in shown))
        found[name] = [url for url in urls if url]
    return found


def media_of(ids: Sequence[int]) -> list[tuple[int, list[dict[str, Any]]]]:
    """Return id and media of these messages, newest first; none of a failed run."""
    rows = Message.objects.filter(id__in=ids, role="user").exclude(run__state=Run.State.FAILED)
    given = rows.order_by("-id").values_list("id", "data__media")
    return [(name, media) for name, media in given if media]


async def picture_of(run: Run, item: dict[str, Any]) -> str:
    """Return one picture as a data URL, from its stored file if needed; "" if that is gone."""
    if url := data_url(item):
        return url
    stored = await known_file(run, item)
    return await seen_picture(stored, item["kind"], item.get("duration")) if stored else ""


async def seen_picture(stored: StoredFile, kind: str, duration: int | None) -> str:
    """Return a picture, or a frame of a film, as a data URL; "" where there is none."""
    url = made_pictures.pop(stored.public_id, "")
    if not url and kind == "video":
        content = await frame.of_video(storage.path_of(stored), duration=duration)
        url = picture.url_of(content) if content is not None else ""
    elif not url:
        url = await picture.data_url(storage.path_of(stored))
    if url:
        made_pictures[stored.public_id] = url
        for oldest in list(made_pictures)[:-MADE_PICTURES]:
            del made_pictures[oldest]
    return url
