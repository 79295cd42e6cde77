"""Which of the three formats an answer has, and the text that goes with it ([T4])."""

from django.conf import settings

from core.markdown import classify_outbound_format, markdown_to_channel


def classified(text: str) -> tuple[str, str]:
    """(text, format) for clients that render Markdown: raw for ``markdown`` and ``link``.

    Plain text passes the converter, so that it is what every other channel gets.
    """
    shape = classify_outbound_format(text)
    if shape == "plain":
        return markdown_to_channel(text, settings.OUTBOUND_MARKDOWN_FORMAT), shape
    return text, shape
