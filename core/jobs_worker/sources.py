"""The source of a job: documents, an address, a text, a topic, or the conversation.

The call's own parameters win. Missing ones are filled in: by the documents of the message, the
topic of the request, what it quotes, the documents of the conversation, or the conversation itself.
"""

import codecs
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from mimetypes import guess_extension
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet

from core.database.transactions import in_thread
from core.documents import read as documents
from core.documents.encodings import text_of as text_of_page
from core.files import storage
from core.jobs_worker.host import Host
from core.lib.ids import is_public_id
from core.lib.safe_fetch import FETCHER, Fetched, FetchError
from core.lib.text import one_line, quoted_words, unmarked
from core.models import Job, Message, Run, StoredFile
from core.plugins.base import PluginError, Source
from core.plugins.slides import asked

TITLE_CHARACTERS = 120
LAST_LINES = 60
LONG_TEXT = 600
SHORTEST_QUOTE = 80
TOPIC_CHARACTERS = 240
MOST_FILES = 10
MOST_NAMED = 5
GONE = "The document was not found."
NOTHING = "Send me the document or the text, and ask again."
PAGES = frozenset({"text/html", "application/xhtml+xml"})
ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)
NO_TEXT = ("image/", "audio/", "video/")
HANDLE = re.compile(r"/files/(?:out\?token=)?([A-Za-z0-9_-]+)")
# Words for all documents of a conversation, not only those that came last.
ALL = re.compile(
    r"\b(?:all|each|every|alle|tod[oa]s|tous|toutes|tutti)\b|全部|所有|都|すべて|全て|모두",
    re.IGNORECASE,
)
BOTH = re.compile(
    r"\b(?:both|beiden?|ambos|ambas|les deux|entrambi)\b|两个|兩個|两份|両方|둘 다", re.IGNORECASE
)
# Words for the conversation itself, and for documents in it, which are then meant.
TALK = re.compile(
    r"\b(?:conversations?|chats?|discuss(?:ion|ed)|besproch\w*|gespräch\w*|unterhaltung\w*|chatverlauf\w*|diskussion\w*|"
    r"conversación|charla|échanges?|conversazione|conversa)\b|对话|對話|聊天|会話|やり取り|やりとり|대화",
    re.IGNORECASE,
)
PAPER = re.compile(
    r"\b(?:documents?|files?|pdfs?|reports?|papers?|attachments?|dokument\w*|datei\w*|bericht\w*|anhang|"
    r"anhänge|documentos?|archivos?|informes?|fichiers?|rapports?|documenti?)\b|"
    r"文档|文件|文書|附件|ファイル|資料|문서|파일",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Named:
    """The source in a call: ``files`` (handles, names), an ``address``, ``text`` or ``topic``."""

    files: Sequence[str] = ()
    address: str = ""
    text: str = ""
    topic: str = ""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The documents of a job, and the available ones that it leaves out."""

    rows: Sequence[StoredFile]
    left: Sequence[StoredFile] = ()


async def of(job: Job, parameters: Mapping[str, Any], host: Host) -> Source:
    """Return the source of a job. Raises PluginError."""
    given = named(parameters)
    if given.address:
        return await of_address(given.address, host)
    chosen = await in_thread(chosen_files, job, given)
    if chosen.rows:
        return await of_files(chosen, host)
    if given.text:
        title = one_line(given.topic or given.text, TITLE_CHARACTERS)
        return Source(title, [("", given.text)])
    if given.topic:
        return of_topic(given.topic)
    return await in_thread(of_conversation, job)


def named(parameters: Mapping[str, Any]) -> Named:
    """Return the source in the parameters of a call; a ``source`` is any of the four. Words that
    only refer to one, as "this conversation", are none.
    """
    listed = parameters.get("files")
    names = [str(each) for each in listed if each] if isinstance(listed, list) else []
    names += [str(parameters["file"])] if parameters.get("file") else []
    text, topic = str(parameters.get("text") or ""), str(parameters.get("topic") or "").strip()
    source = str(parameters.get("source") or parameters.get("url") or "").strip()
    topic, source = ("" if asked.refers(each, is_order=False) else each for each in (topic, source))
    if names or not source:
        return Named(files=names, text=text, topic=topic)
    if handles := handles_in(source):
        return Named(files=handles, text=text, topic=topic)
    if ADDRESS.fullmatch(source):
        return Named(address=source, text=text, topic=topic)
    if is_public_id(source):
        return Named(files=[source], text=text, topic=topic)
    if is_text(source):
        return Named(text=source, topic=topic)
    found = asked.read(source)
    return Named(text=text, topic=topic or ("" if found.is_order and not found.topic else source))


def handles_in(source: str) -> list[str]:
    """Return the handles in a source, also in links of this gateway. Foreign addresses have such
    paths, too, and so have texts that speak of paths: in a text only those count that can be one.
    """
    own = source.replace(f"{settings.GATEWAY_URL}/files/", " /files/")
    found = HANDLE.findall(ADDRESS.sub(" ", own))
    return [each for each in found if is_public_id(each)] if is_text(source) else found


def is_text(source: str) -> bool:
    return len(source) > TOPIC_CHARACTERS or "\n" in source


def of_topic(topic: str) -> Source:
    return Source(one_line(topic, TITLE_CHARACTERS), [("", topic)], kind="topic")


async def of_address(address: str, host: Host) -> Source:
    """Fetch a public address as a document. Raises PluginError."""
    await host.progress("Reading the document…")
    try:
        found = await FETCHER.get(address)
    except FetchError as error:
        raise PluginError(f"The address could not be read: {error}.") from error
    name = name_of(found)
    path = host.folder / "source"
    path.write_bytes(content_of(found))
    try:
        read = await documents.parts(path, name=name, most_megabytes=settings.DOCUMENT_MEGABYTES)
    except documents.DocumentError as error:
        raise PluginError(str(error)) from error
    finally:
        path.unlink(missing_ok=True)
    return Source(one_line(name, TITLE_CHARACTERS), read, kind="document", documents=[address])


def content_of(found: Fetched) -> bytes:
    """Return the bytes of a fetched document; a page in UTF-8, with the mark of it, for the server
    may have named its encoding.
    """
    if found.content_type not in PAGES:
        return found.body
    return codecs.BOM_UTF8 + text_of_page(found.body, found.charset).encode(errors="replace")


def name_of(found: Fetched) -> str:
    """Return the file name of a fetched document: from its address, with an extension."""
    parts = urlsplit(found.url)
    last = PurePosixPath(unquote(parts.path)).name or parts.hostname or "page"
    extension = guess_extension(found.content_type) or ""
    return last if PurePosixPath(last).suffix or not extension else f"{last}{extension}"


async def of_files(chosen: Chosen, host: Host) -> Source:
    """Return the text of documents with references. Raises PluginError if none is readable."""
    await host.progress("Reading the document…")
    read: list[tuple[StoredFile, list[tuple[str, str]]]] = []
    left = [f"“{row.name}”" for row in chosen.left[:MOST_NAMED]]
    first: Exception | None = None
    for row in chosen.rows[:MOST_FILES]:
        try:
            read.append((row, await text_of(row)))
        except documents.DocumentError as error:
            left.append(f"“{row.name}” ({str(error).rstrip('.')})")
            first = first or error
    if not read:
        raise PluginError(str(first or GONE)) from first
    left += [f"“{row.name}”" for row in chosen.rows[MOST_FILES:]]
    note = f"Not read: {', '.join(left)}." if left else ""
    names = [row.name for row, _parts in read]
    if len(read) == 1:
        parts = read[0][1]
    else:
        parts = [
            (f"{row.name}, {reference}" if reference else row.name, text)
            for row, each in read
            for reference, text in each
        ]
    title = one_line(", ".join(names), TITLE_CHARACTERS)
    return Source(title, parts, kind="document", note=note, documents=names)


async def text_of(file: StoredFile) -> list[tuple[str, str]]:
    """Return the parts of one document. Raises DocumentError."""
    try:
        return await documents.parts(
            storage.path_of(file), name=file.name, most_megabytes=settings.DOCUMENT_MEGABYTES
        )
    except OSError as error:
        raise documents.DocumentError(GONE) from error


def chosen_files(job: Job, given: Named) -> Chosen:
    """Return the documents that a job is about, of its own user only. Raises PluginError for a
    wrong name.

    Those that the call names, also as its topic; else all of this message; else, where no words are
    given and the request names no topic, those of the conversation.
    """
    own = StoredFile.objects.filter(user_id=job.run.user_id, revoked_at__isnull=True)
    here = attached(job, own)
    rows = list(dict.fromkeys(found(job, name) for name in given.files))
    if given.topic and not rows:
        meant = file_named(given.topic, user_id=job.run.user_id, session_id=job.run.session_id)
        rows = [meant] if meant is not None else []
    if rows:
        return Chosen(rows, [row for row in here if row not in rows])
    if given.text:
        return Chosen([], here)
    if here:
        return Chosen(here)
    if given.topic or asked_topic(job) or quoted_in(job):
        return Chosen([])
    return of_the_conversation(job, own)


def attached(job: Job, own: QuerySet[StoredFile]) -> list[StoredFile]:
    media = job.run.route.get("media", [])
    kinds = {"document", "file"}
    names = [item["file"] for item in media if item.get("kind") in kinds and item.get("file")]
    rows = own.in_bulk(names, field_name="public_id")
    return [rows[name] for name in dict.fromkeys(names) if name in rows]


def found(job: Job, name: str) -> StoredFile:
    """Return the file of a handle or, in this conversation, of a name. Raises PluginError."""
    row = file_named(name, user_id=job.run.user_id, session_id=job.run.session_id)
    if row is None:
        raise PluginError(GONE)
    return row


def file_named(name: str, *, user_id: int, session_id: int) -> StoredFile | None:
    """Return the user's own file of a handle ("/files/<id>" or "<id>") or of its link, expired or
    not; or the latest of that name in this conversation.
    """
    own = StoredFile.objects.filter(user_id=user_id, revoked_at__isnull=True)
    public = storage.named_by(name) or name.rpartition("/")[2]
    row = own.filter(public_id=public).first() if is_public_id(public) else None
    return row or own.filter(session_id=session_id, name=name).order_by("id").last()


def of_the_conversation(job: Job, own: QuerySet[StoredFile]) -> Chosen:
    """Return earlier documents: the named ones, the last two, all, or the last message's."""
    messages = documents_before(job.run, own)
    if not messages:
        return Chosen([])
    # One that was sent again counts where it came last.
    rows = [*dict.fromkeys([*chain.from_iterable(messages)][::-1])][::-1]
    said = job.run.text.lower()
    by_name = [row for row in rows if row.name.lower() in said]
    if by_name:
        return Chosen(by_name)
    if TALK.search(said) and not PAPER.search(said):
        return Chosen([])
    most = 2 if BOTH.search(said) else MOST_FILES if ALL.search(said) else 0
    chosen = rows[-most:] if most else messages[-1]
    return Chosen(chosen, [row for row in rows if row not in chosen])


def documents_before(run: Run, own: QuerySet[StoredFile]) -> list[list[StoredFile]]:
    """Return the documents of each message of a run's conversation before it that has any."""
    said = before(run).filter(role="user").order_by("run_id", "id")
    media = [items or () for items in said.values_list("data__media", flat=True)]
    names = [[item["file"] for item in items if "file" in item] for items in media]
    there = own.filter(purged_at__isnull=True)
    rows = there.in_bulk(chain.from_iterable(names), field_name="public_id")
    known = {name: row for name, row in rows.items() if not row.content_type.startswith(NO_TEXT)}
    found = [[known[name] for name in each if name in known] for each in names]
    return [each for each in found if each]


def before(run: Run) -> QuerySet[Message]:
    """Return the earlier messages of a run's conversation, without late answers."""
    rows = Message.objects.filter(session_id=run.session_id, run_id__lt=run.pk)
    earlier = Message.objects.filter(run=OuterRef("run"), role="user", id__lte=run.history_from)
    return rows.filter(id__gt=run.history_from).exclude(Exists(earlier))


def asked_topic(job: Job) -> str:
    """Return the topic of the request; empty for one that only refers ("turn this into …")."""
    said = asked.read(job.run.text)
    return said.topic if said.is_order else ""


def quoted_in(job: Job) -> str:
    """Return the words that the request quotes; empty for few, which only say what is meant."""
    quoted = quoted_words(job.run.text)
    return quoted if len(quoted) >= SHORTEST_QUOTE else ""


def of_conversation(job: Job) -> Source:
    """Return the topic of the request, else what it quotes, else the conversation before it.

    Raises PluginError when that is empty.
    """
    if topic := asked_topic(job):
        return of_topic(topic)
    if quoted := quoted_in(job):
        return Source(one_line(quoted, TITLE_CHARACTERS), [("", quoted)])
    rows = before(job.run).order_by("-run_id", "-id")[:LAST_LINES]
    said = [f"{row.role}: {unmarked(row.text)}" for row in reversed(rows) if row.text]
    if not said:
        # A long message may hold the text itself, below the request.
        if len(job.run.text) > LONG_TEXT:
            return Source(one_line(job.run.text, TITLE_CHARACTERS), [("", job.run.text)])
        raise PluginError(NOTHING)
    return Source("This conversation", [("", "\n\n".join(said))], kind="conversation")
