"""Landmarks and names that the pages of the admin's library lack."""

import re

from django import template
from django.utils.safestring import SafeString, mark_safe

register = template.Library()

# A part of a page of unfold -> the same with a landmark or a name.
MENDED = (
    ('<div id="main"', '<div id="main" role="main"'),
    # The scrolled parts are regions with one name, unless told.
    ('simplebar-direction="rtl"', 'simplebar-direction="rtl" data-simplebar-aria-label="Filters"'),
    # The heads of filters come after the page's own.
    ('<h3 class="font-semibold mb-2', '<h3 aria-level="2" class="font-semibold mb-2'),
    ('id="nav-sidebar-apps"', 'id="nav-sidebar-apps" data-simplebar-aria-label="Navigation"'),
)
# Rows of a form: several of them on a page would have one name. They scroll without it.
ROWS = re.compile(r'(<div class="formset-wrapper [^"]*") data-simplebar data-simplebar-auto-\S+')
# The head of the column with the boxes that delete a row.
EMPTY_HEAD = re.compile(r"<th( [^>]*)>\s*</th>")


@register.filter
def accessible(page: str) -> SafeString:
    """Return the body of a page of the admin with a main landmark, names, and no empty heads."""
    for part, mended in MENDED:
        page = page.replace(part, mended)
    page = ROWS.sub(r"\1", page)
    return mark_safe(EMPTY_HEAD.sub(r"<td\1></td>", page))  # noqa: S308 - what templates rendered
