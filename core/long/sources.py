"""What a job is about: a document, a text, a topic, or the conversation so far."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from core import files
from core.db import in_thread
from core.documents import read as documents
from core.ids import is_public_id
from core.long.host import Host
from core.models import Job, Message, StoredFile
from core.plugins.base import PluginError, Source
from core.text import one_line

TITLE_CHARACTERS = 120
LAST_LINES = 60
LONG_TEXT = 600
GONE = "The document was not found."


async def of(job: Job, parameters: Mapping[str, Any], host: Host) -> Source:
    """The source that ``parameters`` name: ``file``, ``text`` or ``topic``; else what is at hand:
    a document of this message or of the conversation, or the conversation itself.

    Raises PluginError.
    """
    text, topic = str(parameters.get("text") or ""), str(parameters.get("topic") or "")
    file = await in_thread(
        file_of, job, str(parameters.get("file") or ""), has_words=bool(text or topic)
    )
    if file is not None:
        return await of_file(file, host)
    if text:
        return Source(one_line(topic or text, TITLE_CHARACTERS), [("", text)])
    if topic:
        return Source(one_line(topic, TITLE_CHARACTERS), [("", topic)])
    return await in_thread(of_conversation, job)


async def of_file(file: StoredFile, host: Host) -> Source:
    """A document's text with its references. Raises PluginError."""
    await host.progress("Reading the document…")
    try:
        read = await documents.parts(
            files.path_of(file), name=file.name, most_megabytes=settings.DOCUMENT_MEGABYTES
        )
    except documents.DocumentError as error:
        raise PluginError(str(error)) from error
    return Source(one_line(file.name, TITLE_CHARACTERS), read)


def file_of(job: Job, name: str, *, has_words: bool) -> StoredFile | None:
    """The document that a job is about, of its own user only. Raises PluginError for a wrong name.

    Named ("/files/<id>" or "<id>"), or sent with this message, or, where nothing else is given,
    the last one of the conversation.
    """
    own = StoredFile.objects.filter(user_id=job.run.user_id, revoked_at__isnull=True)
    public = name.rpartition("/")[2]
    if name:
        found = own.filter(public_id=public).first() if is_public_id(public) else None
        found = found or own.filter(session_id=job.run.session_id, name=name).last()
        if found is None:
            raise PluginError(GONE)
        return found
    here = [item["file"] for item in job.run.route.get("media", []) if is_document(item)]
    if here:
        return own.filter(public_id=here[-1]).first()
    if has_words:
        return None
    sent = own.filter(session_id=job.run.session_id, origin=files.SENT)
    return sent.exclude(content_type__startswith="image/").order_by("id").last()


def is_document(item: Mapping[str, Any]) -> bool:
    """Whether a medium of a message is a document that was kept."""
    return item.get("kind") in {"document", "file"} and bool(item.get("file"))


def of_conversation(job: Job) -> Source:
    """What was said so far, without the request. Raises PluginError when that is nothing."""
    rows = Message.objects.filter(
        session_id=job.run.session_id, run_id__lt=job.run_id, id__gt=job.run.session.history_from
    ).order_by("-run_id", "-id")[:LAST_LINES]
    said = [f"{row.role}: {row.text}" for row in reversed(rows) if row.text]
    if not said:
        # A long message may hold the text itself, below the request.
        if len(job.run.text) > LONG_TEXT:
            return Source(one_line(job.run.text, TITLE_CHARACTERS), [("", job.run.text)])
        raise PluginError("Send me the document or the text, and ask again.")
    return Source("This conversation", [("", "\n\n".join(said))])
