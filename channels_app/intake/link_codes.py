"""A link code typed on a channel: try it, answer the sender and notify the owners.

The codes themselves are the allowlist's (``link_codes``).
"""

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from django.utils.translation import get_language, gettext

from allowlist import link_codes
from channels_app.owner import notices
from core.conversations import outbox
from core.conversations.inbox import Draft
from core.lib.interface_language import spoken
from core.lib.text import one_line
from core.models import InboundMessage, User


@dataclass(frozen=True, slots=True)
class Typed:
    """The outcome of a code: its person (None: refused), the answer, and the messages held so far.

    ``spent``: nothing was tried, and the answer is not worth a message.
    """

    user: User | None
    words: str
    held: list[InboundMessage]
    spent: bool = False


def type_code(*, draft: Draft, code: str, now: datetime) -> Typed:
    """Link the sender of ``draft`` to the person whose ``code`` it is. Inside a transaction."""
    address = link_codes.Address(draft.account, draft.kind, draft.sender)
    try:
        user = link_codes.use(code=code, address=address, now=now)
    except link_codes.WrongCode as error:
        return Typed(None, str(error), [], spent=isinstance(error, link_codes.TooManyCodes))
    request, messages = link_codes.end_request(address=address, user=user, now=now)
    if request is not None:
        notices.decided(request, text=partial(said_of, user))
    tell_owners(user, draft, now)
    with spoken(user.language or get_language() or ""):
        linked = gettext("This address is now linked to {name}. Write to me and I will answer.")
        words = linked.format(name=user)
    return Typed(user, words, messages)


def said_of(user: User) -> str:
    """Return what became of the request of an address that was linked."""
    return gettext("{name} typed a code: it is another address of theirs.").format(name=user)


def tell_owners(user: User, draft: Draft, now: datetime) -> None:
    """Notify every owner of an address that was added without them."""
    sender = one_line(draft.sender, notices.SENDER_LENGTH)
    moment = int(now.timestamp() * 1000)
    for owner in notices.owners():
        key = f"notice:link:{user.pk}:{draft.account.pk}:{moment}:{owner.pk}"
        with spoken(owner.language):
            said = gettext("{name} linked another address with a code: {sender} on {account}.")
            text = said.format(name=user, sender=sender, account=draft.account)
        notices.send(owner, key=key, text=text)


def answer_code(*, draft: Draft, words: str) -> None:
    """Send an unknown sender the reason for refusing a code, if any. Inside a transaction."""
    if not words:
        return
    outbox.enqueue_in_chat(
        key=f"link:{draft.account.pk}:{draft.chat}:{draft.known_by or draft.message_id}"[:200],
        account_id=draft.account.pk,
        chat=draft.chat,
        thread=draft.thread,
        reply_to=draft.message_id,
        payload={"text": words},
    )
