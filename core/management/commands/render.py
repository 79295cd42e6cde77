"""`manage.py render --format telegram < reply.md`: preview a reply on a channel."""

import sys
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand

from core import markdown
from core.markdown import MESSAGE_LIMIT, TelegramText, utf16_length


def drawn(piece: TelegramText) -> str:
    """Return the visible text, with each style and its words below."""
    lines = [piece.text, f"--- {utf16_length(piece.text)} of {MESSAGE_LIMIT}"]
    for span, entity in zip(piece.spans, piece.entities, strict=True):
        words = " ".join(piece.text[span.start : span.end].split())
        lines.append(
            f"{entity.type:13} {words[:60]!r} {entity.url or entity.language or ''}".rstrip()
        )
    return "\n".join(lines)


FOR_TELEGRAM: dict[str, Callable[[TelegramText], str]] = {
    "telegram": drawn,
    "markdownv2": TelegramText.markdown_v2,
    "html": TelegramText.html,
}


class Command(BaseCommand):
    help = "Read Markdown from standard input and print what a channel shows of it."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        choices = (*FOR_TELEGRAM, "whatsapp", "plain")
        parser.add_argument("--format", choices=choices, default="telegram")

    def handle(self, *args: Any, **options: Any) -> None:
        source, form = sys.stdin.buffer.read(), options["format"]
        shown = ""
        if form in FOR_TELEGRAM:
            shown = "\n\n".join(map(FOR_TELEGRAM[form], markdown.split(source)))
        self.stdout.write(shown or markdown.markdown_to_channel(source, form))
