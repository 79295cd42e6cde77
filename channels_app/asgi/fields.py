"""Fields that several endpoints share: one check and one error text for all."""

import base64
import binascii
import hashlib
from typing import Any

from django.conf import settings

from channels_app.asgi.http import RefusedError
from core.conversations.assistants import Wanted
from core.lib.ids import is_public_id
from core.lib.text import is_clean

MAX_CONVERSATION_ID = 128
# Limits of single endpoints, here because the OpenAPI document needs them too.
MAX_CHAT_ID = 100  # of /ui/chat
MAX_RUN_ID = 128  # runId of /ag-ui
MAX_SESSION_NAME = 100  # the header X-Session-Id
MAX_CONTEXT = 2000  # of /process
MOST_EVENT_DIGITS = 9  # Last-Event-ID
# Fields with the files of a message, and the kind of these.
MEDIA = {"images": "image", "audios": "audio", "videos": "video", "files": "file"}
# The slug of an assistant; a model with its provider.
MAX_ASSISTANT, MAX_MODEL = 64, 300


def text(body: dict[str, Any], name: str, limit: int, *, required: bool = False) -> str:
    """Check a string field that every database can store, of at most ``limit`` characters.

    Absent and not ``required``: empty. Raises RefusedError 400 or 413.
    """
    value = body.get(name)
    if value is None and not required:
        return ""
    if not isinstance(value, str):
        raise RefusedError(400, f"{name} must be a string.", field=name)
    if len(value) > limit:
        raise RefusedError(413, f"{name} is longer than {limit} characters.", field=name)
    if not is_clean(value):
        raise RefusedError(400, f"{name} holds characters that are not text.", field=name)
    return value


def wanted(body: dict[str, Any]) -> Wanted | None:
    """Return the assistant and the model that a request names for its turn; None for neither.

    Whether the sender may choose them is decided with the message. Raises RefusedError 400 or 413.
    """
    assistant, model = text(body, "assistant", MAX_ASSISTANT), text(body, "model", MAX_MODEL)
    return Wanted(assistant=assistant, model=model) if assistant or model else None


def files(body: dict[str, Any], name: str) -> list[Any]:
    """Return a field's unchecked files, at most MAX_ATTACHMENTS. Raises RefusedError 400, 413."""
    values = body.get(name)
    if values is None:
        return []
    if not isinstance(values, list):
        raise RefusedError(400, f"{name} must be a list of data URLs.", field=name)
    most = settings.MAX_ATTACHMENTS
    if len(values) > most:
        raise RefusedError(413, f"{name} holds more than {most} items.", field=name)
    return values


def described(value: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Return one file of such a list as an object, and its name as the inbox takes it, if it has
    one: files come bare or as objects. Raises RefusedError 400.
    """
    item = value if isinstance(value, dict) else {"url": value}
    label = text(item, "name", 255)
    return item, {"name": label} if label else {}


def conversation_id(name: str) -> str:
    """Return the id of a conversation, or its digest where a column cannot hold it."""
    return name if len(name) <= MAX_CONVERSATION_ID else hashlib.sha256(name.encode()).hexdigest()


def uploaded(value: str) -> str:
    """Return the id of the uploaded file in ``value``, bare or as ``/files/<id>``; else empty."""
    public = value.removeprefix("/files/")
    return public if is_public_id(public) else ""


def data_url_flaw(value: str) -> str:
    """Return the problem of a base64 data URL, to follow a field's name; empty for none."""
    head, comma, data = value.partition(",")
    if not (head.startswith("data:") and head.endswith(";base64") and comma):
        return "must hold base64 data URLs"
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return "holds broken base64"
    return ""


def check_data_url(value: str, name: str) -> None:
    """Raise RefusedError 400 unless ``value`` is a well-formed base64 data URL."""
    flaw = data_url_flaw(value)
    if flaw:
        raise RefusedError(400, f"{name} {flaw}.", field=name)
