"""System checks of the allowlist; ``manage.py check --deploy`` shows them ([A1])."""

from collections.abc import Sequence

from django.apps import AppConfig
from django.core.checks import CheckMessage, Warning  # noqa: A004 - Django's own name
from django.db import DatabaseError

from allowlist.permissions import open_kinds


def open_to_everyone(app_configs: Sequence[AppConfig] | None, **_: object) -> list[CheckMessage]:
    """``allowlist.W001`` for every user who lets everybody of a kind in."""
    try:
        found = open_kinds()
    except DatabaseError:
        return []  # not migrated yet: nobody is let in either
    return [
        Warning(
            f"{user} is open to everyone on {', '.join(kinds)}.",
            hint="List the identities that may speak, or mark the user 'only listed identities'.",
            id="allowlist.W001",
        )
        for user, kinds in found.items()
    ]
