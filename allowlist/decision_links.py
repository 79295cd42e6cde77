"""Links in notices that open the decision of one unknown request ([A5], [A6]).

A token is a signed statement (request, owner, time), not a row: it is created when a notice is
sent, so no stored payload contains one. It does not sign in. It ends with the first decision, after
DECISION_LINK_HOURS, and with the rights of its owner.
"""

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.core import signing

from allowlist.models import UnknownRequest
from core.models import User

SALT = "allowlist.decision_links"


@dataclass(frozen=True, slots=True)
class Opened:
    """The content of a token: an unknown request and the active owner that got the notice."""

    request: UnknownRequest
    owner: User


def token(*, request: str, owner: int) -> str:
    """Return the token for a request's public id and an owner's primary key."""
    return signing.dumps([request, owner], salt=SALT)


def opened(value: str) -> Opened | None:
    """Return the request and the owner of a token; ``None`` for an expired or invalid one, for a
    deleted request, and for a user who is no longer an active owner. Writes nothing.
    """
    age = timedelta(hours=settings.DECISION_LINK_HOURS)
    try:
        request, owner = signing.loads(value, salt=SALT, max_age=age)
    except (signing.BadSignature, ValueError, TypeError):
        return None
    row = UnknownRequest.objects.select_related("account", "decided_by").filter(public_id=request)
    person = User.objects.filter(pk=owner, is_owner=True, is_active=True).first()
    found = row.first()
    return Opened(found, person) if found is not None and person is not None else None
