"""`manage.py render --format telegram < reply.md`: preview a reply on a channel."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from core import markdown

FORMATS = ("telegram", "markdownv2", "html", "whatsapp", "plain")


class Command(BaseCommand):
    help = "Read Markdown from standard input and print what a channel shows of it."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--format", choices=FORMATS, default="telegram")

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(markdown.preview(sys.stdin.buffer.read(), options["format"]))
