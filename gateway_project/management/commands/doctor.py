"""``manage.py doctor``: report what is unsafe or broken in this installation, with fixes."""

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from channels_app.ops.doctor import examination
from channels_app.ops.doctor.findings import Finding
from core.files import storage

WARNINGS, ERRORS = 1, 2


class Command(BaseCommand):
    help = "List what is unsafe or broken in this installation. Exit code: 0, 1 warnings, 2 errors."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON list")
        parser.add_argument(
            "--adopt-files",
            action="store_true",
            help="first: accept this machine's files as the database's; missing ones are given up",
        )

    def handle(self, *_: object, **options: Any) -> None:
        if options["adopt_files"]:
            storage.adopt_folder()
        found = examination.examine(now=timezone.now())
        if options["json"]:
            self.stdout.write(json.dumps([each.as_dict() for each in found]))
        else:
            self.stdout.write("\n".join(map(lines_of, found)) or "No problems found.")
        sys.exit(code_of(found))


def lines_of(finding: Finding) -> str:
    """Return a finding as two lines; control characters of its content never reach the terminal."""
    lines = f"{finding.level}: {finding.what}\n  fix: {finding.fix}"
    return "".join(each if each.isprintable() or each == "\n" else "�" for each in lines)


def code_of(found: list[Finding]) -> int:
    if not found:
        return 0
    return ERRORS if any(each.level == "error" for each in found) else WARNINGS
