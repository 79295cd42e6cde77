"""The tag that loads the scripts' texts before the scripts."""

from django import template
from django.conf import settings
from django.urls import reverse
from django.utils import translation
from django.utils.html import format_html
from django.utils.safestring import SafeString

from core.lib import script_texts as texts

register = template.Library()


@register.simple_tag
def script_texts() -> SafeString:
    """Return the ``<script>`` with the active language's texts; nothing for English."""
    language = translation.get_language() or settings.LANGUAGE_CODE
    if language == settings.LANGUAGE_CODE:
        return SafeString("")
    address = reverse("script-texts", args=[language, texts.version(language)])
    return format_html('<script src="{}"></script>', address)
