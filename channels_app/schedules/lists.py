"""The list of a person's schedules in a chat: `/reminders`, its arguments and its buttons."""

from collections.abc import Callable
from datetime import datetime

from channels_app.base import Block
from channels_app.schedules import rights
from core.conversations import outbox
from core.conversations.schedules import changes, dates, rules
from core.conversations.schedules.changes import RuleError
from core.database.transactions import atomic_write
from core.models import ChatSession, Delivery, InboundMessage, Schedule, User
from core.tools import phrases

PREFIX = "sched"
NONE = "You have no reminders. Ask me for one, such as “remind me tomorrow at 8 to call Ada”."
HOW = "/reminders pause 1, resume 1 or delete 1 changes the first one."
NO_SUCH = "There is no reminder with this number."
OVER = "This reminder does not exist any more."
PAUSED = {
    Schedule.Why.PERSON: "paused",
    Schedule.Why.OWNER: "paused by the owner",
    Schedule.Why.FAILURES: "paused after three failures",
    Schedule.Why.GRANT: "stopped: this address was off the list",
}
MOST_ROWS = 20  # of buttons; a longer list is changed by its numbers


def pause(schedule: Schedule, now: datetime) -> None:
    del now
    changes.pause(schedule_ids=[schedule.pk], why=Schedule.Why.PERSON)


def resume(schedule: Schedule, now: datetime) -> None:
    changes.resume(schedule=schedule, now=now)


def delete(schedule: Schedule, now: datetime) -> None:
    del now
    changes.end(schedule=schedule)


CHANGES: dict[str, Callable[[Schedule, datetime], None]] = {
    "pause": pause,
    "resume": resume,
    "delete": delete,
}
SAID = {"pause": "Paused.", "resume": "Resumed.", "delete": "Deleted."}


def listed(user: User, session: ChatSession) -> list[Schedule]:
    """Return a person's schedules in the order of their numbers, the oldest first; in a group, that
    others read, only those of this chat.
    """
    rows = changes.listed(user, session=session if rights.is_group(session) else None)
    return sorted(rows, key=lambda row: row.pk)


def language_of(user: User) -> str:
    return user.language.partition("-")[0] or "en"


def text_of(user: User, session: ChatSession) -> str:
    """Return the list as text."""
    rows, language = listed(user, session), language_of(user)
    lines = [line_of(number, row, language) for number, row in enumerate(rows, 1)]
    if not lines:
        return phrases.in_language(NONE, language)
    return "\n".join([*lines, "", phrases.in_language(HOW, language)])


def line_of(number: int, schedule: Schedule, language: str) -> str:
    """Return a schedule with its number, its next time or why it has none, and how it repeats."""
    zone = rules.zone_named(schedule.time_zone)
    if schedule.next_at is not None:
        when = dates.in_words(schedule.next_at, zone, language)
    else:
        why = PAUSED.get(Schedule.Why(schedule.why), "paused") if schedule.why else "paused"
        when = f"⏸ {phrases.in_language(why, language)}"
    repeats = dates.repeats(schedule.rule, language)
    mark = "✨ " if schedule.kind == Schedule.Kind.PROMPT else ""
    return f"{number}. {mark}{changes.title_of(schedule)} — {when} ({repeats})"


def obey(user: User, session: ChatSession, argument: str, *, now: datetime) -> str:
    """Carry out `/reminders`, with an argument such as “pause 2”; return the answer."""
    if not argument:
        return text_of(user, session)
    name, _, number = argument.lower().partition(" ")
    rows = listed(user, session)
    is_number = number.strip().isascii() and number.strip().isdigit()
    if name not in CHANGES or not is_number:
        return phrases.in_language(HOW, language_of(user))
    if not 1 <= int(number) <= len(rows):
        return phrases.in_language(NO_SUCH, language_of(user))
    try:
        CHANGES[name](rows[int(number) - 1], now)
    except RuleError as error:
        return str(error)
    return text_of(user, session)


def buttons_for(user: User, session: ChatSession, *, message_id: int) -> list[list[dict[str, str]]]:
    """Return a row of buttons for each schedule; their data (at most 64 bytes) name the message
    whose answer the list is.
    """
    rows = listed(user, session)
    if len(rows) > MOST_ROWS:
        return []
    return [row_of(number, row, message_id) for number, row in enumerate(rows, 1)]


def row_of(number: int, schedule: Schedule, message_id: int) -> list[dict[str, str]]:
    is_active = schedule.state == Schedule.State.ACTIVE
    first = ("⏸", "pause") if is_active else ("▶️", "resume")
    return [
        {
            "text": f"{sign} {number}",
            "data": f"{PREFIX}:{name[0]}:{schedule.public_id}:{message_id}",
        }
        for sign, name in (first, ("🗑", "delete"))
    ]


def press(*, user: User, data: str, now: datetime) -> str:
    """Carry out a press under a list, whose message then shows the new state; return the answer.

    ``data``: without the prefix. The buttons are those of ``user``: others change nothing.
    """
    letter, _, rest = data.partition(":")
    name, _, message_id = rest.partition(":")
    action = next((each for each in CHANGES if each[0] == letter), "")
    schedule = changes.own(user, name)
    if schedule is None or not action:
        return phrases.in_language(OVER, language_of(user))
    with atomic_write():
        try:
            CHANGES[action](schedule, now)
        except RuleError as error:
            return str(error)
        if message_id.isascii() and message_id.isdigit():
            show_again(user, int(message_id))
    return phrases.in_language(SAID[action], language_of(user))


def show_again(user: User, message_id: int) -> None:
    """Change the list that answered a message of the person to the current one."""
    message = InboundMessage.objects.select_related("session__account").filter(
        pk=message_id, user=user
    )
    delivery = Delivery.objects.filter(dedupe_key=f"command:{message_id}").first()
    for row in message:
        if delivery is not None and row.session is not None:
            block = block_of(user, row.session, message_id=message_id)
            outbox.change(delivery=delivery, payload=block)


def block_of(user: User, session: ChatSession, *, message_id: int) -> Block:
    """Return the list as a message with buttons."""
    rows = buttons_for(user, session, message_id=message_id)
    text = text_of(user, session)
    return {"text": text, "buttons": rows} if rows else {"text": text}
