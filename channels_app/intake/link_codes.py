"""A link code typed on a channel: try it, answer the sender and notify the owners.

The codes themselves are the allowlist's (``link_codes``).
"""

from dataclasses import dataclass
from datetime import datetime

from allowlist import link_codes
from channels_app.owner import notices
from core.conversations import outbox
from core.conversations.inbox import Draft
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
        notices.decided(request, text=f"{user} typed a code: it is another address of theirs.")
    tell_owners(user, draft, now)
    words = f"This address is now linked to {user}. Write to me and I will answer."
    return Typed(user, words, messages)


def tell_owners(user: User, draft: Draft, now: datetime) -> None:
    """Notify every owner of an address that was added without them."""
    sender = one_line(draft.sender, notices.SENDER_LENGTH)
    text = f"{user} linked another address with a code: {sender} on {draft.account}."
    moment = int(now.timestamp() * 1000)
    for owner in notices.owners():
        key = f"notice:link:{user.pk}:{draft.account.pk}:{moment}:{owner.pk}"
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
