"""Put an update into the inbox, from the webhook or from polling.

Everything is committed when a function here returns; only then is the update confirmed to Telegram.
"""

import json
import logging
import re
from collections.abc import Iterable
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext, gettext_noop, ngettext

from allowlist import audit, link_codes, permissions
from allowlist.unknown_requests import STATES
from channels_app.base import Account, ChannelError
from channels_app.intake import decisions, slash_commands
from channels_app.intake.inbound import receive_sender
from channels_app.owner import notices, outages
from channels_app.schedules import buttons, lists
from channels_app.telegram import albums, bot_api, updates
from channels_app.telegram.addressing import Addressed, Bot, understand, with_quote
from channels_app.tool_requests import asking, deciding
from core.conversations import inbox, outbox
from core.conversations.inbox import Draft
from core.database.transactions import AWAY, atomic_write, in_thread
from core.lib.interface_language import spoken
from core.lib.text import is_number, one_line
from core.lib.ttl_cache import TtlCache
from core.models import ChannelAccount, ChatSession, Delivery, InboundMessage, Message, Run, User
from core.tools import phrases

logger = logging.getLogger(__name__)

BOT_SECONDS = 300.0
# So many seconds after a message the name of the bot may be added to it.
LATE_NAME = 600
NAMED_COMMAND = re.compile(r"\s*/\w+@")
GONE = {"kicked", "left"}
BROKEN = "Something went wrong in the gateway. Its log says what."
NOT_LISTED = gettext_noop("Only listed people have reminders.")


bots: TtlCache[tuple[int, str], Bot] = TtlCache(BOT_SECONDS)
_logged: set[str] = set()


async def fetch_bot(account: Account) -> Bot:
    """Return the bot of an account, as ``getMe`` describes it. Raises ChannelError."""
    me: dict[str, Any] = await bot_api.call(account, "getMe")
    return Bot(int(me["id"]), str(me.get("username", "")))


async def bot_of(account: Account) -> Bot:
    """Return the bot of an account, cached for five minutes: the token has its id, but not its
    name, which may change.

    Raises ChannelError where Telegram does not tell it, and did not before: without the name, a
    message to the bot looks like one to others, and would be passed over.
    """
    key = account.id, token_of(account)
    try:
        return bots.get(key) or bots.put(key, await fetch_bot(account))
    except ChannelError as error:
        logger.warning("getMe failed: %s", error)
        known = last_known(account)
        if not known.username:
            raise
        return known


async def bot_for(account: Account, values: Iterable[object]) -> Bot:
    """Return the bot of an account as these updates need it. Raises ChannelError."""
    return await bot_of(account) if any(map(needs_name, values)) else last_known(account)


def last_known(account: Account) -> Bot:
    """Return the last answer of ``getMe``, however old; else the data of the account row."""
    token = token_of(account)
    known = bots.get((account.id, token), expired=True)
    if known is not None:
        return known
    number, _, _ = token.partition(":")
    return Bot(int(number) if number.isdecimal() else 0, str(account.config.get("username", "")))


def token_of(account: Account) -> str:
    """Return the bot token of an account, which begins with the bot's id; empty without one."""
    return account.secrets.get("token", "")


async def take_all(account: Account, values: list[Any], *, offset: int) -> int:
    """Put fetched updates into the inbox, in order; return the offset that confirms them, the given
    one for none. After a week without updates Telegram's ids go on at any number, also a lower one.

    Raises ChannelError where the bot's name matters and is not known.
    """
    row = await in_thread(ChannelAccount.objects.get, id=account.id)
    bot = await bot_for(account, values)
    ids = []
    for value in values:
        raw = json.dumps(value).encode()  # orjson refuses lone surrogates and huge numbers
        await in_thread(take_or_keep, row=row, bot=bot, value=value, raw=raw)
        update_id = value.get("update_id") if isinstance(value, dict) else None
        if isinstance(update_id, int):
            ids.append(update_id)
    return max(ids, default=offset - 1) + 1


