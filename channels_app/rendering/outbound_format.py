"""The format of an answer: one of three ([T4])."""

from core.markdown import classify_outbound_format


def classified(text: str) -> tuple[str, str]:
    """Return (text, format), the text unchanged: as stored and as sent to clients.

    Channels without Markdown convert it when they show it. Text with the format ``plain`` needs no
    conversion: it passes the converter byte for byte ([T2]).
    """
    return text, classify_outbound_format(text)
