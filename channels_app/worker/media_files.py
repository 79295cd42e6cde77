"""The stored file of a medium: uploaded before, in the message, or fetched from its platform."""

import asyncio
import base64
import hashlib
import logging
import mimetypes
from typing import Any

from channels_app.base import Account, Channel, ChannelError, Downloads, RemoteFile
from channels_app.delivery.sending import account_of
from channels_app.intake.media import sent_files
from core.database.transactions import atomic_write, in_thread
from core.files import quota, storage
from core.models import Run, StoredFile

logger = logging.getLogger(__name__)

MEGABYTE = 1024 * 1024
FETCH_WAITS = (1.0, 4.0)  # seconds before a file is fetched again
LONGEST_WAIT = 30.0
EXTENSIONS = {"image": "jpg", "audio": "ogg", "video": "mp4"}


async def known_file(run: Run, item: dict[str, Any]) -> StoredFile | None:
    """Return the file of a medium that was fetched before; None without any."""
    own = StoredFile.objects.filter(user_id=run.user_id, purged_at=None, revoked_at=None)
    name = item.get("file")
    return await in_thread(own.filter(public_id=name).first) if name else None


async def stored_of(run: Run, channel: Channel | None, item: dict[str, Any]) -> StoredFile:
    """Return the stored file of a medium: uploaded before, in the message, or on its platform.

    Raises ChannelError.
    """
    if "upload" in item:
        return await in_thread(uploaded, run, str(item["upload"]))
    if "url" in item:
        return await in_thread(from_data_url, run, item)
    return await fetch(run, channel, item)


def uploaded(run: Run, name: str) -> StoredFile:
    """Return the file that the run's own user uploaded; it belongs to the session from now on.

    One of another session, with which it is deleted, is copied. Raises ChannelError.
    """
    own = StoredFile.objects.filter(
        public_id=name, user_id=run.user_id, revoked_at=None, purged_at=None
    )
    with atomic_write():
        own.filter(session__isnull=True).update(session_id=run.session_id, run_id=run.id)
    file = own.first()
    if file is None:
        raise ChannelError("there is no such uploaded file", permanent=True)
    return file if file.session_id == run.session_id else copied(run, file)


def copied(run: Run, file: StoredFile) -> StoredFile:
    """Return a copy of another session's file for the session of ``run``. Raises ChannelError."""
    if same := sent_files(session_id=run.session_id, sha256=file.sha256).first():
        return same
    try:
        content = storage.read(file)
    except OSError as error:
        raise ChannelError("there is no such uploaded file", permanent=True) from error
    return store_file(run, file.name, content)


def store_file(run: Run, name: str, content: bytes) -> StoredFile:
    """Store a file for a run. Raises as ``storage.keep`` does."""
    return storage.keep(
        user=run.user, name=name, content=content, session_id=run.session_id, run_id=run.id
    )


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
    if same := sent_files(session_id=run.session_id, sha256=digest).first():
        return same
    name = item.get("name") or f"{item['kind']}{mimetypes.guess_extension(mime) or ''}"
    return store_file(run, name, content)


async def fetch(run: Run, channel: Channel | None, item: dict[str, Any]) -> StoredFile:
    """Download and store one file; its size is checked first. Raises ChannelError."""
    if channel is None or not isinstance(channel.outbound, Downloads):
        raise ChannelError("this channel gives no files", permanent=True)
    remote = RemoteFile(item["remote"], item.get("name", ""), item.get("size", 0))
    most = channel.outbound.max_download_bytes
    check_size(remote.size, most)
    await in_thread(quota.check, user_id=run.user_id, size=remote.size)
    account = account_of(run.session.account)
    content = await download_patiently(channel.outbound, account, remote)
    check_size(len(content), most)  # a platform may name another size, or none
    if "quoted" in item:  # it may be of this conversation
        digest = hashlib.sha256(content).hexdigest()
        own = StoredFile.objects.filter(session_id=run.session_id, revoked_at=None, purged_at=None)
        known = await in_thread(own.filter(sha256=digest).first)
        if known is not None:
            return known
    name = remote.name or f"{item['kind']}.{EXTENSIONS.get(item['kind'], 'bin')}"
    return await in_thread(store_file, run, name, content)


async def download_patiently(outbound: Downloads, account: Account, remote: RemoteFile) -> bytes:
    """Download a file; retry after temporary failures such as a rate limit. Raises ChannelError."""
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
