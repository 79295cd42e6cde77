"""Save a result as a clean page that can be read, shared by its link, and printed."""

import html
import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Literal

import nh3
from django.conf import settings
from django.template.loader import render_to_string
from django.utils.safestring import mark_safe
from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore

from core.database.transactions import in_thread
from core.files import storage
from core.lib.text import one_line
from core.markdown import literal_rule, mathml, reference_rule, strip_outer_fence, tag_rule
from core.messages import action_message
from core.models import Run, StoredFile, User
from core.tools import languages, phrases
from core.tools.base import ToolContext, ToolError, ToolResult
from core.tools.typed import Field, TypedTool
from core.tools.waiting import shown

MOST_CHARACTERS = 500_000
MOST_PICTURES = 50
MOST_PICTURE_BYTES = 10 * 1024 * 1024  # in base64; the last one may go beyond
TAGS = (
    "a abbr b blockquote br caption code col colgroup dd del details div dl dt em figcaption "
    "figure h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark ol p pre q s samp section small span "
    "strong sub summary sup table tbody td tfoot th thead tr u ul var"
)

# Elements whose text is no part of a page to read.
UNSEEN = "script style title template noscript button select textarea iframe object"
WRAPPED = re.compile(r"\s*`{3,}(?:markdown|md|html)\b", re.IGNORECASE)
TAG = re.compile("<[^>]*>")
BOXES = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}

Picture = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Page:
    """The content to save; ``content`` is Markdown, or HTML."""

    title: str
    content: str
    is_html: bool = False


class SaveResultPage(TypedTool):
    """Saves a longer result (a report, a table, a plan) as a clean web page that the user can open,
    share and print. Give its title and its content as Markdown or HTML. Scripts are removed.
    """

    line = "Saving the result…"

    async def call(
        self,
        context: ToolContext,
        title: str,
        content: Annotated[str, Field("Markdown or HTML.")],
        format_: Annotated[Literal["markdown", "html"], Field("Markdown by default.")] = "markdown",
    ) -> ToolResult:
        """Return the page's link. Raises ToolError."""
        if not content.strip():
            raise ToolError("content must not be empty.")
        if len(content) > MOST_CHARACTERS:
            raise ToolError(f"content is longer than {MOST_CHARACTERS} characters.")
        language = languages.of_request(context.request)
        title = one_line(title, 120) or phrases.in_language("Result", language)
        page = Page(title, content, is_html=format_ == "html")
        try:
            file = await in_thread(store, context, page)
        except storage.NotStoredError as error:
            raise ToolError(storage.DISK_FULL) from error
        made = shown(file)
        opened = {"panel_id": "result", "title": title, "url": made["url"]}
        name = f"open-{context.tool_call_id}"
        context.send(action_message("open_panel", opened, message_id=name))
        return ToolResult(f"Saved. Give the user this link: {made['url']}", files=[made])


def page_of(page: Page, *, picture: Picture) -> str:
    """Return a whole page; the body went through the sanitiser in every case.

    It loads nothing, also as a file on a disk: only pictures that are inlined remain, and those for
    which ``picture`` returns their content.
    """
    content = unwrapped(page)
    dirty = content if page.is_html else markdown().render(content)

    def kept(tag: str, name: str, value: str) -> str | None:
        if (tag, name) == ("img", "src"):
            return value if value.startswith("data:image/") else picture(value)
        if tag in mathml.TAGS:
            return value if mathml.VALUE.fullmatch(value) else None
        return None if name == "href" and value.strip().lower().startswith("data:") else value

    body = nh3.clean(
        dirty,
        tags=mathml.TAGS.union(TAGS.split()),
        attributes={**nh3.ALLOWED_ATTRIBUTES, **mathml.ATTRIBUTES},
        tag_attribute_values={
            "div": {"class": {"formula"}},
            "span": {"class": {"formula", "formula long"}},
        },
        clean_content_tags=set(UNSEEN.split()),
        url_schemes={"http", "https", "mailto", "data"},
        attribute_filter=kept,
        set_tag_attribute_values={"pre": {"tabindex": "0"}},  # keys scroll it
    )
    if "<h1" not in body:
        body = f"<h1>{html.escape(page.title)}</h1>\n{body}"
    text = TAG.sub("", body)
    safe = mark_safe(body)  # noqa: S308 - cleaned
    values = {
        "title": page.title,
        "body": safe,
        "language": languages.language_of(text),
        "direction": "rtl" if runs_to_the_left(text) else "auto",
    }
    return render_to_string("pages/result.html", values)


def runs_to_the_left(text: str) -> bool:
    """Return whether most of the first letters are Hebrew or Arabic, as in ``live.js``."""
    first = text[:1000]
    joined = sum("\u0590" <= char <= "\u08ff" for char in first)
    return joined > sum(char.isascii() and char.isalpha() for char in first)


def unwrapped(page: Page) -> str:
    """Remove the fence that models put around a whole document, but not around code."""
    is_wrapped = page.is_html or WRAPPED.match(page.content)
    return strip_outer_fence(page.content) if is_wrapped else page.content


def markdown() -> MarkdownIt:
    """Return the CommonMark parser, with tables, strike-through and tasks, almost without HTML."""
    parser = MarkdownIt("commonmark", {"html": False, "linkify": True})
    parser.enable(["table", "strikethrough", "linkify"]).use(mathml.plugin).use(tag_rule.plugin)
    parser.use(literal_rule.plugin).use(reference_rule.plugin)
    parser.core.ruler.push("boxes", draw_boxes)
    return parser


def draw_boxes(state: StateCore) -> None:
    tokens = state.tokens
    for item, token in zip(tokens, tokens[2:], strict=False):  # a paragraph begins between them
        texts = token.children if item.type == "list_item_open" else None
        if texts and texts[0].type == "text" and texts[0].content[:4] in BOXES:
            texts[0].content = BOXES[texts[0].content[:4]] + texts[0].content[4:]


def store(context: ToolContext, page: Page) -> StoredFile:
    """Store the page; a repeated attempt finds the same page of the first one. A page of the same
    title may be another version: its link must lead to what the model wrote.
    """
    user = User.objects.get(id=context.user_id)
    title = page.title
    pictures: list[str] = []

    def own_picture(address: str) -> str | None:
        if len(pictures) >= MOST_PICTURES or sum(map(len, pictures)) > MOST_PICTURE_BYTES:
            return None
        found = storage.inline(address.removeprefix(settings.GATEWAY_URL), user_id=user.id)
        pictures.append(found or "")
        return found

    content = page_of(page, picture=own_picture).encode()
    same = StoredFile.objects.filter(
        run_id=context.run_id,
        origin=storage.MADE,
        name=f"{title}.html",
        sha256=sha256(content).hexdigest(),
        revoked_at__isnull=True,
    )
    found = same.first() if Run.objects.filter(id=context.run_id, attempt__gt=1).exists() else None
    return found or storage.keep(
        user=user,
        name=f"{title}.html",
        content=content,
        session_id=context.session_id,
        run_id=context.run_id,
        origin=storage.MADE,
    )


TOOL = SaveResultPage()
