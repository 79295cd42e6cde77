"""Decide an unknown request from any channel: the allowlist decides, the inbox replays ([A6])."""

from datetime import datetime
from functools import partial
from itertools import groupby

from allowlist import unknown_requests
from allowlist.identities import InvalidIdentity
from allowlist.models import UnknownRequest
from allowlist.unknown_requests import NotAnOwner, RequestNotFound
from channels_app.intake import slash_commands
from channels_app.owner import auto_replies, notices
from core.conversations import inbox
from core.lib.text import as_sentence
from core.models import InboundMessage, User


def decide(
    *,
    request: str,
    verdict: unknown_requests.Choice,
    owner: User,
    via: str,
    now: datetime,
    user: User | None = None,
    everywhere: bool = False,
) -> unknown_requests.Verdict:
    """Decide the unknown request ``request`` (its public id); after an approval its messages are
    run.

    Raises what ``allowlist.unknown_requests.decide`` raises.
    """
    verdict_now = unknown_requests.decide(
        request=request,
        verdict=verdict,
        owner=owner,
        via=via,
        now=now,
        user=user,
        everywhere=everywhere,
        replay=partial(let_in, request),
    )
    notices.decided(verdict_now.request, text=lambda: verdict_now.standing)
    return verdict_now


def in_words(request: str, verdict: str, *, owner: User, via: str, now: datetime) -> str:
    """Decide as :func:`decide`; return the outcome, or why it was refused, in a sentence."""
    try:
        choice = unknown_requests.choice(verdict)
        return decide(request=request, verdict=choice, owner=owner, via=via, now=now).text
    except (RequestNotFound, NotAnOwner, InvalidIdentity) as error:
        return as_sentence(error)


def let_in(request: str, messages: list[InboundMessage]) -> None:
    """After an approval: tell the sender, then replay the held messages ([A7])."""
    row = UnknownRequest.objects.select_related("account").filter(public_id=request).first()
    if row is not None:
        auto_replies.send_approved_reply(row)
    replay(messages)


def replay(messages: list[InboundMessage]) -> None:
    """Start runs for the held messages of an approved sender in their order; an album is one
    message ([A7]). Inside a transaction.
    """
    for _, items in groupby(messages, key=album_of):
        some = list(items)
        last = some[-1]
        assert last.user is not None  # noqa: S101 - set by the decision
        session = inbox.open_session(
            user=last.user, account=last.account, chat=last.chat, thread=last.thread
        )
        rows = InboundMessage.objects.filter(id__in=[each.pk for each in some])
        rows.update(session=session)
        command = None if last.media else slash_commands.parse(last.text)
        if command is not None and not command.is_new_text:  # many begin with "/start"
            rows.update(
                state=InboundMessage.State.ANSWERED, note="a command of before the approval"
            )
            continue
        if command is not None:
            last.text = command.argument
            rows.update(text=last.text)
        inbox.start_run(session=session, messages=some, now=last.received_at)
    # A session is locked before its person.
    if messages and (person := messages[-1].user):
        keep_last_used(messages[-1], person=person)


def keep_last_used(message: InboundMessage, *, person: User) -> None:
    """Move the last-used channel of an approved person to where they wrote ([A4]), unless they
    have been allowed to write elsewhere since."""
    User.objects.filter(pk=person.pk).exclude(last_spoke_at__gt=message.received_at).update(
        last_account=message.account_id,
        last_target={"chat": message.chat, "thread": message.thread},
        last_spoke_at=message.received_at,
    )


def album_of(message: InboundMessage) -> object:
    """Return the album of an item, with its chat; for any other message one of its own."""
    album = message.options.get("album")
    return (message.chat, album) if album else message.pk
