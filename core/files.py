"""Stored files: bytes under ``GATEWAY_HOME/files``, rows in the database, no path in an URL."""

import base64
import hashlib
import mimetypes
from datetime import datetime
from pathlib import Path

from django.conf import settings

from core.ids import public_id
from core.models import StoredFile, User
from core.text import one_line

INLINE_BYTES = 10 * 1024 * 1024


def folder() -> Path:
    """Where the bytes are."""
    return Path(settings.GATEWAY_HOME) / "files"


def keep(
    *,
    user: User,
    name: str,
    content: bytes,
    session_id: int | None = None,
    run_id: int | None = None,
    expires_at: datetime | None = None,
) -> StoredFile:
    """Store ``content`` under a random path; ``name`` is only a label."""
    token = public_id()
    path = folder() / token[:2] / token
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_bytes(content)
    path.chmod(0o600)
    return StoredFile.objects.create(
        user=user,
        session_id=session_id,
        run_id=run_id,
        name=one_line(name, 255) or "file",
        content_type=mimetypes.guess_type(name)[0] or "application/octet-stream",
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        path=f"{token[:2]}/{token}",
        expires_at=expires_at,
    )


def path_of(file: StoredFile) -> Path:
    """Where the bytes of ``file`` are, for programs that read files themselves."""
    return folder() / file.path


def read(file: StoredFile) -> bytes:
    """The bytes of ``file``. Raises OSError when they are gone."""
    return (folder() / file.path).read_bytes()


def inline(url: str) -> str | None:
    """An image of ours (``/files/<id>``) as a data URL; None for any other address."""
    public = url.removeprefix("/files/")
    if public == url:
        return None
    file = StoredFile.objects.filter(public_id=public, revoked_at__isnull=True).first()
    if file is None or not file.content_type.startswith("image/") or file.size > INLINE_BYTES:
        return None
    try:
        content = read(file)
    except OSError:
        return None
    return f"data:{file.content_type};base64,{base64.b64encode(content).decode()}"
