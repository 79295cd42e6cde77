"""The list of a person's schedules in a chat: `/reminders`, its arguments and its buttons."""

from collections.abc import Callable
from datetime import datetime

from django.utils.translation import get_language

from channels_app.base import Block
from channels_app.replies import command_answers
from channels_app.schedules import rights
from channels_app.schedules.buttons import OVER
from core.conversations import outbox
from core.conversations.schedules import changes, dates, rules
from core.conversations.schedules.changes import RuleError
from core.database.transactions import atomic_write
from core.lib.ids import is_public_id
from core.lib.text import is_number
from core.models import ChatSession, Delivery, InboundMessage, Schedule, User
from core.tools import phrases

PREFIX = "sched"
NOTE = command_answers.note_of("reminders")  # of the message that the list answers
NONE = "You have no reminders. Ask me for one, such as “remind me tomorrow at 8 to call Ada”."
HOW = "/reminders pause 1, resume 1 or delete 1 changes the first one."
NO_SUCH = "There is no reminder with this number."
CHANGED = "The numbers have changed since the last list, so nothing was changed."
PAUSED = {
    Schedule.Why.PERSON: "paused",
    Schedule.Why.OWNER: "paused by the owner",
    Schedule.Why.FAILURES: "paused after three failures",
    Schedule.Why.GRANT: "stopped: this address was off the list",
}
NOT_YOURS = "These reminders belong to somebody else."
MORE = "… {0} more"
MOST_UNSENT = 10  # lists that are looked at for one that was sent
MOST_ROWS = 20  # of buttons; a longer list is changed by its numbers
MOST_CHARACTERS = 3500  # of a list: within the limit of each platform


# The first and the second may raise RuleError.
CHANGES: dict[str, Callable[[Schedule, datetime], object]] = {
    "pause": lambda row, _: changes.pause(schedule_ids=[row.pk], why=Schedule.Why.PERSON),
    "resume": lambda row, now: rights.resume(row, now=now),
    "delete": lambda row, _: changes.end(schedule=row),
}
SAID = {"pause": "Paused.", "resume": "Resumed.", "delete": "Deleted."}
NAMED = {"pause": "Paused: {0}", "resume": "Resumed: {0}", "delete": "Deleted: {0}"}


def listed(user: User, session: ChatSession) -> list[Schedule]:
    """Return a person's schedules in the order of their numbers, the next one first; in a group,
    that others read, only those of this chat.
    """
    return changes.listed(user, session=session if rights.is_group(session) else None)


def language_of(user: User) -> str:
    return user.language or get_language() or "en"


def text_of(rows: list[Schedule], user: User) -> str:
    """Return the list as text."""
    language = language_of(user)
    if not rows:
        return phrases.in_language(NONE, language)
    lines = fitting(rows, user)
    if len(lines) < len(rows):
        lines.append(phrases.in_language(MORE.format(len(rows) - len(lines)), language))
    return "\n".join([*lines, "", phrases.in_language(HOW, language)])


def fitting(rows: list[Schedule], user: User) -> list[str]:
    """Return the lines of the first schedules, as many as one message takes."""
    lines: list[str] = []
    for number, row in enumerate(rows, 1):
        line = f"{number}. {line_of(row, user)}"
        if sum(map(len, lines)) + len(line) > MOST_CHARACTERS:
            break
        lines.append(line)
    return lines


def line_of(schedule: Schedule, user: User) -> str:
    """Return a schedule's next time, or why it has none, its rule, and another time zone."""
    language = language_of(user)
    if schedule.next_at is not None:
        when = dates.in_words(schedule.next_at, rules.stored_zone(schedule.time_zone), language)
        when = f"↻ {when}" if schedule.is_put_off else when
    else:
        why = PAUSED.get(Schedule.Why(schedule.why), "paused") if schedule.why else "paused"
        when = f"⏸ {phrases.in_language(why, language)}"
    more = [dates.repeats(schedule.rule, language)] if schedule.rule else []
    if schedule.time_zone != user.time_zone:
        more.append(schedule.time_zone)
    about = f" ({', '.join(more)})" if more else ""
    return f"{head_of(schedule)}{when}{about}"


def head_of(schedule: Schedule) -> str:
    """Return the beginning of a schedule's line: its title."""
    mark = "✨ " if schedule.kind == Schedule.Kind.PROMPT else ""
    return f"{mark}{changes.title_of(schedule)} — "


