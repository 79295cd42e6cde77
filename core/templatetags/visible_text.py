"""Template filters of the admin."""

from django import template

from core.lib import text as texts

register = template.Library()


@register.filter
def visible(text: object) -> str:
    """Return a text with invisible characters shown as their codes."""
    return texts.visible(str(text))


@register.filter
def visible_line(text: object, limit: int = 200) -> str:
    """Return the same on one line, cut."""
    return texts.visible_line(str(text), limit)
