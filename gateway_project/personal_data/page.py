"""``index.html`` of an export: readable from the disk, without a script or an address outside."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from django.utils.html import format_html

from core.lib.text import visible_line
from core.models import ChatSession, Message, StoredFile, User
from gateway_project.personal_data.tables import SECTIONS, Section

HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Data of {name}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}}
table{{border-collapse:collapse;display:block;overflow-x:auto}}
td,th{{border:1px solid #888;padding:.2rem .5rem;text-align:left;vertical-align:top}}
.said{{white-space:pre-wrap;overflow-wrap:anywhere;margin:.2rem 0 1rem}}</style></head><body><main>
<h1>Data of {name}</h1>
<p>Exported on {at} UTC. All of it for programs: <a href="person.json">person.json</a>.</p>
"""
# Shown by the conversations themselves, or of use to programs only.
NOT_SHOWN = frozenset(
    {"messages", "received", "runs", "failures", "events", "pauses", "deliveries", "model_calls"}
)
LONGEST_CELL = 300
AT_ONCE = 500


def parts(
    user: User, *, files: Mapping[str, str], chats: Mapping[str, str], now: datetime
) -> Iterator[str]:
    """Yield the page in pieces. ``files``, ``chats``: names in the export by public id."""
    yield format_html(HEAD, name=visible_line(str(user), 200), at=f"{now:%Y-%m-%d %H:%M}")
    yield "<h2>Conversations</h2>\n"
    for session in ChatSession.objects.filter(user=user).select_related("account").order_by("id"):
        yield from conversation(session, chats[session.public_id])
    for section in SECTIONS:
        if section.name not in NOT_SHOWN and section.model is not ChatSession:
            yield from table(section, user, files)
    yield "</main></body></html>\n"


def conversation(session: ChatSession, name: str) -> Iterator[str]:
    """Yield a conversation, folded, with a link to its Markdown."""
    yield format_html(
        '<details><summary>{} ({}, {})</summary><p><a href="{}">As Markdown</a></p>\n',
        visible_line(session.title, 200) or "Without a title",
        str(session.account),
        f"{session.created_at:%Y-%m-%d}",
        name,
    )
    rows = Message.objects.filter(session=session).order_by("id")
    for row in rows.iterator(chunk_size=AT_ONCE):
        yield format_html(
            '<h3>{} · {} UTC</h3><p class="said" dir="auto">{}</p>\n',
            row.role,
            f"{row.created_at:%Y-%m-%d %H:%M}",
            row.data.get("said", row.text),
        )
    yield "</details>\n"


def table(section: Section, user: User, files: Mapping[str, str]) -> Iterator[str]:
    """Yield the rows of a section as a table; nothing where there are none."""
    rows = section.rows(user)
    if not rows.exists():
        return
    fields = section.fields.split()
    yield format_html("<h2>{}</h2>\n<table><tr>", section.title)
    for field in fields:
        yield format_html("<th>{}</th>", field.replace("__", " ").replace("_", " "))
    yield "</tr>\n"
    for row in rows.values(*fields).iterator(chunk_size=AT_ONCE):
        yield "<tr>"
        for field in fields:
            yield cell(section, row, field, files)
        yield "</tr>\n"
    yield "</table>\n"


def cell(section: Section, row: Mapping[str, Any], field: str, files: Mapping[str, str]) -> str:
    """Return one cell; the name of a file is a link to it."""
    value = row[field]
    if isinstance(value, datetime):
        value = f"{value:%Y-%m-%d %H:%M}"
    shown = "" if value is None else visible_line(str(value), LONGEST_CELL)
    link = (
        files.get(row["public_id"], "") if section.model is StoredFile and field == "name" else ""
    )
    if link:
        return format_html('<td><a href="{}">{}</a></td>', link, shown)
    return format_html("<td>{}</td>", shown)
