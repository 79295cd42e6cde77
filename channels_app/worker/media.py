"""Turn the media of a run into text before the agent sees them ([C6]).

    prepare ─► each medium that waits: describe_item ─► its file ─► describe_content ─► keep
            └► rewrite: the run's text and its line of the transcript have the descriptions

Each is fetched once, stored as a ``StoredFile`` and described; the description is stored at once,
so that another attempt of the run does not repeat it. Failures are reported to the user.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.conf import settings

from channels_app import registry
from channels_app.base import Channel, ChannelError
from channels_app.intake.media import waits
from channels_app.worker.media_files import EXTENSIONS, known_file, stored_of
from channels_app.worker.pictures import seen_picture
from core.conversations.events import LostLeaseError
from core.database.transactions import atomic_write, in_thread
from core.documents import read as documents
from core.documents.sniffing import family, media_type
from core.files import quota, storage
from core.lib.text import quote
from core.lib.tokens import estimate
from core.media import frame, picture, transcribe
from core.media.describe import Describer
from core.media.text import Medium, media_text
from core.models import InboundMessage, Message, Run, StoredFile
from core.providers.base import ProviderError
from core.providers.catalogue import ModelInfo, window_of

logger = logging.getLogger(__name__)

SILENT = "No word is heard in it."
UNOPENED = "A picture could not be opened; please send it as JPEG or PNG."
READ_AT_ONCE_BYTES = 1024 * 1024
MEDIA_KINDS = frozenset(EXTENSIONS)


def is_waiting(run: Run) -> bool:
    """Return whether media of this run must still be fetched, stored or described."""
    return any(waits(item) for item in run.route.get("media", []))


def refusals(run: Run) -> list[str]:
    """Return the errors about files that the user gets, whatever the model says."""
    found = [item["refused"] for item in run.route.get("media", []) if "refused" in item]
    return list(dict.fromkeys(found))


async def prepare(run: Run, describer: Describer) -> dict[str, str]:
    """Fetch and describe the media of ``run``, and put the descriptions into its text.

    Returns the pictures that were made for a model on the way, by the file's public id.
    """
    made: dict[str, str] = {}
    channel = registry.get(run.session.account.channel)
    messages = await in_thread(
        list[InboundMessage], InboundMessage.objects.filter(run_id=run.id).order_by("id")
    )
    for message in messages:
        for item in message.media:
            if waits(item):
                item.update(await describe_item(run, channel, message, item, made, describer))
                for name in ("upload", *(["url"] if "file" in item else [])):
                    item.pop(name, None)
                await in_thread(keep, run, message)
    await in_thread(rewrite, run, messages)
    return made


def keep(run: Run, message: InboundMessage) -> None:
    """Store the descriptions of the media of one message. Raises LostLeaseError when another worker
    has claimed the run since, which describes them itself.
    """
    with atomic_write():
        ours = InboundMessage.objects.filter(id=message.id, run__attempt=run.attempt)
        if not ours.update(media=message.media):
            raise LostLeaseError(run.id)


def rewrite(run: Run, messages: list[InboundMessage]) -> None:
    """Put the descriptions into the run and its line of the transcript. Raises LostLeaseError."""
    run.text = "\n".join(text for text in map(text_of, messages) if text)
    given = [item for message in messages for item in message.media]
    media = [without_remote(item) for item in given]
    in_place = [
        {**shown, "text": item["text"], "place": item["place"]} if is_placed(item) else shown
        for shown, item in zip(media, given, strict=True)
    ]
    run.route = {**run.route, "media": in_place}
    with atomic_write():
        ours = Run.objects.filter(id=run.id, attempt=run.attempt)
        if not ours.update(text=run.text, route=run.route):
            raise LostLeaseError(run.id)
        said = "\n".join(message.text for message in messages if message.text)
        for row in Message.objects.filter(run_id=run.id, role="user"):
            row.text, row.tokens = run.text, estimate(run.text)
            row.data = {**row.data, "media": media, "said": said}  # a client may know it by an id
            row.save(update_fields=["text", "tokens", "data"])


def without_remote(item: dict[str, Any]) -> dict[str, Any]:
    """Return a medium that waits for nothing any more."""
    return {key: value for key, value in item.items() if key not in {"remote", "text", "place"}}


def text_of(message: InboundMessage) -> str:
    """Return a message as text: its described media, then its text unless that is a caption."""
    texts = [item["text"] for item in message.media if "text" in item and not is_placed(item)]
    if captioned(message) is None and message.text:
        texts.append(message.text)
    return "\n".join(texts)


def captioned(message: InboundMessage) -> dict[str, Any] | None:
    """Return the medium that the message's text captions: its first own one that is described."""
    own = (item for item in message.media if "quoted" not in item and not is_placed(item))
    return next((item for item in own if "text" in item or waits(item)), None)


def is_placed(item: dict[str, Any]) -> bool:
    """Return whether a medium belongs to an earlier message of the client's history."""
    return "place" in item


