"""Turn the media of a run into text before the agent sees them ([C6]).

Each is fetched once, stored as a ``StoredFile`` and described; the description is stored at once,
so that another attempt of the run does not repeat it. Failures are reported to the user.
"""

import asyncio
import base64
import hashlib
import logging
import mimetypes
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from channels_app import registry
from channels_app.base import Account, Channel, ChannelError, Downloads, RemoteFile
from channels_app.delivery.sending import account_of
from core.conversations.events import LostLeaseError
from core.database.statements import Said
from core.database.transactions import atomic_write, in_thread, patiently
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

MEGABYTE = 1024 * 1024
SILENT = "No word is heard in it."
UNOPENED = "A picture could not be opened; please send it as JPEG or PNG."
FETCH_WAITS = (1.0, 4.0)  # seconds before a file is fetched again
LONGEST_WAIT = 30.0
# Pictures of earlier messages: at most, and of so many messages.
EARLIER_PICTURES, LOOKED_BACK = 4, 10
# The last pictures that were made, by the file's public id: the next turns of a chat send them,
# too, and to make one takes a process of its own.
made_pictures: dict[str, str] = {}
MADE_PICTURES = 16


def is_waiting(run: Run) -> bool:
    """Return whether media of this run must still be fetched, stored or described."""
    return any(waits(item) for item in run.route.get("media", []))


def waits(item: dict[str, Any]) -> bool:
    """Return whether a medium is not described yet. Pictures in a data URL go to the model
    itself."""
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


async def prepare(run: Run, describer: Describer) -> dict[str, str]:
    """Fetch and describe the media of ``run``, and put the descriptions into its text.

    Returns the pictures that were made for a model on the way, by the file's public id.
    """
    made: dict[str, str] = {}
    channel = registry.get(run.session.account.channel)
    messages = await in_thread(messages_of, run.id)
    for message in messages:
        for item in message.media:
            if waits(item):
                item.update(await understood(run, channel, message, item, made, describer))
                for name in ("upload", *(["url"] if "file" in item else [])):
                    item.pop(name, None)
                await in_thread(keep, run, message)
    await in_thread(rewrite, run, messages)
    return made


async def pictures(run: Run, made: dict[str, str]) -> dict[str, str]:
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
        url = made.get(item["file"]) or await picture_of_file(run, item)
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
    """Return the id and the media of each of these messages of a person that has any, newest first;
    none of a failed run.
    """
    rows = Message.objects.filter(id__in=ids, role="user").exclude(run__state=Run.State.FAILED)
    given = rows.order_by("-id").values_list("id", "data__media")
    return [(name, media) for name, media in given if media]


async def picture_of(run: Run, item: dict[str, Any]) -> str:
    """Return the picture of one medium as a data URL, made from its file unless it is one; "" for
    none.
    """
    return data_url(item) or await picture_of_file(run, item)


async def picture_of_file(run: Run, item: dict[str, Any]) -> str:
    """Return the picture of one medium, from its stored file; "" if that is gone."""
    stored = await known_file(run, item)
    return await seen_picture(stored, item["kind"], item.get("duration")) if stored else ""


async def seen_picture(stored: StoredFile, kind: str, duration: int | None) -> str:
    """Return a picture, or a frame of a film, as a data URL; "" where there is none."""
    url = made_pictures.pop(stored.public_id, "") or await new_picture(stored, kind, duration)
    if url:
        made_pictures[stored.public_id] = url
        for oldest in list(made_pictures)[:-MADE_PICTURES]:
            del made_pictures[oldest]
    return url


async def new_picture(stored: StoredFile, kind: str, duration: int | None) -> str:
    """Make such a picture."""
    if kind == "video":
        content = await frame.of_video(storage.path_of(stored), duration=duration)
        return picture.url_of(content) if content is not None else ""
    return await picture.data_url(storage.path_of(stored))


def refusals(run: Run) -> list[str]:
    """Return the texts about files that were not stored or not opened, which the user gets whatever
    the model says.
    """
    found = [item["refused"] for item in run.route.get("media", []) if "refused" in item]
    return list(dict.fromkeys(found))


def messages_of(run_id: int) -> list[InboundMessage]:
    """Return the messages of a run, in order."""
    return list(InboundMessage.objects.filter(run_id=run_id).order_by("id"))


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
    run.text = "\n".join(text for text in map(spoken, messages) if text)
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


def is_placed(item: dict[str, Any]) -> bool:
    """Return whether a medium stands in an earlier message of its client's history, and not in the
    text of the run.
    """
    return "place" in item


def spoken(message: InboundMessage) -> str:
    """Return the text of a message: its media in words, and its text, unless it is the caption of
    one of them.
    """
    texts = [item["text"] for item in message.media if "text" in item and not is_placed(item)]
    if captioned(message) is None and message.text:
        texts.append(message.text)
    return "\n".join(texts)


