"""Updates that could not be parsed: stored, shown to the owner, parsed again on demand."""

from channels_app import registry
from channels_app.base import ReadsAgain
from channels_app.delivery.sending import account_of
from core.database.transactions import atomic_write
from core.models import InboundMessage


class CannotReadAgainError(Exception):
    """This message cannot be parsed again; the text says why."""


def read_again(message: InboundMessage) -> str:
    """Parse a quarantined update again, as if it came now; return its outcome in a word.

    In one transaction: it stays in quarantine unless it becomes something else. Raises
    CannotReadAgainError, DecryptError.
    """
    channel = registry.get(message.account.channel)
    if channel is None or not isinstance(channel.gateway, ReadsAgain):
        raise CannotReadAgainError("This channel keeps nothing that could be read again.")
    with atomic_write():
        kept = InboundMessage.objects.filter(
            id=message.id, state=InboundMessage.State.QUARANTINED
        ).delete()
        if not kept[0]:
            raise CannotReadAgainError("It is not in quarantine any more.")
        return channel.gateway.read_again(account_of(message.account), raw=bytes(message.raw))
