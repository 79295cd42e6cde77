"""Markdown for media, custom types and sources, which plain text cannot show.

Alternative texts, titles and addresses come from models and web pages: labels are escaped, an
address of an unsafe scheme is replaced by the message's own page.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

from core.messages import (
    AudioMessage,
    CustomMessage,
    ImageMessage,
    RetrievalMessage,
    RetrievalSource,
    VideoMessage,
)

Linked = ImageMessage | AudioMessage | VideoMessage | CustomMessage

TEMPLATES = {
    "image": "![%s](%s)",
    "audio": "🔊 [Play Audio](%s)",
    "video": "🎬 [Watch Video](%s)",
    "file": "📎 [Download File](%s)",
    "page": "📄 [Open Page](%s)",
    "table": "📊 [View Table](%s)",
    "chart": "📈 [View Chart](%s)",
    "list": "📋 [View List](%s)",
    "form": "📝 [Fill Form](%s)",
    "button": "🔘 [%s](%s)",
}
OTHER_TEMPLATE = "🔗 [%s](%s)"
LABEL_LENGTH = 200
_LABEL_PROPS = ("title", "label", "text", "name")
_UNSAFE = re.compile(r"[\s()<>\"\\\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """The settings of links: the gateway's own address, one template per type (`%s` label, `%s`
    address; or the address alone), and a hook for each address: `transformer(url, type,
    message_id)`.

    `run_id` names the run on whose page a message is shown: ids are unique within a run only.
    """

    base_url: str = ""
    run_id: str = ""
    templates: Mapping[str, str] = field(default_factory=dict)
    transformer: Callable[[str, str, str], str] | None = None

    def markdown(self, message: Linked) -> str:
        """Return the message as one line of Markdown; the bare label when it has no address."""
        label = label_of(message)
        address = self.address(message)
        if not address:
            return label
        templates = {**TEMPLATES, **self.templates}
        return _fill(templates.get(message.type, OTHER_TEMPLATE), label, address)

    def address(self, message: Linked) -> str:
        """Return the link's target: the message's own URL if it is safe, else its page here."""
        url = self._own_url(message) or self.view_url(message.type, message.message_id)
        if url and self.transformer is not None:
            url = self.transformer(url, message.type, message.message_id)
        return _quoted(url)

    def view_url(self, message_type: str, message_id: str) -> str:
        """Return the address of a message's own page; empty for a message without an id."""
        if not message_id:
            return ""
        where = f"{quote(message_type, safe='')}/{quote(message_id, safe='')}"
        run = f"?run={self.run_id}" if self.run_id else ""
        return f"{self.base_url}/agent/view/{where}{run}"

    def _own_url(self, message: Linked) -> str:
        """Return the absolute address of a message if it is safe; else empty."""
        url = message.props.get("url")
        if not isinstance(url, str):
            return ""
        if isinstance(message, ImageMessage) and url.startswith("data:image/"):
            return url
        url = url.strip()
        if url.startswith("/") and not url.startswith(("//", "/\\")):
            return self.base_url + url  # a file of ours: `/files/…`
        return url if is_web_url(url) else ""


@dataclass(frozen=True, slots=True)
class Citation:
    """One source as shown to the user; `url` may be empty."""

    title: str
    url: str


def is_web_url(url: str) -> bool:
    """Return whether this is an http(s) address with a host."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def label_of(message: Linked) -> str:
    """Return the escaped text of a link: the message's own label, else the name of its type."""
    if isinstance(message, ImageMessage):
        own: object = message.props.get("alt", "Image")
        return escaped(own if isinstance(own, str) else "Image")
    if isinstance(message, CustomMessage):
        for name in _LABEL_PROPS:
            own = message.props.get(name)
            if isinstance(own, str) and own.strip():
                return escaped(own)
    return message.type.replace("_", " ").strip().capitalize()


def escaped(text: str) -> str:
    """Escape external text for a Markdown link: one line, cut, brackets escaped."""
    line = " ".join(text.split())[:LABEL_LENGTH]
    return re.sub(r"([\[\]\\`*_<>])", r"\\\1", line)


def citations(messages: Iterable[RetrievalMessage]) -> list[Citation]:
    """Return the sources of all retrievals, each once, in the order they were found: first those
    that several retrievals have, as a page that was found and then read.
    """
    found: dict[str, Citation] = {}
    times: Counter[str] = Counter()
    for message in messages:
        own = [_citation(source) for source in message.props.get("sources") or [] if source]
        times.update({citation.url or citation.title for citation in own})
        for citation in own:
            found.setdefault(citation.url or citation.title, citation)
    return [found[name] for name in sorted(found, key=lambda name: times[name] == 1)]


def source_line(number: int, citation: Citation) -> str:
    title = escaped(citation.title)
    if not citation.url:
        return f"{number}. {title}"
    return f"{number}. [{title}]({_quoted(citation.url)})"


def _citation(source: RetrievalSource) -> Citation:
    url = source.get("url") or ""
    url = url if is_web_url(url) else ""
    host = urlsplit(url).hostname if url else ""
    title = (
        source.get("title")
        or host
        or source.get("file_path")
        or source.get("document_id")
        or source.get("id")
        or "?"
    )
    return Citation(title=title, url=url)


def _quoted(url: str) -> str:
    """Percent-encode what would end an address in Markdown."""
    return _UNSAFE.sub(lambda found: quote(found[0], safe=""), url)


def _fill(template: str, label: str, address: str) -> str:
    """Insert label and address for `%s` in the template; other percent signs stay."""
    parts = template.split("%s")
    values = [label, address][-(len(parts) - 1) :] if len(parts) > 1 else []
    filled = parts[0]
    for value, part in zip(values, parts[1:], strict=False):
        filled += value + part
    return filled
