"""Markdown as a document of (text, spans), and its renderings for the channels."""


def classify_outbound_format(text: str) -> str:
    """Placeholder until the markdown branch lands."""
    return "markdown" if "**" in text or "```" in text else "plain"


def markdown_to_channel(text: str, format: str) -> str:  # noqa: A002
    """Placeholder until the markdown branch lands."""
    return text