def take_again(account: Account, *, raw: bytes) -> str:
    """Process a quarantined update again; return the outcome in a word."""
    row = ChannelAccount.objects.get(id=account.id)
    bot = last_known(account)
    try:
        value = json.loads(raw)
    except ValueError as error:
        return quarantine(row=row, value=None, raw=raw, why=str(error))
    return take(row=row, bot=bot, value=value, raw=raw)


def take_or_keep(*, row: ChannelAccount, bot: Bot, value: object, raw: bytes) -> str:
    """Process an update; one on which that fails is quarantined, as it would hold up all later
    ones. Raises OperationalError or InterfaceError while the database is away.
    """
    try:
        return take(row=row, bot=bot, value=value, raw=raw)
    except AWAY:
        raise
    except Exception:
        logger.exception("an update could not be processed")
        return quarantine(row=row, value=value, raw=raw, why=BROKEN)


def needs_name(value: object) -> bool:
    """Return whether the bot's name matters: in groups, and in commands with a name."""
    if not isinstance(value, dict):
        return False
    message = value.get("message") or value.get("edited_message")
    if not isinstance(message, dict):
        return False
    chat, text = message.get("chat"), message.get("text")
    if isinstance(chat, dict) and chat.get("type") in ("group", "supergroup"):
        return True
    return isinstance(text, str) and NAMED_COMMAND.match(text) is not None


def take(*, row: ChannelAccount, bot: Bot, value: object, raw: bytes) -> str:
    """Process an update; return the outcome in a word."""
    try:
        update = updates.read(value)
    except updates.UnparsableError as error:
        return quarantine(row=row, value=value, raw=raw, why=str(error))
    match update:
        case updates.NewMessage():
            return take_message(row=row, bot=bot, update=update, raw=raw)
        case updates.Edited():
            return take_edit(row=row, bot=bot, update=update, raw=raw)
        case updates.Pressed():
            return take_press(row=row, press=update)
        case updates.Membership():
            return take_membership(row=row, change=update)
        case updates.Moved():
            # Its conversations and schedules go on before a message there begins others.
            notices.moved(account=row, chat=str(update.chat), new_chat=str(update.new_chat))
            return "moved"
        case updates.Other():
            return ignore(row=row, update_id=update.update_id, kind=update.kind)


def take_message(*, row: ChannelAccount, bot: Bot, update: updates.NewMessage, raw: bytes) -> str:
    """Put a message that is addressed to the bot into the inbox; ignore any other.

    Of an album in a group one item may address the bot, with its caption: the others belong to it,
    also those that came before.
    """
    message = update.message
    if not (message.album and message.is_group):
        meant = understand(message, bot=bot)
        if not (meant.addressed or stops_own_answer(row, message, meant)):
            return "not addressed"
        return receive_draft(row, update, meant, raw=raw)
    with atomic_write(joins=True):
        albums.lock(row, message)
        return take_item(row=row, bot=bot, update=update, raw=raw)


def take_item(*, row: ChannelAccount, bot: Bot, update: updates.NewMessage, raw: bytes) -> str:
    """Put an item of an album in a group into the inbox, after the earlier ones if it is the first
    that addresses the bot. Inside a transaction, with the lock of the album.
    """
    message, meant = update.message, understand(update.message, bot=bot)
    if not meant.addressed and not albums.is_addressed(row, message):
        albums.keep(row, update, raw=raw)
        return "not addressed"
    for earlier in albums.kept(row, message):
        first = albums.message_in(earlier)
        earlier.delete()
        if first is not None:
            said = understand(first.message, bot=bot)
            receive_draft(row, first, said, raw=bytes(earlier.raw))
    return receive_draft(row, update, meant, raw=raw)


