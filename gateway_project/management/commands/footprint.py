"""`manage.py footprint`: show the memory of every process of the running gateway."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from gateway_project import home
from gateway_project.processes import footprint, state


class Command(BaseCommand):
    help = "Show the memory of every process of the running gateway."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        del args, options
        running = state.read(home.directory())
        if running is None:
            raise CommandError(f"no gateway runs on GATEWAY_HOME {home.directory()}")
        for line in footprint.report(footprint.measure(running)):
            self.stdout.write(line)
