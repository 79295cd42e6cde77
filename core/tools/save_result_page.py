"""Save a result as a clean page that can be read, shared by its link, and printed."""

import html
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Literal

import nh3
from django.conf import settings
from django.template.loader import render_to_string
from django.utils.safestring import mark_safe
from markdown_it import MarkdownIt

from core.database.transactions import in_thread
from core.files import storage
from core.lib.text import one_line
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
        file = await in_thread(store, context, page)
        made = shown(file)
        opened = {"panel_id": "result", "title": title, "url": made["url"]}
        name = f"open-{context.tool_call_id}"
        context.send(action_message("open_panel", opened, message_id=name))
        return ToolResult(f"Saved. Give the user this link: {made['url']}", files=[made])


def page_of(page: Page, *, picture: Picture, language: str = "en") -> str:
    """Return a whole page; the body went through the sanitiser in every case.

    It loads nothing, also as a file on a disk: only pictures that are inlined remain, and those for
    which ``picture`` returns their content.
    """
    dirty = page.content if page.is_html else markdown().render(page.content)

    def kept(tag: str, name: str, value: str) -> str | None:
        if (tag, name) == ("img", "src"):
            return value if value.startswith("data:image/") else picture(value)
        return None if name == "href" and value.strip().lower().startswith("data:") else value

    body = nh3.clean(
        dirty,
        tags=set(TAGS.split()),
        url_schemes={"http", "https", "mailto", "data"},
        attribute_filter=kept,
        set_tag_attribute_values={"pre": {"tabindex": "0"}},  # keys scroll it
    )
    if "<h1" not in body:
        body = f"<h1>{html.escape(page.title)}</h1>\n{body}"
    safe = mark_safe(body)  # noqa: S308 - cleaned
    values = {"title": page.title, "body": safe, "language": language}
    return render_to_string("pages/result.html", values)


def markdown() -> MarkdownIt:
    """Return the CommonMark parser, with tables and strike-through; HTML in it is text."""
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


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
