"""The user or program behind a credential."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q

from channels_app.asgi.http import Headers, RefusedError
from core.lib.ids import is_public_id
from core.models import ChannelAccount, Run, User

PERMISSION_DENIED = "Permission denied"  # no reason, nor whether the key exists


class DeniedError(RefusedError):
    """The credential is missing or wrong, or its sender is not on the allowlist."""

    def __init__(
        self, said: str = "", *, status: int = 401, headers: Headers | None = None
    ) -> None:
        """Take ``said``: the owner's text for denied senders, where one is configured."""
        super().__init__(status, said or PERMISSION_DENIED, headers=headers)


@dataclass(frozen=True, slots=True)
class Principal:
    """A user, or a bridge account that names its senders; with the credential used.

    A person has ``user``, a bridge ``account``. The credential is an API key (``key_id`` and its
    ``scopes``) or the session of the web chat (``session_key``, Django's). ``session_id``: the chat
    session that an agent names for its results. ``model_only``: at ``/v1`` the models of the
    assistant answer, without its instructions and tools (decision 202).
    """

    user: User | None = None
    account: ChannelAccount | None = None
    key_id: int = 0
    scopes: Sequence[str] = ()
    session_key: str = ""
    session_id: str = ""
    model_only: bool = False

    @property
    def person(self) -> User:
        """Return the user. Raises RefusedError 403 for a bridge."""
        if self.user is None:
            raise RefusedError(403, "A personal key is needed.")
        return self.user

    @property
    def subject(self) -> str:
        """Return the key of rate limits and pub/sub frames."""
        if self.user is not None:
            return f"user:{self.user.id}"
        return f"account:{self.account.id}" if self.account else ""

    def require_sender(self, sender: str, *, field: str = "user_id") -> None:
        """Raise RefusedError 400 for a bridge's request that names no sender in ``field``."""
        if self.user is None and not sender:
            raise RefusedError(400, f"{field} is required with a bridge key.", field=field)

    def own_run(self, public_id: str) -> Run | None:
        """Return this run if it is the person's or the bridge's own. May block."""
        if not is_public_id(public_id):
            return None
        rows = Run.objects.select_related("session__account", "user").filter(public_id=public_id)
        own = Q(session__account=self.account) if self.user is None else Q(user=self.user)
        return rows.filter(own).first()

    @property
    def credential(self) -> tuple[str, int]:
        """Return the session's key, or the number of the API key."""
        return self.session_key, self.key_id

    @property
    def keys(self) -> list[str]:
        """Return the pub/sub keys for its sockets: runs, notices and revocations."""
        return [self.subject, *([f"key:{self.key_id}"] if self.key_id else [])]
