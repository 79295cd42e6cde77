"""Accept a message: check the sender, find the session, store the message in the inbox.

    allowed? ──no──► held + unknown request ([A5])
      │ yes
    session, message ──known already──► the outcome of the first one
      │ new
    run now, or wait for more ([C2]); last-used channel

All of it is one transaction; the sender gets a 2xx only after the commit.
"""

import dataclasses
import hashlib
import logging
from contextvars import copy_context
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.utils import timezone

from allowlist import link_codes, permissions, unknown_requests
from allowlist.models import UnknownRequest
from channels_app.agent_sessions import results, sessions
from channels_app.asgi import quota
from channels_app.asgi.admission import admission
from channels_app.asgi.http import RefusedError
from channels_app.intake import choosing, decisions, media, slash_commands
from channels_app.intake.link_codes import answer_code, type_code
from channels_app.owner import auto_replies, notices
from core.conversations import inbox, traces
from core.conversations.inbox import Draft
from core.database.transactions import after_commit, atomic_write
from core.database.writes import Set, write_all
from core.lib import log_ids, tracing
from core.lib.text import is_clean
from core.models import ChannelAccount, ChatSession, InboundMessage, Run, User
from core.signals import wakeups

logger = logging.getLogger(__name__)

JUST_NOW = timedelta(seconds=1)
SHORT_ID = 128  # characters, which each column of an id holds


@dataclass(frozen=True, slots=True)
class Receipt:
    """The outcome for a message: accepted, duplicate, denied, ignored or unknown_session.

    ``said``: the reason for refusing a code, for endpoints that report it in their response.
    """

    outcome: str
    message: InboundMessage | None = None
    run: Run | None = None
    session: ChatSession | None = None
    said: str = ""


def accepted(message: InboundMessage, session: ChatSession, run: Run | None = None) -> Receipt:
    """Return the receipt of an accepted message; that it is stored is logged after the commit."""
    log_ids.note(run=run.public_id if run is not None else "", session=session.public_id)
    after_commit(copy_context().run, logger.info, "a message was accepted")
    if tracing.is_on():
        after_commit(traces.received(message, session, run))
    return Receipt("accepted", message=message, run=run, session=session)


def receive_personal(
    *,
    user: User,
    draft: Draft,
    session_id: str,
    now: datetime,
    origin: str = "",
    session: ChatSession | None = None,
    command: slash_commands.Command | None = None,
    may_decide: bool = False,
) -> Receipt:
    """Accept a message of a person with a credential of their own (web session, personal key)
    [A10].

    ``session``: the open session of ``draft``, if the endpoint has looked it up already.
    ``command``: the command in it, if any, which counts without files; ``may_decide``: whether the
    credential, if it is an owner's, decides unknown requests. Raises RefusedError 413, and 422 for
    a key that stands for another message.
    """
    draft = without_codes(draft)
    command = None if draft.media else command  # a caption is for the assistant
    with atomic_write(joins=True):
        if session_id:
            # Locked: it may be closed or deleted at the same moment.
            session = inbox.own_session(user=user, session_id=session_id, rows=inbox.locked())
            if session is None:
                return Receipt("unknown_session")
        elif (duplicate := inbox.find_duplicate(draft)) is not None:
            return repeated(duplicate, draft)
        if session is None:
            session = inbox.open_session(
                user=user, account=draft.account, chat=draft.chat, thread=draft.thread
            )
        if command is not None and not sessions.listens(session, now=now):
            return obey(
                draft=draft,
                user=user,
                session=session,
                now=now,
                command=command,
                listed=True,
                may_decide=may_decide,
            )
        return accept(draft=draft, user=user, session=session, now=now, origin=origin)


def may_speak(account: ChannelAccount, sender: str) -> bool:
    """Return whether the allowlist lets a sender of a bridge in ([A1])."""
    named = permissions.Sender(account, account.sender_kind, sender)
    return permissions.decide(sender=named, now=timezone.now()).allowed