def receive_draft(
    row: ChannelAccount, update: updates.NewMessage, meant: Addressed, *, raw: bytes
) -> str:
    """Accept a message for the bot; return the outcome in a word."""
    message = update.message
    command = command_of(message, meant)
    draft = draft_of(row=row, update=update, meant=meant, command=command, raw=raw)
    receipt = receive_sender(
        draft=draft,
        now=timezone.now(),
        group=draft.chat if message.is_group else "",
        debounce=True,
        command=command,
    )
    return receipt.outcome


def command_of(message: updates.TelegramMessage, meant: Addressed) -> slash_commands.Command | None:
    """Return the command that a message is; the text after ``/new`` follows the quoted message."""
    command = slash_commands.parse(meant.command_text) if not message.media else None
    if command is not None and command.is_new_text:
        return slash_commands.Command("new", with_quote(message.quoted, command.argument))
    return command


def draft_of(
    *,
    row: ChannelAccount,
    update: updates.NewMessage,
    meant: Addressed,
    command: slash_commands.Command | None,
    raw: bytes,
) -> Draft:
    """Return a message as the inbox stores it; the sender is the numeric id alone ([A2])."""
    message = update.message
    is_for_assistant = command is None or command.is_new_text
    quoted = quoted_media(row, message) if is_for_assistant else []
    return Draft(
        account=row,
        sender=str(message.sender.id),
        sender_name=message.sender.name,
        chat=str(message.chat),
        thread=str(message.thread) if message.thread else "",
        update_id=str(update.update_id),
        message_id=str(message.id),
        text=with_answer_to_others(row, message, meant),
        media=[*quoted, *(message.items() if message.media else ())],
        options={"album": message.album} if message.album else {},
        raw=raw,
    )


def with_answer_to_others(
    row: ChannelAccount, message: updates.TelegramMessage, meant: Addressed
) -> str:
    """Return the text of a message, after the bot's message that it replies to, unless that is the
    last answer in the sender's own conversation: in a group each person has one.
    """
    quoted = message.quoted
    if not meant.is_answer or quoted is None:
        return meant.text
    own = own_session(row, message)
    is_last = own is not None and is_last_answer(own, str(quoted.id))
    return meant.text if is_last else with_quote(quoted, meant.text)


def is_last_answer(session: ChatSession, message_id: str) -> bool:
    """Return whether a message of the bot is the last answer of the conversation."""
    said = Message.objects.filter(session=session, role="assistant", id__gt=session.history_from)
    last = said.select_related("run__session").order_by("-id").first()
    if last is None or last.run is None or last.run.history_from != session.history_from:
        return False
    return Delivery.objects.filter(run=last.run, external_message_id=message_id).exists()


def stops_own_answer(
    row: ChannelAccount, message: updates.TelegramMessage, meant: Addressed
) -> bool:
    """Return whether a message is ``/stop`` without the bot's name while the bot answers its
    sender: Telegram's apps leave it out in a group with one bot.
    """
    command = command_of(message, meant)
    if command is None or command.name != "stop":
        return False
    own = own_session(row, message)
    if own is None:
        return False
    is_writing = Run.objects.filter(session=own, state__in=Run.OPEN).exists()
    return is_writing or outbox.rest_of_answers(own).exists()


def own_session(row: ChannelAccount, message: updates.TelegramMessage) -> ChatSession | None:
    """Return the sender's own conversation in a group, if they may write to the bot there."""
    sender = permissions.Sender(row, "im", str(message.sender.id), group=str(message.chat))
    user = permissions.decide(sender=sender, now=timezone.now()).user
    if user is None:
        return None
    return ChatSession.objects.filter(
        account=row,
        chat=str(message.chat),
        thread=str(message.thread or ""),
        user=user,
        closed_at__isnull=True,
        for_agent=False,
    ).first()


