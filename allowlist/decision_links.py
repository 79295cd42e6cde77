"""Links in notices that open the decision of one unknown request, and nothing else ([A5], [A6]).

A token is a signed statement (which request, which owner, when), not a row: it is made at the
moment at which a notice is sent, so no stored payload holds one. It signs nobody in. It ends with
the first decision, with its hours (DECISION_LINK_HOURS), and with the rights of its owner.
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
    """What a token names: an unknown request and the active owner to whom the notice went."""

    request: UnknownRequest
    owner: User


def token(*, request: str, owner: int) -> str:
    """The token for the request with that public id and the owner with that primary key."""
    return signing.dumps([request, owner], salt=SALT)


def opened(value: str) -> Opened | None:
    """The request and the owner of a token; ``None`` for one that is expired or made up, of a
    request that is gone, and of a person who is no active owner any more. Writes nothing."""
    age = timedelta(hours=settings.DECISION_LINK_HOURS)
    try:
        request, owner = signing.loads(value, salt=SALT, max_age=age)
    except (signing.BadSignature, ValueError, TypeError):
        return None
    row = UnknownRequest.objects.select_related("account", "decided_by").filter(public_id=request)
    person = User.objects.filter(pk=owner, is_owner=True, is_active=True).first()
    found = row.first()
    return Opened(found, person) if found is not None and person is not None else None