def receive_sender(
    *,
    draft: Draft,
    now: datetime,
    group: str = "",
    debounce: bool = False,
    command: slash_commands.Command | None = None,
) -> Receipt:
    """Accept a message of a sender that a platform or a bridge names: the rule decides [A1].

        allowed ───────────────────────────────────────► the session hears it, or obeys a command
        not listed, with the code of a link ─► the code is tried ─► the rule again
        denied ─► held, and the owner is asked; the rule again if that was decided meanwhile

    ``command``: the command in it, if any, which counts without files; an unknown sender's is held
    like any text. The rule comes before the search for a duplicate: an idempotency key must tell
    nothing about a message to a sender who may not write (any more). Raises RefusedError 413
    (without ``debounce``), and 422 for a key that stands for another message of the same sender.
    """
    storable = with_storable_ids(draft, group=group)
    if storable is None:
        logger.warning("a message was passed over: its sender or its chat has no id to store")
        return Receipt("ignored")
    draft = storable
    sender = permissions.Sender(
        account=draft.account, kind=draft.kind, value=draft.sender, group=group
    )
    draft = without_codes(draft)
    has_own_media = any("quoted" not in item for item in draft.media)
    command = None if has_own_media else command  # a caption is for the assistant
    with atomic_write(joins=True):
        decision = permissions.decide(sender=sender, now=now)
        if decision.rule != "listed" and command is not None and command.is_code and not group:
            duplicate = inbox.find_duplicate(draft)
            if duplicate is not None:  # a code is tried once, however often its message comes
                known = decision.user is not None or draft.repeat is None
                return repeated(duplicate, draft) if known else refused_again(duplicate)
            draft, command = take_code(draft=draft, command=command, now=now)
            decision = permissions.decide(sender=sender, now=now)
        if decision.user is None:
            held = hold(draft=draft, group=group if decision.rule == "group" else "", now=now)
            if held is not None:
                return refused_code(held, draft=draft, command=command) if command else held
            decision = permissions.decide(sender=sender, now=now)
        if decision.user is None:
            return Receipt("denied")
        session = inbox.session_here(
            user=decision.user,
            account=draft.account,
            chat=draft.chat,
            thread=draft.thread,
            meant_at=now if command is None else None,  # every command is the assistant's
        )
        if session is None:
            duplicate = inbox.find_duplicate(draft)
            if duplicate is not None and not waits_for_sender(duplicate):
                return repeated(duplicate, draft)  # its session was closed: it stays closed
            session = inbox.open_session(
                user=decision.user, account=draft.account, chat=draft.chat, thread=draft.thread
            )
        listed = decision.rule == "listed"
        if command is not None:
            return obey(
                draft=draft,
                user=decision.user,
                session=session,
                now=now,
                command=command,
                listed=listed,
                may_decide=listed,
            )
        return accept(
            draft=draft,
            user=decision.user,
            session=session,
            now=now,
            debounce=debounce,
            listed=listed,
        )


def with_storable_ids(draft: Draft, *, group: str) -> Draft | None:
    """Return a platform's message with ids that every database holds; None for one that nothing can
    be answered to, as its sender or its chat has none: its platform would repeat what is refused.
    """
    ids = (draft.sender, draft.chat, draft.thread, draft.update_id, draft.message_id, group)
    texts = [*map(str, ids)]  # other packages' channels may pass numbers on
    if len(max(texts, key=len)) <= SHORT_ID and "".join(texts).isprintable():  # nearly always
        return draft
    places = {"sender": draft.sender, "chat": draft.chat, "thread": draft.thread}
    if not (is_storable("chat", group) and all(is_storable(*each) for each in places.items())):
        return None
    update_id, message_id = draft.update_id, draft.message_id
    if not is_storable("external_message_id", message_id):  # a reply could not name its digest
        update_id, message_id = update_id or message_id, ""
    if not is_storable("external_update_id", update_id):
        update_id = hashlib.sha256(update_id.encode(errors="surrogatepass")).hexdigest()
    if (update_id, message_id) == (draft.update_id, draft.message_id):
        return draft
    return dataclasses.replace(draft, update_id=update_id, message_id=message_id)


def is_storable(name: str, value: str) -> bool:
    """Return whether a column of received messages holds an id."""
    column = InboundMessage._meta.get_field(name)
    return len(value) <= (getattr(column, "max_length", 0) or 0) and is_clean(value)


def without_codes(draft: Draft) -> Draft:
    """Return ``draft`` as it is stored: without link codes, which may still be valid."""
    text = link_codes.without_codes(draft.text)
    for message in draft.options.get("messages", ()):  # a client's own history (/v1, /ui/chat)
        hide_codes(message)
    return draft if text == draft.text else dataclasses.replace(draft, text=text, raw=b"")


