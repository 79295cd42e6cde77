"""Links of sign-ins for a private chat: they open one sign-in, for one person, and nothing else.

A token is a signed statement (sign-in, user, time), not a row: it is created when the message is
sent, so no stored payload contains one. It ends with the sign-in.
"""

from datetime import timedelta

from django.conf import settings
from django.core import signing

from core.models import McpSignIn, User
from core.tools.mcp.oauth.pages import sign_in_page

SALT = "core.tools.mcp.oauth.links"


def link(*, sign_in: str, user: int) -> str:
    """Return the address for a sign-in's public id and the primary key of who is asked."""
    return sign_in_page(signing.dumps([sign_in, user], salt=SALT))


def opened(value: str) -> tuple[McpSignIn, User] | None:
    """Return the sign-in and the person of a token; None for an expired or invalid one. Writes
    nothing: link previews may fetch it any number of times.
    """
    age = timedelta(hours=settings.TOOL_QUESTION_HOURS)
    try:
        public_id, user = signing.loads(value, salt=SALT, max_age=age)
    except (signing.BadSignature, ValueError, TypeError):
        return None
    row = McpSignIn.objects.select_related("server", "user").filter(public_id=public_id).first()
    person = User.objects.filter(pk=user, is_active=True).first()
    return (row, person) if row is not None and person is not None else None
