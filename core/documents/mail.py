"""E-mails, and web pages that a browser saved in one file, which have the same form: RFC 5322."""

import email
from collections.abc import Iterator
from email import policy
from email.message import EmailMessage, MIMEPart

from core.documents.encodings import text_of

HEAD = ("From", "To", "Cc", "Date", "Subject")
# Errors of Python's parser for fields that no standard allows.
UNPARSABLE = (ValueError, LookupError, AttributeError, TypeError)
# The same text in several forms, and a page with its pictures. Apple Mail writes the texts before
# and after a picture as parts of their own.
ONE_TEXT = ("multipart/alternative", "multipart/related")


def read(content: bytes) -> EmailMessage:
    return email.message_from_bytes(content, policy=policy.default)


def head_of(message: MIMEPart) -> str:
    """Return the fields that a reader sees, a line each."""
    shown = ((name, field_of(message, name)) for name in HEAD)
    return "\n".join(f"{name}: {value}" for name, value in shown if value)


def field_of(message: MIMEPart, name: str) -> str:
    try:
        return " ".join(str(message.get(name) or "").split())
    except UNPARSABLE:
        return ""


def texts_of(message: MIMEPart) -> Iterator[tuple[str, str]]:
    """Yield the texts of a message in their order, each with its kind, ``html`` or ``plain``: of
    one in both forms the plain one, unless that is blank. Of a message within it also the head.
    """
    kind = message.get_content_type()
    if message.is_multipart() and kind not in ONE_TEXT:
        for part in message.iter_parts():
            if kind == "message/rfc822":
                yield head_of(part), "plain"
            yield from texts_of(part)
        return
    for form in ("plain", "html"):
        text = text_in(message, form)
        if text.strip():
            yield text, form
            return


def text_in(message: MIMEPart, form: str) -> str:
    """Return the text of a message in one form, ``html`` or ``plain``; "" for none."""
    try:
        found = message.get_body(preferencelist=(form,))
    except UNPARSABLE:
        found = None
    content = None if found is None else found.get_payload(decode=True)
    if found is None or not isinstance(content, bytes):
        return ""
    return text_of(content, found.get_content_charset(""))


def attachments_of(message: MIMEPart) -> Iterator[str]:
    """Yield the names of the files of a message."""
    for part in message.walk():
        try:
            name = part.get_filename()
        except UNPARSABLE:
            continue
        if name:
            yield name
