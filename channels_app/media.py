"""The media of a run become text before the agent sees them ([C6]).

Each is fetched once, kept as a ``StoredFile`` and turned into words; what was understood is
written down at once, so that a run that is tried again does not do it again. Failures are told.
"""

import logging
from dataclasses import replace
from typing import Any

from channels_app import registry
from channels_app.base import Channel, ChannelError, Downloads, RemoteFile
from channels_app.sending import account_of
from core import files
from core.db import in_thread, write
from core.media import describe, frame, transcribe
from core.media.text import Medium, media_text
from core.models import InboundMessage, Message, Run, StoredFile
from core.providers.base import ProviderError
from core.tokens import estimate

logger = logging.getLogger(__name__)

MEGABYTE = 1024 * 1024


def is_waiting(run: Run) -> bool:
    """Whether media of this run still wait on their platform."""
    return any("remote" in item for item in run.route.get("media", []))


async def prepare(run: Run) -> None:
    """Fetch and understand the media of ``run``; its text then says what they are."""
    channel = registry.get(run.session.account.channel)
    messages = await in_thread(messages_of, run.id)
    for message in messages:
        for number, item in enumerate(message.media):
            if "remote" in item and "text" not in item and channel is not None:
                # Only one item of a message carries its caption.
                caption = message.text if number == 0 else ""
                item.update(await understood(run, channel, item, caption))
                await in_thread(keep, message)
    await in_thread(rewrite, run, messages)


def messages_of(run_id: int) -> list[InboundMessage]:
    """The messages of a run, in order."""
    return list(InboundMessage.objects.filter(run_id=run_id).order_by("id"))


def keep(message: InboundMessage) -> None:
    """Write down what was understood of the media of one message."""
    with write():
        InboundMessage.objects.filter(id=message.id).update(media=message.media)


def rewrite(run: Run, messages: list[InboundMessage]) -> None:
    """Put the words into the run and its line of the transcript."""
    run.text = "\n".join(text for text in map(spoken, messages) if text)
    media = [without_remote(item) for message in messages for item in message.media]
    run.route = {**run.route, "media": media}
    with write():
        Run.objects.filter(id=run.id).update(text=run.text, route=run.route)
        Message.objects.filter(run_id=run.id, role="user").update(
            text=run.text, tokens=estimate(run.text), data={"media": media}
        )


def without_remote(item: dict[str, Any]) -> dict[str, Any]:
    """A medium that waits for nothing any more."""
    return {key: value for key, value in item.items() if key not in {"remote", "text"}}


def spoken(message: InboundMessage) -> str:
    """What one message says: its media in words (captions included), else its text."""
    texts = [item["text"] for item in message.media if "text" in item]
    return "\n".join(texts) if texts else message.text


async def understood(
    run: Run, channel: Channel, item: dict[str, Any], caption: str
) -> dict[str, Any]:
    """What is added to one medium: the words for it, and the handle of the kept file."""
    medium = Medium(
        kind=item["kind"],
        mime=item.get("mime", ""),
        name=item.get("name", ""),
        duration=item.get("duration"),
        caption=caption,
    )
    remote = RemoteFile(item["remote"], item.get("name", ""), item.get("size", 0))
    try:
        stored = await fetch(run, channel, remote, item)
    except ChannelError as error:
        logger.info("a medium could not be fetched: %s", error)
        return {"text": media_text(replace(medium, failed=True, note=str(error)))}
    medium = replace(medium, file=f"/files/{stored.public_id}")
    medium = await in_words(medium, stored)
    return {"text": media_text(medium), "file": stored.public_id}


async def fetch(run: Run, channel: Channel, remote: RemoteFile, item: dict[str, Any]) -> StoredFile:
    """Download and keep one file; its size is looked at first. Raises ChannelError."""
    if not isinstance(channel.outbound, Downloads):
        raise ChannelError("this channel gives no files", permanent=True)
    most = channel.outbound.max_download_bytes
    if remote.size > most:
        raise ChannelError(
            f"the file has {remote.size / MEGABYTE:.0f} MB; at most {most // MEGABYTE} MB can be "
            "fetched",
            permanent=True,
        )
    content = await channel.outbound.download_media(
        account=account_of(run.session.account), file=remote
    )
    return await in_thread(
        files.keep,
        user=run.user,
        name=remote.name or f"{item['kind']}.{EXTENSIONS.get(item['kind'], 'bin')}",
        content=content,
        session_id=run.session_id,
        run_id=run.id,
    )


EXTENSIONS = {"image": "jpg", "audio": "ogg", "video": "mp4"}


async def in_words(medium: Medium, stored: StoredFile) -> Medium:
    """The medium with what a model or Whisper made of it; a failure is a note."""
    try:
        if medium.kind == "image":
            content = await in_thread(files.read, stored)
            said = await describe.image(content, content_type=stored.content_type)
            return replace(medium, description=said)
        if medium.kind == "audio":
            return replace(medium, transcript=await heard(stored))
        if medium.kind == "video":
            return await seen(medium, stored)
    except (ProviderError, transcribe.TranscriptionError) as error:
        return replace(medium, note=str(error))
    return medium


async def heard(stored: StoredFile) -> str:
    """What is said in a recording."""
    return await transcribe.speech(files.path_of(stored), name=stored.name)


async def seen(medium: Medium, stored: StoredFile) -> Medium:
    """A video: a frame of it in words, and what is said in it."""
    picture = await frame.of_video(files.path_of(stored), duration=medium.duration)
    description = ""
    if picture is not None:
        description = await describe.image(picture, content_type="image/jpeg")
    try:
        transcript = await heard(stored)
    except transcribe.TranscriptionError:
        transcript = ""  # a video without sound is none the worse
    return replace(medium, description=description, transcript=transcript)