def obey(
    user: User, session: ChatSession, argument: str, *, now: datetime
) -> tuple[str, list[Schedule]]:
    """Carry out ``/reminders`` with an argument; return the answer and the numbered schedules."""
    rows, language = listed(user, session), language_of(user)
    if not argument:
        return text_of(rows, user), rows
    name, _, number = argument.lower().partition(" ")
    number = number.strip()
    if name not in CHANGES or not is_number(number, 9):
        return phrases.in_language(HOW, language), rows
    if not 1 <= int(number) <= len(rows):
        return phrases.in_language(NO_SUCH, language), rows
    chosen = rows[int(number) - 1]
    if had_another(session, int(number), rows, user):
        return f"{phrases.in_language(CHANGED, language)}\n\n{text_of(rows, user)}", rows
    try:
        CHANGES[name](chosen, now)
    except RuleError as error:
        return phrases.in_language(str(error), language), rows
    # The numbers may have changed since the person saw them: which one it was is said.
    said = phrases.in_language(NAMED[name].format(changes.title_of(chosen)), language)
    rows = listed(user, session)
    return f"{said}\n\n{text_of(rows, user)}", rows


def had_another(session: ChatSession, number: int, rows: list[Schedule], user: User) -> bool:
    """Return whether the last list that was shown in a conversation had another schedule under a
    number than ``rows``: they change places as their times pass, and what is deleted does not come
    back. Of several with the same text it is the one whose line is the same.
    """
    asked = InboundMessage.objects.filter(session=session, note=NOTE).select_related("run")
    latest = asked.order_by("-id")[:MOST_UNSENT]
    shown = next((text for text in map(text_of_answer, latest) if text is not None), None)
    if shown is None:
        return bool(latest)
    lines = numbered(shown)
    chosen, head = rows[number - 1], head_of(rows[number - 1])
    alike = [each for each in lines.values() if each.startswith(head)]
    is_alone = len(alike) < 2 and [*map(head_of, rows)].count(head) == 1
    same = head if is_alone else line_of(chosen, user)
    return number in lines and not lines[number].startswith(same)


def text_of_answer(message: InboundMessage) -> str | None:
    """Return the list that answered a message; None where it was not sent."""
    delivery = Delivery.objects.filter(dedupe_key=command_answers.key_of(message.pk)).first()
    if delivery is not None and delivery.state != Delivery.State.SENT:
        return None
    text = delivery.payload.get("text") if delivery is not None else None
    if text is None and message.run is not None:
        text = message.run.result.get("text")
    return str(text or "")


def numbered(text: str) -> dict[int, str]:
    """Return the lines of a list by their numbers."""
    parts = (each.partition(". ") for each in text.splitlines())
    return {int(number): line for number, dot, line in parts if dot and is_number(number, 9)}


def buttons_for(rows: list[Schedule], user: User, *, message_id: int) -> list[list[dict[str, str]]]:
    """Return a row of buttons for each schedule; their data (64 bytes at most) name the message."""
    if len(rows) > MOST_ROWS:
        return []
    shown = rows[: len(fitting(rows, user))]
    return [row_of(number, row, message_id) for number, row in enumerate(shown, 1)]


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
    schedule = Schedule.objects.filter(public_id=name).first() if is_public_id(name) else None
    language = language_of(user)
    if schedule is not None and schedule.user_id != user.pk:
        return phrases.in_language(NOT_YOURS, language)
    with atomic_write():
        said = press_one(schedule, action, now=now)
        if is_number(message_id):
            show_again(user, int(message_id))
    return phrases.in_language(said, language)


def press_one(schedule: Schedule | None, action: str, *, now: datetime) -> str:
    """Change a schedule of the person who pressed; return the answer in English."""
    is_open = schedule is not None and schedule.state != Schedule.State.ENDED
    if schedule is None or not is_open or not action:
        return OVER
    try:
        CHANGES[action](schedule, now)
    except RuleError as error:
        return str(error)
    return SAID[action]


def show_again(user: User, message_id: int) -> None:
    """Change the list that answered a message of the person to the current one."""
    rows = InboundMessage.objects.select_related("session__account")
    message = rows.filter(pk=message_id, user=user).first()
    delivery = Delivery.objects.filter(dedupe_key=command_answers.key_of(message_id)).first()
    if message is None or delivery is None or message.session is None:
        return
    if "text" not in delivery.payload or message.note != NOTE:
        return
    block = block_of(user, message.session, message_id=message_id)
    if block != delivery.payload:
        outbox.change(delivery=delivery, payload=block)


def block_of(user: User, session: ChatSession, *, message_id: int) -> Block:
    """Return the list as a message with buttons."""
    rows = listed(user, session)
    buttons = buttons_for(rows, user, message_id=message_id)
    text = text_of(rows, user)
    return {"text": text, "buttons": buttons} if buttons else {"text": text}
