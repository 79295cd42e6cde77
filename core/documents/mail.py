"""E-mails, and web pages that a browser saved in one file, which have the same form: RFC 5322."""

import email
from collections.abc import Iterator
from email import policy
from email.message import EmailMessage

from core.documents.encodings import text_of

HEAD = ("From", "To", "Cc", "Date", "Subject")
# Errors of Python's parser for fields that no standard allows.
UNPARSABLE = (ValueError, LookupError, AttributeError, TypeError)


def read(content: bytes) -> EmailMessage:
    return email.message_from_bytes(content, policy=policy.default)


def head_of(message: EmailMessage) -> str:
    """Return the fields that a reader sees, a line each."""
    shown = ((name, field_of(message, name)) for name in HEAD)
    return "\n".join(f"{name}: {value}" for name, value in shown if value)


def field_of(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(message.get(name) or "").split())
    except UNPARSABLE:
        return ""


def body_of(message: EmailMessage) -> tuple[str, str]:
    """Return the text of a message and its kind, ``html`` or ``plain``; the plain one of both."""
    try:
        found = message.get_body(preferencelist=("plain", "html"))
    except UNPARSABLE:
        found = None
    if found is None:
        return "", "plain"
    content = found.get_payload(decode=True)
    text = text_of(content, found.get_content_charset("")) if isinstance(content, bytes) else ""
    return text, found.get_content_subtype()


def attachments_of(message: EmailMessage) -> Iterator[str]:
    """Yield the names of the files of a message."""
    for part in message.walk():
        try:
            name = part.get_filename()
        except UNPARSABLE:
            continue
        if name:
            yield name
