"""Fixed phrases that adapters add to answers, in the viewer's language."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache

from django.utils.translation import gettext, gettext_noop

from core.lib.interface_language import of_tag, spoken


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """The phrases of one language. `restarted` is one line of Markdown."""

    processing: str = gettext_noop("Assistant is processing")
    view_process: str = gettext_noop("View process")
    sources: str = gettext_noop("Sources")
    restarted: str = gettext_noop("*The answer was interrupted and is continued anew:*")
    failed: str = gettext_noop("The request failed.")
    stopped: str = gettext_noop("Stopped.")
    nothing: str = gettext_noop("The assistant had nothing to say.")
    repeated: str = gettext_noop("↻ The connection broke: a message above may be shown twice.")


ENGLISH = Wording()


def wording(locale: str) -> Wording:
    """Return the phrases for a locale such as `zh-CN` or `en_US`; English for an unknown one."""
    return in_language(of_tag(locale) or "en")


@cache
def in_language(language: str) -> Wording:
    """Return the phrases of one of the interface's languages."""
    if language == "en":
        return ENGLISH
    with spoken(language):
        return Wording(
            **{each.name: gettext(getattr(ENGLISH, each.name)) for each in fields(Wording)}
        )
