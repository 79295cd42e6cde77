"""Markdown and plain text as safe HTML for the page.

One renderer (markdown-it; of raw HTML only styles and breaks) and one sanitiser (nh3) for the whole
web chat. Links are http, https, mailto or own files, open in a new tab and show their real host;
external images are not loaded but shown as links.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from html import escape
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

import nh3
from linkify_it import LinkifyIt
from markdown_it import MarkdownIt
from markdown_it.common.utils import unescapeAll
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from mdit_py_plugins.tasklists import tasklists_plugin

from core.lib.text import clean
from core.markdown import literal_rule, mathml, reference_rule, tag_rule

# The page has one h1 of its own, and each answer stands under an h2 that only readers hear: the
# first heading of an answer is an h3, whatever its level. `live.js` does the same.
FIRST_HEADING: Final = 3
MAX_CHARACTERS: Final = 200_000
# Up to 25 µs a marker in the worst case (measured): 0.3 s. A book of 300 pages has fewer.
MARKERS: Final = "[]*_`~!<>&(#|-+\n\\"
MAX_MARKERS: Final = 12_000
OWN_FILE: Final = re.compile(r"/files/[A-Za-z0-9/_-]+(?:\?[A-Za-z0-9=&%._~:-]*)?")
# Links that lead nowhere from a chat: only their text is shown. OpenAI's models know a sandbox.
NOWHERE: Final = re.compile(r"#|\.{0,2}/(?!/)|(?:sandbox|attachment):|[\w/.-]+\.[a-z]{1,5}(?:#|\Z)")
HOST_IN_TEXT: Final = re.compile(
    r"((?:[\w-]{1,63}\.)+[a-z\u00a1-\uffff][\w-]{1,62})", re.IGNORECASE
)
MAILBOX_IN_TEXT: Final = re.compile(r"(?<![\w.+%-])[\w.+%-]+@[\w.-]*\w")
RECIPIENTS: Final = {"to", "cc", "bcc"}
LONGEST_TEXT: Final = 200  # of a link; in a longer one no host is looked for
KEPT: Final = 20_000  # characters of a text whose rendering is kept for the next time
# Invisible characters: soft hyphen, zero width, directions, byte order mark.
INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
# Two lines of a phone. The link and the copied answer keep the whole address.
LONGEST_ADDRESS: Final = 72
HOST: Final = re.compile(r"[\w.-]+|[0-9a-f:.]+")
TABLE_SCROLL: Final = '<div class="table-scroll" tabindex="0">'  # also by keys
LANGUAGE: Final = re.compile(r"[A-Za-z0-9+#._-]{1,30}")

TAGS: Final = frozenset(
    {"p", "br", "strong", "em", "s", "code", "pre", "h3", "h4", "h5", "h6", "ul", "ol", "li"}
    | {"blockquote", "hr", "table", "thead", "tbody", "tr", "th", "td", "a", "span", "div"}
    | {"input", "label", "u", "kbd", "mark", "small", "sub", "sup"}
    | mathml.TAGS
)
ATTRIBUTES: Final = {
    **mathml.ATTRIBUTES,
    "a": {"href"},
    "ol": {"start"},
    "th": {"align"},
    "td": {"align"},
    "pre": {"data-language"},
    "input": {"checked", "disabled"},
}
ATTRIBUTE_VALUES: Final = {
    "div": {"class": {"table-scroll", "formula"}, "tabindex": {"0"}},
    "span": {"class": {"real-host", "formula", "formula long"}},
    "p": {"class": {"plain"}},
    "a": {"class": {"image-link"}},
    "li": {"class": {"task-list-item"}},
    "input": {"type": {"checkbox"}},
}


def render(text: str) -> str:
    """Render Markdown as HTML; text that is too expensive to parse becomes plain text."""
    return (_rendered if len(text) <= KEPT else _rendered.__wrapped__)(text)


@lru_cache(maxsize=256)
def _rendered(text: str) -> str:
    if len(text) > MAX_CHARACTERS or sum(map(text.count, MARKERS)) > MAX_MARKERS:
        return render_plain(text)
    return _sanitiser().clean(_parser().render(clean(text)))


def render_plain(text: str) -> str:
    """Render plain text as one paragraph with its line breaks and clickable addresses."""
    return _sanitiser().clean(f'<p class="plain">{"".join(_linked(clean(text)))}</p>')


def render_as(*, text: str, format: str) -> str:  # noqa: A002  the word of requirement 1 §1.1
    """Render an answer by its ``format``; all but ``markdown`` are shown verbatim."""
    return render(text) if format == "markdown" else render_plain(text)


def is_allowed(href: str) -> bool:
    """Return whether an address may be a link: http, https, mailto or an own file."""
    if OWN_FILE.fullmatch(href):
        return True
    try:
        parts = urlsplit(href)
        if parts.scheme == "mailto":
            return bool(parts.path)
        return parts.scheme in {"http", "https"} and bool(HOST.fullmatch(parts.hostname or ""))
    except ValueError:
        return False


def _is_link(href: str) -> bool:
    """Return whether the parser reads a link: one that is shown, or whose text alone is."""
    return is_allowed(href) or NOWHERE.match(href) is not None


def real_host(*, text: str, href: str) -> str:
    """Return the host of ``href`` when ``text`` looks like another address, or is very long, else
    ``""``. Of an e-mail address it is all, with further recipients.

    A punycode host is returned too: its Unicode form may imitate another one.
    """
    if href[:7].lower() == "mailto:":
        first, _, query = href[7:].partition("?")
        fields = parse_qsl(query.replace("+", "%2B"))
        more = [value for name, value in fields if name.lower() in RECIPIENTS]
        mailbox = ", ".join(filter(None, [unquote(first), *more]))
        named = MAILBOX_IN_TEXT.findall(INVISIBLE.sub("", text).lower())
        return mailbox if named and mailbox.lower() not in named else ""
    host = _host(href)
    if not host:
        return ""
    if _says(text, host) and "xn--" not in host:
        return ""
    if len(text) > LONGEST_TEXT:
        return host
    named = [match[1].lower() for match in HOST_IN_TEXT.finditer(INVISIBLE.sub("", text))]
    if any(_bare(name) != _bare(host) for name in named) or "xn--" in host:
        return host
    return ""


def _says(text: str, host: str) -> bool:
    """Return whether ``text`` is an address at ``host``; its path may look like a host."""
    bare = not re.search(r"[\s@]", text) and not INVISIBLE.search(text)
    return bare and _host(text) == host


def shortened(address: str) -> str:
    """Shorten an address for display, never within its host."""
    if len(address) <= LONGEST_ADDRESS:
        return address
    host = re.match(r"(?:[a-z][a-z0-9+.-]*:)?//[^/?#]*/?", address, re.IGNORECASE)
    return address[: max(LONGEST_ADDRESS, host.end() if host else 0)] + "…"


def _host(href: str) -> str:
    try:
        return (urlsplit(href).hostname or "").lower()
    except ValueError:
        return ""


def _bare(host: str) -> str:
    return host.removeprefix("www.").rstrip(".")


def _linked(text: str) -> Iterator[str]:
    end = 0
    for start, stop, href in _addresses(text):
        if start < end or not is_allowed(href):
            continue
        shown = text[start:stop]
        yield escape(text[end:start])
        yield f'<a href="{escape(href)}">{escape(shortened(shown))}</a>{_host_note(shown, href)}'
        end = stop
    yield escape(text[end:])


def _addresses(text: str) -> list[tuple[int, int, str]]:
    found = [(match.index, match.last_index, match.url) for match in _linkify().match(text) or []]
    found += [(match.start(), match.end(), match[0]) for match in OWN_FILE.finditer(text)]
    return sorted(found)


def _host_note(text: str, href: str) -> str:
    host = real_host(text=text, href=href)
    return f' <span class="real-host">({escape(host)})</span>' if host else ""


@cache
def _linkify() -> LinkifyIt:
    return literal_rule.linker()


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": True, "breaks": True})
    parser.enable(["table", "strikethrough", "linkify"])
    parser.use(tasklists_plugin, label=True)
    parser.use(mathml.plugin).use(tag_rule.plugin).use(literal_rule.plugin)
    parser.use(reference_rule.plugin)
    parser.validateLink = _is_link  # type: ignore[assignment,method-assign]  # documented
    parser.core.ruler.push("latchkey_links", _rewrite)
    parser.add_render_rule("fence", _fence)
    parser.add_render_rule("table_open", lambda *_: f"{TABLE_SCROLL}<table>\n")
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return parser


@cache
def _sanitiser() -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=set(TAGS),
        attributes={tag: set(names) for tag, names in ATTRIBUTES.items()},
        tag_attribute_values=ATTRIBUTE_VALUES,
        set_tag_attribute_values={"a": {"target": "_blank"}},
        attribute_filter=_attribute,
        link_rel="noopener noreferrer nofollow",
        url_schemes={"http", "https", "mailto"},
    )


def _attribute(tag: str, name: str, value: str) -> str | None:
    """Filter attributes with open value sets."""
    if tag == "a" and name == "href":
        return value if is_allowed(value) else None
    if tag == "pre":
        return value if LANGUAGE.fullmatch(value) else None
    if tag in mathml.TAGS:
        return value if mathml.VALUE.fullmatch(value) else None
    return value


def _rewrite(state: StateCore) -> None:
    headings = [token for token in state.tokens if token.type.startswith("heading_")]
    first = int(headings[0].tag[1]) if headings else 1
    for token in headings:
        token.tag = f"h{min(FIRST_HEADING + max(0, int(token.tag[1]) - first), 6)}"
    for token in state.tokens:
        if token.type in {"th_open", "td_open"}:
            # A style attribute would be refused by the page's own policy.
            style = str(token.attrs.pop("style", ""))
            token.attrs |= {"align": style.removeprefix("text-align:")} if style else {}
        elif token.type == "inline":
            token.children = list(_inline(token.children or []))


def _inline(children: Sequence[Token]) -> Iterator[Token]:
    """Replace images by links and unsafe links by text; add the host to misleading links."""
    href, text, bare = "", "", False
    for token in children:
        if token.type == "image":
            text += token.content
            yield from _image(token, inside=bool(href))
            continue
        if token.type == "link_open":
            href, text = str(token.attrs.get("href", "")), ""
            href = href if is_allowed(href) else ""
            bare = token.info == "auto"
        if token.type in {"link_open", "link_close"} and not href:
            continue
        text += token.content
        if token.type == "text" and href and bare:
            token.content = shortened(token.content)
        yield token
        if token.type == "link_close":
            yield from _note(text, href)
            href = ""


def _image(token: Token, *, inside: bool) -> Iterator[Token]:
    source = str(token.attrs.get("src", ""))
    label = token.content or _host(source) or "image"
    if inside or not is_allowed(source):
        yield _text(label)
        return
    attrs: dict[str, str | int | float] = {"href": source, "class": "image-link"}
    yield Token("link_open", "a", 1, attrs=attrs)
    yield _text(label)
    yield Token("link_close", "a", -1)
    yield from _note(label, source)


def _note(text: str, href: str) -> Iterator[Token]:
    host = real_host(text=text, href=href)
    if host:
        yield _text(" ")
        yield Token("host_open", "span", 1, attrs={"class": "real-host"})
        yield _text(f"({host})")
        yield Token("host_close", "span", -1)


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _fence(
    _self: RendererHTML, tokens: Sequence[Token], index: int, _options: object, _env: object
) -> str:
    info = unescapeAll(tokens[index].info).split(maxsplit=1)
    language = f' data-language="{escape(info[0])}"' if info else ""
    return f"<pre{language}><code>{escape(tokens[index].content)}</code></pre>\n"