def hide_codes(message: dict[str, Any]) -> None:
    """Remove link codes from the texts of one message of a client's history."""
    content = message.get("content")
    if isinstance(content, str):
        message["content"] = link_codes.without_codes(content)
        return
    for part in content or ():
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            part["text"] = link_codes.without_codes(part["text"])


def take_code(
    *, draft: Draft, command: slash_commands.Command, now: datetime
) -> tuple[Draft, slash_commands.Command]:
    """Try an unlisted sender's code; return the message without it, and the command's answer."""
    typed = type_code(draft=draft, code=command.argument, now=now)
    decisions.replay(typed.held)
    options = draft.options
    if command.in_response:
        options = {**options, "said": typed.words}
    hidden = dataclasses.replace(draft, text=link_codes.hide(draft.text), raw=b"", options=options)
    return hidden, dataclasses.replace(command, said=typed.words, is_spent=typed.spent)


def refused_code(held: Receipt, *, draft: Draft, command: slash_commands.Command) -> Receipt:
    """Return the receipt of an unknown sender's command, with the reason for refusing its code."""
    if command.in_response:
        return dataclasses.replace(held, said=command.said)
    answer_code(draft=draft, words="" if command.is_spent else command.said)
    return held


def obey(
    *,
    draft: Draft,
    user: User,
    session: ChatSession,
    now: datetime,
    command: slash_commands.Command,
    listed: bool,
    may_decide: bool,
) -> Receipt:
    """Carry out an allowed command; the text after ``/new`` is a message. Inside a transaction.

    ``listed``: the sender is one of the user's identities; false for a sender that an open list
    admits, for whom no owner's command is carried out. ``may_decide``: the credential may decide
    unknown requests, if the user is an owner. Messages that wait came before it, so its changes do
    not hold for them.
    """
    if command.name in slash_commands.FROM_HERE_ON:
        before = inbox.find_duplicate(draft)
        if before is None or waits_for_sender(before):
            inbox.flush(session=session, now=now)
    message, new = inbox.store(
        draft=draft, state=InboundMessage.State.RECEIVED, now=now, user=user, session=session
    )
    if not new and not inbox.take_over(message, draft=draft, user=user, session=session, now=now):
        return repeated(message, draft)
    chosen = choosing.chosen_by(draft, session=session, listed=listed)
    if listed:
        write_all(*last_used(user=user, draft=draft, session=session, now=now))

    said = slash_commands.carry_out(
        slash_commands.Asked(
            command=command,
            user=user,
            session=session,
            message=message,
            now=now,
            decide=partial(decisions.in_words, owner=user, via=draft.account.channel, now=now),
            listed=listed,
            may_decide=may_decide,
        )
    )
    if command.is_new_text:
        InboundMessage.objects.filter(id=message.id).update(
            state=InboundMessage.State.RECEIVED, text=command.argument, note=""
        )
        message.text = command.argument
        run = inbox.start_run(session=session, messages=[message], now=now, chosen=chosen)
        return accepted(message, session, run)
    wakeups.batch(session.id)
    if not command.in_response:
        return accepted(message, session)
    run = results.settled_command(session=session, asked=draft.text, words=said)
    InboundMessage.objects.filter(id=message.id).update(run=run)
    return accepted(message, session, run)


def accept(
    *,
    draft: Draft,
    user: User,
    session: ChatSession,
    now: datetime,
    debounce: bool = False,
    origin: str = "",
    listed: bool = True,
) -> Receipt:
    """Store an allowed message; start its run, or let it wait for more. Inside a transaction.

    Not ``listed``: an open list admits the sender, and the last-used channel stays ([A4]): else
    that sender would get the person's notices. Raises RefusedError 404 (an assistant or a model
    that is not offered), 422 (the key of another message), 413 (the quota) and 503 (busy); the last
    two not with ``debounce``, as a platform would repeat the message.
    """
    if draft.media and not debounce:
        check_quota(draft=draft, user=user)
    used = last_used(user=user, draft=draft, session=session, now=now) if listed else []
    for_agent = sessions.listens(session, now=now)
    if debounce and not for_agent:
        return let_wait(draft=draft, session=session, now=now, used=used)
    if draft.sender and not for_agent:  # a person with a credential was counted before
        admission.decide(user.pk)
    received = InboundMessage.State.RECEIVED
    if draft.may_come_twice or for_agent:
        message, new = inbox.store(draft=draft, state=received, now=now, user=user, session=session)
        if not new and not inbox.take_over(
            message, draft=draft, user=user, session=session, now=now
        ):
            return repeated(message, draft)
    else:  # stored with its run: one statement less
        message = inbox.message_of(draft=draft, state=received, now=now, user=user, session=session)
    chosen = choosing.chosen_by(draft, session=session, listed=listed)
    if for_agent:
        run = sessions.hand_over(message=message, session=session)
        write_all(*used)
    else:
        run = inbox.start_run(
            session=session, messages=[message], now=now, origin=origin, also=used, chosen=chosen
        )
    return accepted(message, session, run)


