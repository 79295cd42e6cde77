"""Which of the three formats an answer has ([T4])."""

from core.markdown import classify_outbound_format


def classified(text: str) -> tuple[str, str]:
    """(text, format), the text as it was written: what is stored, and what clients get.

    Channels that show no Markdown convert it when they show it. There is nothing to convert where
    the format is ``plain``: text that is no Markdown passes the converter byte for byte ([T2]).
    """
    return text, classify_outbound_format(text)
