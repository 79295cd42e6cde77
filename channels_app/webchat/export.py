"""Export a chat as one Markdown file."""

import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

from django.utils.translation import gettext, gettext_noop, ngettext

from core.conversations.sessions import in_turns
from core.lib.text import is_of_file_name
from core.models import ChatSession, Message

HEADINGS: Final = {"user": gettext_noop("You"), "assistant": gettext_noop("Assistant")}
OF_AGENTS: Final = gettext_noop("From an agent")
# The address of a stored file, by its public id.
Address = Callable[[str], str]


def as_markdown(*, session: ChatSession, address: Address) -> str:
    """Return messages under headings with their UTC times; answers follow their questions."""
    rows = chain(*in_turns(session.messages.filter(role__in=HEADINGS).order_by("id")))
    title = f"# {session.title or gettext('Chat')}\n"
    return "\n".join([title, *(written(row, address) for row in rows)])


def file_name(session: ChatSession) -> str:
    """Return the title as a file name, in its own script."""
    kept = "".join(each if is_of_file_name(each) else " " for each in session.title)
    words = " ".join(kept.split()).strip(" .")[:60].strip(" .")
    return f"{words or gettext('chat')}.md"


def written(row: Message, address: Address) -> str:
    heading = OF_AGENTS if row.data.get("result") else HEADINGS[row.role]
    head = f"## {gettext(heading)} · {row.created_at:%Y-%m-%d %H:%M} UTC\n"
    return "\n".join([head, *(f"{part}\n" for part in (row.shown, *notes(row, address)) if part)])


def notes(row: Message, address: Address) -> Iterator[str]:
    """Return a message's attachments and marks, a line each."""
    for item in row.data.get("media", []):
        yield named(item.get("name") or item.get("kind", "file"), item.get("file"), address)
    for item in row.data.get("files", []):
        yield named(item.get("name") or "file", item.get("id"), address)
    pictures = len(row.data.get("images", []))
    if pictures:
        said = ngettext("{count} picture", "{count} pictures", pictures)
        yield f"*({said.format(count=pictures)})*"
    error = row.data.get("error")
    if row.data.get("interrupted"):
        yield f"*{gettext('This answer was stopped.')}*"
    elif error and error != row.text:
        yield f"*{gettext('Error: {reason}').format(reason=error)}*"


def named(name: str, file: str | None, address: Address) -> str:
    label = re.sub(r"[\[\]\\]", " ", name)
    return (
        f"[{label}]({address(file)})"
        if file
        else f"*{gettext('Attached: {name}').format(name=label)}*"
    )
