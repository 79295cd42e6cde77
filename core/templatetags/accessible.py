"""Landmarks, names and buttons that the pages of the admin's library lack."""

import re

from django import template
from django.utils.safestring import SafeString, mark_safe

register = template.Library()


def opens(flag: str, to: str, part: str, label: str = "") -> tuple[str, str]:
    """Return the mend of a control that opens a part of the page by setting ``flag`` to ``to``;
    keys.js leads the focus there. ``label``: of a control that is an icon."""
    pressed = f'x-on:click="{flag} = {to}'
    named = f'aria-label="{label}" ' if label else ""
    return pressed, f'{named}aria-controls="{part}" x-bind:aria-expanded="{flag}" {pressed}'


# A part of a page of unfold -> the same with a landmark or a name.
MENDED = (
    ('<div id="main"', '<div id="main" role="main"'),
    # The scrolled parts are regions with one name, unless told.
    ('simplebar-direction="rtl"', 'simplebar-direction="rtl" data-simplebar-aria-label="Filters"'),
    # The heads of filters come after the page's own.
    ('<h3 class="font-semibold mb-2', '<h3 aria-level="2" class="font-semibold mb-2'),
    ('id="nav-sidebar-apps"', 'id="nav-sidebar-apps" data-simplebar-aria-label="Navigation"'),
    # The sign leads where the name beside it does.
    (' class="bg-primary-600 flex', ' aria-hidden="true" tabindex="-1" class="bg-primary-600 flex'),
    ('id="searchbar-submit"', 'id="searchbar-submit" aria-label="Search"'),
    # Ticks. The titles of filters, which may be names of rows, do not end their tags.
    ('title="True">', 'title="Yes" role="img" aria-label="Yes">'),
    ('title="False">', 'title="No" role="img" aria-label="No">'),
    ('title="Unknown">', 'title="Unknown" role="img" aria-label="Unknown">'),
    opens("sidebarMobileOpen", "!", "nav-sidebar-inner", "Menu"),
    opens("sidebarDesktopOpen", "!", "nav-sidebar-inner", "Menu"),
    opens("filterOpen", "true", "changelist-filter"),
    opens("openUserLinks", "!", "user-links"),
    (
        'x-show="openUserLinks"',
        'id="user-links" aria-label="Account" x-show="openUserLinks" '
        'x-on:keydown.escape.window="openUserLinks = false"',
    ),
)
# Behind the filters a press closes them, as Escape does.
BEHIND = 'id="changelist-filter-close"'
# Parts that only a pointer presses: no buttons, and no links that lead anywhere.
PRESSED = re.compile(
    rf"<(?:a|div|span)(?=\s)(?=[^<>]*\sx-on:click=)(?![^<>]*\shref=)(?![^<>]*{BEHIND})"
)
# The menu beside a choice of rows, of this field.
BESIDE = re.compile(r'x-ref="relatedWidgetWrapper([^"]*)"')
RELATED = (
    r'\g<0> aria-label="Add or change" aria-controls="related-widget-wrapper-\1" '
    'x-bind:aria-expanded="openRelatedWidgetWrapper"'
)
# Icons are ligatures of a font: their text is the name of a picture.
ICON = re.compile(r'<(?:span|div|i)(?=\s[^<>]*[" ]material-symbols-outlined[" ])(?![^<>]*\saria-)')
# Rows of a form: several of them on a page would have one name. They scroll without it.
ROWS = re.compile(r'(<div class="formset-wrapper [^"]*") data-simplebar data-simplebar-auto-\S+')
# The head of the column with the boxes that delete a row.
EMPTY_HEAD = re.compile(r"<th( [^<>]*)>\s*</th>")


@register.filter
def accessible(page: str) -> SafeString:
    """Return the body of a page of the admin with a main landmark, names, controls that a keyboard
    reaches, icons that are not read out, and no empty heads."""
    for part, mended in MENDED:
        page = page.replace(part, mended)
    page = BESIDE.sub(RELATED, page)
    page = PRESSED.sub(r'\g<0> role="button" tabindex="0"', page)
    page = ICON.sub(r'\g<0> aria-hidden="true"', page)
    page = ROWS.sub(r"\1", page)
    return mark_safe(EMPTY_HEAD.sub(r"<td\1></td>", page))  # noqa: S308 - what templates rendered
