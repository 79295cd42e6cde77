"""`manage.py up`: run the whole gateway of one machine, in the foreground."""

import os
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connections
from django.utils import timezone

from allowlist import sign_in
from core import VERSION
from core.lib.text import counted
from gateway_project import databases, home, installation
from gateway_project.processes import console, holding, listener, plan, preflight


class Command(BaseCommand):
    help = "Start the gateway of this machine: broker, model, web server and workers."
    requires_system_checks: list[str] = []

    def get_version(self) -> str:
        """Return the gateway's version, not Django's."""
        return f"Latchkey {VERSION}"

    def handle(self, *args: Any, **options: Any) -> None:
        """Check the preconditions, prepare the database, then become the supervisor."""
        del args, options
        folder = home.directory()
        try:
            preflight.check_home(folder)
            if holding.go_back(folder):
                holding.become_up()
            with preflight.lock(folder):
                listener.listen(host=plan.host(), port=plan.port()).close()
                self.prepare()
        except preflight.StartError as error:
            raise CommandError(str(error)) from error
        except DatabaseError as error:
            raise CommandError(self.explain(error)) from error
        connections.close_all()
        sys.stdout.flush()
        os.chdir(home.BASE_DIR)
        module = "gateway_project.processes.supervisor"
        os.execv(sys.executable, [sys.executable, "-m", module])  # noqa: S606 - no shell on purpose

    def prepare(self) -> None:
        """Prepare tables, static files, the owner; on a terminal a token. Raises StartError."""
        with installation.one_at_a_time():
            applied = installation.migrate()
            console.say(
                "database", f"{counted(applied, 'migration')} applied" if applied else "up to date"
            )
            if installation.collect_static():
                console.say("static", "collected")
            owner, is_new = installation.ensure_owner()
            if owner is not None and is_new:
                console.say("owner", f"created user {owner.get_username()}")
            if owner is None:
                console.say("owner", "no active owner: `manage.py sign_in_link --user NAME`")
            elif sys.stdout.isatty():  # a stored log must not contain a sign-in link
                os.environ[plan.TOKEN] = sign_in.create(user=owner, now=timezone.now())

    def explain(self, error: DatabaseError) -> str:
        """Describe the fix for a database that fails."""
        return (
            f"the database could not be prepared: {console.reason(error)}. "
            f"{databases.advice(settings.DATABASES['default'])}; `manage.py migrate --traceback` "
            "shows the whole error."
        )