def captioned(message: InboundMessage) -> dict[str, Any] | None:
    """Return the medium of which the text of a message is the caption: its first one in words, but
    none that it quotes.
    """
    own = (item for item in message.media if "quoted" not in item and not is_placed(item))
    return next((item for item in own if "text" in item or waits(item)), None)


async def understood(
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
        stored = await known_file(run, item) or await noted_file(run, channel, message, item)
    except (ChannelError, quota.QuotaExceededError, storage.NotStoredError) as error:
        logger.info("a medium could not be fetched: %s", error)
        words = {"text": told(item, replace(medium, failed=True, note=str(error)))}
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
    medium = await in_words(medium, stored, describer, is_seen=bool(url))
    found = {"text": told(item, medium), "file": stored.public_id, "kind": kind}
    if medium.note == UNOPENED:
        return {**found, "refused": UNOPENED}
    return {**found, "seen": True} if url else found


def told(item: dict[str, Any], medium: Medium) -> str:
    """Return the text for a medium. The content of a document is marked as quoted, since its sender
    does not say it; so is all of a medium of another's message.
    """
    if "quoted" in item:
        return quote(media_text(medium), sender=item["quoted"])
    if medium.excerpt:
        medium = replace(medium, excerpt=quote(medium.excerpt, sender=medium.name))
    return media_text(medium)


def kind_of(said: str, stored: StoredFile) -> str:
    """Return the kind of a stored file by its content: image, audio, video, or document."""
    found = family(stored.content_type)
    if found:
        return found
    if said in MEDIA_KINDS and stored.content_type in {"application/octet-stream", ""}:
        return said
    return said if said not in MEDIA_KINDS else "file"


async def known_file(run: Run, item: dict[str, Any]) -> StoredFile | None:
    """Return the file of a medium that was fetched before; None without any."""
    own = StoredFile.objects.filter(user_id=run.user_id, purged_at=None, revoked_at=None)
    name = item.get("file")
    return await in_thread(own.filter(public_id=name).first) if name else None


async def noted_file(
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


async def stored_of(run: Run, channel: Channel | None, item: dict[str, Any]) -> StoredFile:
    """Return the stored file of a medium: uploaded before, in the message, or on its platform.

    Raises ChannelError.
    """
    if "upload" in item:
        return await in_thread(uploaded, run, str(item["upload"]))
    if "url" in item:
        return await in_thread(from_data_url, run, item)
    if channel is None:
        raise ChannelError("this channel gives no files", permanent=True)
    remote = RemoteFile(item["remote"], item.get("name", ""), item.get("size", 0))
    return await fetch(run, channel, remote, item)


def uploaded(run: Run, name: str) -> StoredFile:
    """Return the file that the run's own user uploaded; it belongs to the session from now on.

    One of another session, with which it is deleted, is copied. Raises ChannelError.
    """
    own = StoredFile.objects.filter(
        public_id=name, user_id=run.user_id, revoked_at__isnull=True, purged_at__isnull=True
    )
    with atomic_write():
        own.filter(session__isnull=True).update(session_id=run.session_id, run_id=run.id)
    file = own.first()
    if file is None:
        raise ChannelError("there is no such uploaded file", permanent=True)
    return file if file.session_id == run.session_id else copied(run, file)


def copied(run: Run, file: StoredFile) -> StoredFile:
    """Return the copy of a file of another session, for the session of ``run``. Raises
    ChannelError.
    """
    same = sent_files(session_id=run.session_id, sha256=file.sha256).first()
    if same is not None:
        return same
    try:
        content = storage.read(file)
    except OSError as error:
        raise ChannelError("there is no such uploaded file", permanent=True) from error
    return storage.keep(
        user=run.user,
        name=file.name,
        content=content,
        session_id=run.session_id,
        run_id=run.id,
    )


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


def digest_of(url: str) -> str:
    """Return the SHA-256 of the file in a data URL."""
    return hashlib.sha256(base64.b64decode(url.partition(",")[2])).hexdigest()


def sent_files(**fields: Any) -> QuerySet[StoredFile]:
    """Return the files with these fields that a person has sent, and that are there still: clients
    repeat themselves.
    """
    return StoredFile.objects.filter(**fields, origin=storage.SENT, revoked_at=None, purged_at=None)


def from_data_url(run: Run, item: dict[str, Any]) -> StoredFile:
    """Store the file in a data URL. Raises ChannelError."""
    head, _, data = item["url"].partition(",")
    mime = head.removeprefix("data:").partition(";")[0]
    try:
        content = base64.b64decode(data, validate=True)
    except ValueError as error:
        raise ChannelError("the file is damaged", permanent=True) from error
    # A client that keeps the history sends the same document with every message.
    digest = hashlib.sha256(content).hexdigest()
    same = sent_files(session_id=run.session_id, sha256=digest).first()
    if same is not None:
        return same
    name = item.get("name") or f"{item['kind']}{mimetypes.guess_extension(mime) or ''}"
    return storage.keep(
        user=run.user, name=name, content=content, session_id=run.session_id, run_id=run.id
    )


async def fetch(run: Run, channel: Channel, remote: RemoteFile, item: dict[str, Any]) -> StoredFile:
    """Download and store one file; its size is checked first. Raises ChannelError."""
    if not isinstance(channel.outbound, Downloads):
        raise ChannelError("this channel gives no files", permanent=True)
    most = channel.outbound.max_download_bytes
    check_size(remote.size, most)
    await in_thread(quota.check, user_id=run.user_id, size=remote.size)
    account = account_of(run.session.account)
    content = await downloaded(channel.outbound, account, remote)
    check_size(len(content), most)  # a platform may name another size, or none
    if "quoted" in item:  # it may be of this conversation
        digest = hashlib.sha256(content).hexdigest()
        own = StoredFile.objects.filter(session_id=run.session_id, revoked_at=None, purged_at=None)
        known = await in_thread(own.filter(sha256=digest).first)
        if known is not None:
            return known
    return await in_thread(
        storage.keep,
        user=run.user,
        name=remote.name or f"{item['kind']}.{EXTENSIONS.get(item['kind'], 'bin')}",
        content=content,
        session_id=run.session_id,
        run_id=run.id,
    )


async def downloaded(outbound: Downloads, account: Account, remote: RemoteFile) -> bytes:
    """Return the content of a file; it is asked for again after failures that pass, such as a rate
    limit. Raises ChannelError.
    """
    for seconds in FETCH_WAITS:
        try:
            return await download(outbound, account, remote)
        except ChannelError as error:
            if error.permanent:
                raise
            logger.info("a file is fetched again: %s", error)
            wanted = seconds if error.retry_after is None else error.retry_after
            await asyncio.sleep(min(wanted, LONGEST_WAIT))
    return await download(outbound, account, remote)


async def download(outbound: Downloads, account: Account, remote: RemoteFile) -> bytes:
    """Return the content of a file. Raises ChannelError, whatever the channel raises."""
    try:
        return await outbound.download_media(account=account, file=remote)
    except ChannelError:
        raise
    except Exception as error:  # another package's: the message is answered without the file
        logger.exception("the channel of %s failed to fetch a file", account.name)
        raise ChannelError("the file could not be fetched") from error


def check_size(size: int, most: int) -> None:
    """Raise ChannelError for a file of more than ``most`` bytes."""
    if size > most:
        raise ChannelError(
            f"the file has {size / MEGABYTE:.0f} MB; at most {most // MEGABYTE} MB can be fetched",
            permanent=True,
        )


READ_AT_ONCE_BYTES = 1024 * 1024
EXTENSIONS = {"image": "jpg", "audio": "ogg", "video": "mp4"}
MEDIA_KINDS = frozenset(EXTENSIONS)


async def in_words(
    medium: Medium, stored: StoredFile, describer: Describer, *, is_seen: bool
) -> Medium:
    """Return the medium with the description by a model or Whisper; a failure is a note.

    ``is_seen``: the picture itself goes to the model and needs no description.
    """
    try:
        if medium.kind == "image" and is_seen:
            return medium
        if medium.kind == "image":
            description = await looked_at(stored, describer)
            note = UNOPENED if describer.is_needless and not description else ""
            return replace(medium, description=description, note=note)
        if medium.kind == "audio":
            transcript = await heard(stored, describer)
            is_silent = not transcript and transcribe.is_available()
            return replace(medium, transcript=transcript, note=SILENT if is_silent else "")
        if medium.kind == "video":
            return await seen(medium, stored, describer, is_seen=is_seen)
        if stored.size <= READ_AT_ONCE_BYTES:
            return replace(medium, excerpt=await excerpt(stored, describer.models))
    except (ProviderError, transcribe.TranscriptionError, documents.DocumentError) as error:
        return replace(medium, note=str(error))
    except OSError:
        logger.exception("a kept file cannot be read")
        return replace(medium, note="The file could not be read.")
    return medium


async def looked_at(stored: StoredFile, describer: Describer) -> str:
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


async def heard(stored: StoredFile, describer: Describer) -> str:
    """Return the transcript of a recording. Raises as ``Describer.recording`` does."""
    path = storage.path_of(stored)
    return await describer.recording(path, name=stored.name, size=stored.size)


async def seen(
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
        transcript = await heard(stored, describer)
    except transcribe.TranscriptionError:
        transcript = ""  # a video without sound is no failure
    return replace(medium, description=description, transcript=transcript)
