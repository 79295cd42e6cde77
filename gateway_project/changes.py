"""The changes of each version, for the admin: CHANGELOG.md, in a wheel inside this package."""

from functools import cache

from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

from gateway_project import home


@cache
def as_html() -> SafeString:
    """Return the changelog without its title; its links lead to files that no address has, so that
    only their words are left. Raises OSError.
    """
    text = (home.RESOURCES / "CHANGELOG.md").read_text(encoding="utf-8")
    _, _, versions = text.partition("\n## ")
    parser = MarkdownIt("commonmark", {"html": False}).disable(["image"])
    parser.add_render_rule("link_open", nothing)
    parser.add_render_rule("link_close", nothing)
    html: str = parser.render(f"## {versions}")
    return mark_safe(html)  # noqa: S308 - our own file, HTML is escaped


def nothing(*_: object) -> str:
    return ""