def let_wait(*, draft: Draft, session: ChatSession, now: datetime, used: list[Set]) -> Receipt:
    """Store a message that waits for more ([C2]); ``used`` is written with it."""
    inbox.flush_before(session=session, now=now)
    wait = inbox.ALBUM if draft.options.get("album") else inbox.usual_wait()
    message, new = inbox.store_waiting(draft=draft, session=session, now=now, wait=wait, also=used)
    return accepted(message, session) if new else repeated(message, draft)


def check_quota(*, draft: Draft, user: User) -> None:
    """Check that the files in a message fit into the person's quota. Raises RefusedError 413.

    Files that are still on their platform are checked when they are fetched.
    """
    sizes = media.sizes_to_keep(draft.media, user_id=user.id)
    if sizes:
        quota.check(user_id=user.id, size=sum(sizes), number=len(sizes), field="files")


def hold(*, draft: Draft, group: str, now: datetime) -> Receipt | None:
    """Store the message of an unknown sender, or note the unlisted ``group``. Inside a transaction.

    None: an owner approved the sender since the rule was read; read it again.
    """
    message, new = inbox.store(draft=draft, state=InboundMessage.State.HELD, now=now)
    if not new:
        if draft.repeat is None or waits_for_sender(message):
            return repeated(message, draft)
        return None  # it was accepted: its outcome is only for allowed senders
    denied = unknown_requests.DeniedMessage(
        account=draft.account,
        kind="im" if group else draft.kind,
        sender=group or draft.sender,
        is_group=bool(group),
        sender_name=draft.sender_name,
        chat=group or draft.chat,
        text=draft.text,
        message=message,
    )
    request = unknown_requests.record(denied, now=now)
    if request.state == UnknownRequest.State.APPROVED:
        message.delete()
        return None
    notices.unknown_request(request, now=now)
    auto_replies.send_denied_reply(request, now=now)
    return Receipt("denied", message=message)


def waits_for_sender(message: InboundMessage) -> bool:
    """Return whether a message was denied because its sender was unknown."""
    return message.state in {InboundMessage.State.HELD, InboundMessage.State.PURGED}


def refused_again(message: InboundMessage) -> Receipt:
    """Return the receipt of a repeated message of a denied sender: only the reason."""
    said = message.options.get("said", "") if waits_for_sender(message) else ""
    return Receipt("denied", message=message, said=said)


def repeated(message: InboundMessage, draft: Draft) -> Receipt:
    """Return the receipt of a message that the same sender sent before.

    Raises RefusedError 422 if ``draft`` is another message under the same key.
    """
    if waits_for_sender(message):
        return refused_again(message)
    if draft.repeat is not None and not is_same(message, draft.repeat):
        text = f"{draft.repeat.field} was sent before, with another body."
        raise RefusedError(422, text, field=draft.repeat.field)
    return Receipt("duplicate", message=message, run=message.run, session=message.session)


def is_same(message: InboundMessage, repeat: inbox.RepeatKey) -> bool:
    """Return whether a stored message has the body of the request that ``repeat`` is the key of."""
    session = message.session
    elsewhere = repeat.session and (session is None or session.public_id != repeat.session)
    return message.body_digest in {"", repeat.digest} and not elsewhere


def last_used(*, user: User, draft: Draft, session: ChatSession, now: datetime) -> list[Set]:
    """Return the write that moves the last-used channel of an allowed person here ([A4]).

    ``user`` as the database has it now: nothing is written again within JUST_NOW.
    """
    target = {"chat": session.chat, "thread": session.thread}
    here = user.last_account_id == draft.account.pk and user.last_target == target
    if here and user.last_spoke_at and abs(now - user.last_spoke_at) < JUST_NOW:
        return []
    account = draft.account.pk
    values = {"last_account_id": account, "last_target": target, "last_spoke_at": now}
    return [Set(User, user.pk, values)]