def quoted_media(row: ChannelAccount, message: updates.TelegramMessage) -> list[dict[str, Any]]:
    """Return the files of the quoted message: all items of an album quote it, the first one
    counts.
    """
    quoted = message.quoted
    if quoted is None or not quoted.media or albums.is_addressed(row, message):
        return []
    return quoted.items()


def take_edit(*, row: ChannelAccount, bot: Bot, update: updates.Edited, raw: bytes) -> str:
    """Apply an edit to a message that is not batched yet; later edits change nothing. One by which
    a message of a group addresses the bot that did not before makes it a new one.
    """
    message = update.message
    meant = understand(message, bot=bot)
    if meant.addressed and is_passed_over(row, message):
        new = updates.NewMessage(update.update_id, message)
        return receive_draft(row, new, meant, raw=raw)
    command = command_of(message, meant)
    text = with_answer_to_others(row, message, meant)
    if command is not None and command.is_new_text:
        text = command.argument
    with atomic_write():
        changed = inbox.edit_waiting(
            account=row,
            chat=str(message.chat),
            message_id=str(message.id),
            sender=str(message.sender.id),
            text=link_codes.without_codes(text),
        )
    return "edited" if changed else "too late to edit"


def is_passed_over(row: ChannelAccount, message: updates.TelegramMessage) -> bool:
    """Return whether an edited message of a group is none of the inbox, and not long ago it was
    sent: Telegram also tells of reactions to old messages in this way.
    """
    is_late = not 0 <= message.edit_date - message.date <= LATE_NAME
    if not message.is_group or message.album or is_late:
        return False
    known = InboundMessage.objects.filter(
        account=row, chat=str(message.chat), external_message_id=str(message.id), body_digest=""
    )
    return not known.exclude(external_message_id="").exists()


def take_press(*, row: ChannelAccount, press: updates.Pressed) -> str:
    """Process an owner's press of a notice's button. Other presses change nothing ([A6])."""
    verdict, _, request = press.data.partition(":")
    if verdict in (buttons.PREFIX, lists.PREFIX, asking.PREFIX):
        return take_press_of_person(row=row, press=press)
    if verdict not in STATES and verdict != outages.SEND_AGAIN:
        return ignore(row=row, update_id=press.update_id, kind="callback_query of no button")
    person = person_of(row, press)
    if person is None or not person.is_owner:
        audit.record(
            actor=f"{row}:{press.sender.id}",
            action="request.refused" if verdict in STATES else "delivery.refused",
            subject=one_line(request, 40),
            data={"via": row.channel, "why": "not an owner"},
            now=timezone.now(),
        )
        text = "Only the owner can decide."  # to somebody whose language is not known
    else:
        with spoken(person.language):
            if verdict == outages.SEND_AGAIN:
                text = send_again(request)
            else:
                now = timezone.now()
                text = decisions.in_words(request, verdict, owner=person, via=row.channel, now=now)
    return answer_press(row=row, press=press, text=text)


def answer_press(*, row: ChannelAccount, press: updates.Pressed, text: str) -> str:
    """Answer a press with a line; return the outcome of the update."""
    with atomic_write():
        outbox.enqueue(
            key=answer_key(row, press),
            account_id=row.pk,
            conversation=f"{row.pk}:press:{press.id}",
            target={"chat": str(press.chat), "thread": "", "reply_to": ""},
            payload={"kind": "answer", "press": press.id, "text": text},
        )
    return "pressed"


def answer_key(row: ChannelAccount, press: updates.Pressed) -> str:
    """Return the key of the answer to a press: each press is answered once."""
    return f"press:{row.pk}:{press.id}"