async def describe_item(
    run: Run,
    channel: Channel | None,
    message: InboundMessage,
    item: dict[str, Any],
    made: dict[str, str],
    describer: Describer,
) -> dict[str, Any]:
    """Return the additions to one medium: its description, its kind, and the handle of the stored
    file.

    The kind follows from the content, not from the declared type. ``made`` gets the picture of one
    that goes to the model itself.
    """
    medium = Medium(
        kind=item["kind"],
        mime=item.get("mime", ""),
        name=item.get("name", ""),
        duration=item.get("duration"),
        caption=message.text if item is captioned(message) else "",
    )
    try:
        stored = await known_file(run, item) or await fetched_file(run, channel, message, item)
    except (ChannelError, quota.QuotaExceededError, storage.NotStoredError) as error:
        logger.info("a medium could not be fetched: %s", error)
        words = {"text": text_for(item, replace(medium, failed=True, note=str(error)))}
        return words if isinstance(error, ChannelError) else {**words, "refused": str(error)}
    kind = kind_of(item["kind"], stored)
    medium = replace(
        medium, kind=kind, file=f"/files/{stored.public_id}", name=medium.name or stored.name
    )
    url = ""
    if kind in {"image", "video"} and describer.is_needless:
        url = await seen_picture(stored, kind, medium.duration)
    if url:
        made[stored.public_id] = url
    medium = await describe_content(medium, stored, describer, is_seen=bool(url))
    found = {"text": text_for(item, medium), "file": stored.public_id, "kind": kind}
    if medium.note == UNOPENED:
        return {**found, "refused": UNOPENED}
    return {**found, "seen": True} if url else found


async def fetched_file(
    run: Run, channel: Channel | None, message: InboundMessage, item: dict[str, Any]
) -> StoredFile:
    """Return the stored file of a medium. One that was fetched is noted in the message at once: to
    describe it may take minutes. Raises ChannelError, QuotaExceededError and NotStoredError.
    """
    stored = await stored_of(run, channel, item)
    if "remote" in item:
        item["file"] = stored.public_id
        await in_thread(keep, run, message)
    return stored


def kind_of(said: str, stored: StoredFile) -> str:
    """Return the kind of a stored file by its content: image, audio, video, or document."""
    if found := family(stored.content_type):
        return found
    is_unknown = stored.content_type in {"application/octet-stream", ""}
    return said if is_unknown or said not in MEDIA_KINDS else "file"


async def describe_content(
    medium: Medium, stored: StoredFile, describer: Describer, *, is_seen: bool
) -> Medium:
    """Return the medium with the description by a model or Whisper; a failure is a note.

    ``is_seen``: the picture itself goes to the model and needs no description.
    """
    try:
        if medium.kind == "image" and is_seen:
            return medium
        if medium.kind == "image":
            description = await describe_picture(stored, describer)
            note = UNOPENED if describer.is_needless and not description else ""
            return replace(medium, description=description, note=note)
        if medium.kind == "audio":
            transcript = await transcript_of(stored, describer)
            is_silent = not transcript and transcribe.is_available()
            return replace(medium, transcript=transcript, note=SILENT if is_silent else "")
        if medium.kind == "video":
            return await describe_video(medium, stored, describer, is_seen=is_seen)
        if stored.size <= READ_AT_ONCE_BYTES:
            return replace(medium, excerpt=await excerpt(stored, describer.models))
    except (ProviderError, transcribe.TranscriptionError, documents.DocumentError) as error:
        return replace(medium, note=str(error))
    except OSError:
        logger.exception("a kept file cannot be read")
        return replace(medium, note="The file could not be read.")
    return medium


async def describe_picture(stored: StoredFile, describer: Describer) -> str:
    """Return the description of a picture, upright and scaled down like one that a model sees
    itself; "" without a vision model. Raises ProviderError and OSError.
    """
    if describer.is_blind:
        return ""
    content = await picture.scaled(storage.path_of(stored))
    if content:
        return await describer.image(content, content_type=media_type(content[:64]))
    content = await in_thread(storage.read, stored)  # of a kind that only the model may know
    return await describer.image(content, content_type=stored.content_type)


async def transcript_of(stored: StoredFile, describer: Describer) -> str:
    """Return the transcript of a recording. Raises as ``Describer.recording`` does."""
    path = storage.path_of(stored)
    return await describer.recording(path, name=stored.name, size=stored.size)


async def describe_video(
    medium: Medium, stored: StoredFile, describer: Describer, *, is_seen: bool
) -> Medium:
    """Return the description of a video: a frame, unless it goes to the model, and the
    transcript."""
    description = ""
    content = (
        None if is_seen else await frame.of_video(storage.path_of(stored), duration=medium.duration)
    )
    if content is not None:
        description = await describer.image(content, content_type="image/jpeg")
    try:
        transcript = await transcript_of(stored, describer)
    except transcribe.TranscriptionError:
        transcript = ""  # a video without sound is no failure
    return replace(medium, description=description, transcript=transcript)


async def excerpt(stored: StoredFile, models: Sequence[ModelInfo]) -> str:
    """Return the text of a document that is short for ``models``; "" for a long one, which
    ``document_read`` reads.

    Raises DocumentError.
    """
    found = await documents.parts(
        storage.path_of(stored), name=stored.name, most_megabytes=settings.DOCUMENT_MEGABYTES
    )
    text = "\n\n".join(f"[{name}] {words}" if name else words for name, words in found)
    return text if estimate(text) <= window_of(models) // 4 else ""


def text_for(item: dict[str, Any], medium: Medium) -> str:
    """Return the text for a medium. The content of a document is marked as quoted, since its sender
    does not say it; so is all of a medium of another's message.
    """
    if "quoted" in item:
        return quote(media_text(medium), sender=item["quoted"])
    if medium.excerpt:
        medium = replace(medium, excerpt=quote(medium.excerpt, sender=medium.name))
    return media_text(medium)
