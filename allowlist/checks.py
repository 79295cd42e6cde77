"""System checks of the allowlist; ``manage.py check --deploy`` shows them ([A1])."""

from collections.abc import Sequence

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004 - Django's own name
from django.db import DatabaseError

from allowlist.permissions import open_kinds
from core.models import User

HINT = "List the identities that may speak, or mark the user 'only listed identities'."


def open_to_everyone(app_configs: Sequence[AppConfig] | None, **_: object) -> list[CheckMessage]:
    """Report ``allowlist.W001`` for every user with an open list; ``allowlist.E001`` for one who is
    an owner: any sender would then speak as an owner.
    """
    try:
        found = open_kinds()
    except DatabaseError:
        return []  # not migrated yet: all senders are denied
    return [message(user, kinds) for user, kinds in found.items()]


def message(user: User, kinds: Sequence[str]) -> CheckMessage:
    where = ", ".join(kinds)
    if user.is_owner:
        return Error(
            f"{user} is an owner and open to everyone on {where}: any unknown sender speaks as "
            "this owner.",
            hint=HINT,
            id="allowlist.E001",
        )
    return Warning(f"{user} is open to everyone on {where}.", hint=HINT, id="allowlist.W001")