def take_press_of_person(*, row: ChannelAccount, press: updates.Pressed) -> str:
    """Carry out a press under a reminder, a list of reminders or a question about a tool, and
    answer it, once: the same update again changes nothing. Only for the person of whom a listed
    identity pressed.
    """
    person, now = person_of(row, press), timezone.now()
    prefix, _, rest = press.data.partition(":")
    choice, _, run_id = rest.partition(":")
    with atomic_write():
        if Delivery.objects.filter(dedupe_key=answer_key(row, press)).exists():
            return "pressed"
        if person is None:
            text = NOT_LISTED if prefix != asking.PREFIX else deciding.TEXTS["not_yours"]
        elif prefix == asking.PREFIX:
            text = answer_question(row, press, person, rest)
        elif prefix == lists.PREFIX:
            text = lists.press(user=person, data=rest, now=now)
        else:
            text = buttons.press(user=person, choice=choice, run_id=run_id, now=now)
        return answer_press(row=row, press=press, text=text)


def answer_question(row: ChannelAccount, press: updates.Pressed, person: User, data: str) -> str:
    """Decide the question about a tool of which a button was pressed; return the outcome.

    *Edit* sends the address of the page for it instead.
    """
    choice, _, rest = data.partition(":")
    call_id, _, digest = rest.partition(":")
    known, text = deciding.known_choice(choice), deciding.TEXTS["gone"]
    if choice == asking.EDIT and person.is_owner and (link := deciding.page_link(call_id)):
        outbox.enqueue_in_chat(
            key=f"{answer_key(row, press)}:link",
            account_id=row.pk,
            chat=str(press.chat),
            payload={"text": link},
        )
        text = deciding.TEXTS["edit"]
    elif known is not None:
        text = deciding.decide(
            call_id=call_id,
            digest=digest,
            by=person,
            choice=known,
            via=row.channel,
            now=timezone.now(),
        ).text
    return phrases.in_language(text, asking.language_of(person))


def send_again(account_id: str) -> str:
    """Send the dead deliveries of an account again; return the result in a sentence."""
    if not is_number(account_id):
        return gettext("There is no such account.")
    number = outages.send_again(account_id=int(account_id))
    if not number:
        return gettext("Nothing is left to send again.")
    said = ngettext("{count} message is sent again.", "{count} messages are sent again.", number)
    return said.format(count=number)


def person_of(row: ChannelAccount, press: updates.Pressed) -> User | None:
    """Return the person whose listed identity pressed; None for others, open lists included."""
    sender = permissions.Sender(account=row, kind="im", value=str(press.sender.id))
    decision = permissions.decide(sender=sender, now=timezone.now())
    return decision.user if decision.rule == "listed" else None


def take_membership(*, row: ChannelAccount, change: updates.Membership) -> str:
    """Notify the owner that the bot was blocked or removed in a chat that has been used."""
    if change.status not in GONE:
        return "membership"
    trouble = "blocked" if change.chat_type == "private" else "kicked"
    notices.trouble(
        account=row, chat=str(change.chat), trouble=trouble, words=f"status {change.status}"
    )
    return trouble


def ignore(*, row: ChannelAccount, update_id: int, kind: str) -> str:
    """Count an update that is not answered; its kind is logged once."""
    if kind not in _logged and len(_logged) < 1000:
        _logged.add(kind)
        logger.info("updates of this kind are not answered: %s", kind[:60])
    note(row=row, update_id=str(update_id), state="ignored", why=kind, raw=b"")
    return "ignored"


def quarantine(*, row: ChannelAccount, value: object, raw: bytes, why: str) -> str:
    """Store an update that cannot be parsed, for the admin; later updates are not held up."""
    try:
        name = str(updates.update_id_of(value))
    except updates.UnparsableError:
        name = ""
    logger.warning("an update could not be read: %s", why)
    note(row=row, update_id=name, state="quarantined", why=why, raw=raw)
    return "quarantined"


def note(*, row: ChannelAccount, update_id: str, state: str, why: str, raw: bytes) -> None:
    """Store a row, once, for an update that is not answered."""
    draft = Draft(account=row, update_id=update_id, raw=raw)
    with atomic_write():
        inbox.store(draft=draft, state=state, now=timezone.now(), note=why)
