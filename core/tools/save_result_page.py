"""Saves a result as a clean page of its own that can be read, shared by its link, and printed."""

import html
from typing import Any

import nh3
from markdown_it import MarkdownIt

from core import files
from core.db import in_thread
from core.models import Run, StoredFile, User
from core.text import one_line
from core.tools.base import ToolContext, ToolError, ToolResult
from core.tools.waiting import shown

MOST_CHARACTERS = 500_000
TAGS = frozenset(
    "a abbr b blockquote br caption code col colgroup dd del details div dl dt em figcaption figure h1 h2 "
    "h3 h4 h5 h6 hr i img ins kbd li mark ol p pre q s samp section small span strong sub summary sup "
    "table tbody td tfoot th thead tr u ul var".split()
)
PAGE = """<!doctype html>
<html lang="{language}"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 17px/1.6 system-ui, "Noto Sans", "Noto Sans CJK SC", sans-serif; margin: 0; color: #1c2430;
  background: #fff }}
main {{ max-width: 44rem; margin: 0 auto; padding: 3rem 1.25rem 5rem; overflow-wrap: anywhere }}
h1, h2, h3 {{ line-height: 1.25; margin: 2em 0 .6em; break-after: avoid }}
h1 {{ font-size: 2rem; margin-top: 0 }}
a {{ color: #0b5cad }}
img {{ max-width: 100%; height: auto }}
pre {{ background: #f3f5f8; padding: 1rem; border-radius: .5rem; overflow-x: auto; font-size: .88rem }}
code {{ font-family: ui-monospace, "Noto Sans Mono", monospace }}
blockquote {{ margin: 1.2em 0; padding: .1em 1.2em; border-inline-start: 4px solid #c9d3e0; color: #4a5666 }}
table {{ border-collapse: collapse; width: 100%; margin: 1.2em 0; font-variant-numeric: tabular-nums }}
th, td {{ border-bottom: 1px solid #d5dce6; padding: .5em .7em; text-align: start; vertical-align: top }}
tr {{ break-inside: avoid }}
@media (prefers-color-scheme: dark) {{
  body {{ background: #14181f; color: #e3e8ef }} a {{ color: #7db7f5 }} pre {{ background: #1f2530 }}
  blockquote {{ color: #a9b4c2; border-color: #3a4556 }} th, td {{ border-color: #333d4b }}
}}
@media print {{
  body {{ background: #fff; color: #000; font-size: 11pt }} main {{ max-width: none; padding: 0 }}
  pre {{ background: #f6f6f6; white-space: pre-wrap }}
}}
@page {{ margin: 2cm }}
</style></head><body><main dir="auto">{body}</main></body></html>
"""


class SaveResultPage:
    """Markdown or HTML as a page behind a link."""

    name = "save_result_page"
    description = (
        "Saves a longer result (a report, a table, a plan) as a clean web page that the user can open, "
        "share and print. Give its title and its content as Markdown or HTML. Scripts are removed."
    )
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "content": {"type": "string", "description": "Markdown or HTML."},
            "format": {"type": "string", "enum": ["markdown", "html"], "description": "Markdown by default."},
        },
        "required": ["title", "content"],
        "additionalProperties": False,
    }

    def progress(self, arguments: dict[str, Any]) -> str:
        """See [D2]."""
        del arguments
        return "Saving the result…"

    def infer(self, text: str) -> dict[str, Any] | None:
        """Only the model knows the result."""
        del text
        return None

    async def run(self, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        """The page's link. Raises ToolError."""
        content = arguments.get("content")
        if not isinstance(content, str) or not content.strip():
            raise ToolError("content must not be empty.")
        if len(content) > MOST_CHARACTERS:
            raise ToolError(f"content is longer than {MOST_CHARACTERS} characters.")
        title = one_line(str(arguments.get("title") or ""), 120) or "Result"
        page = page_of(title=title, content=content, is_html=arguments.get("format") == "html")
        file = await in_thread(store, context, title, page)
        made = shown(file)
        return ToolResult(f"Saved. Give the user this link: {made['url']}", files=[made])


def page_of(*, title: str, content: str, is_html: bool, language: str = "en") -> str:
    """A whole page; the body went through the sanitiser, whatever it was made of."""
    dirty = content if is_html else markdown().render(content)
    body = nh3.clean(dirty, tags=set(TAGS), url_schemes={"http", "https", "mailto", "data"})
    if "<h1" not in body:
        body = f"<h1>{html.escape(title)}</h1>\n{body}"
    return PAGE.format(title=html.escape(title), body=body, language=language)


def markdown() -> MarkdownIt:
    """CommonMark with tables and strike-through; HTML in it is text."""
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def store(context: ToolContext, title: str, page: str) -> StoredFile:
    """Keep the page; an attempt that is made again for the same call finds the first one."""
    user = User.objects.get(id=context.user_id)
    same = StoredFile.objects.filter(
        run_id=context.run_id, origin=files.MADE, name=f"{title}.html", revoked_at__isnull=True
    )
    found = same.first() if Run.objects.filter(id=context.run_id, attempt__gt=1).exists() else None
    return found or files.keep(
        user=user,
        name=f"{title}.html",
        content=page.encode(),
        session_id=context.session_id,
        run_id=context.run_id,
        origin=files.MADE,
    )


TOOL = SaveResultPage()
