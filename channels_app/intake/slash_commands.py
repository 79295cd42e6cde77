"""Commands to the gateway itself ([C8]): ``/stop``, ``/new`` and the like.

A command is answered at once through the outbox, without debounce and queue. The text after
``/new``, and an unknown command, go to the assistant.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from django.conf import settings
from django.utils.translation import get_language, gettext, gettext_noop, ngettext

from allowlist import audit, link_codes, permissions
from allowlist.models import UnknownRequest
from allowlist.unknown_requests import Choice
from channels_app import registry
from channels_app.base import Capability
from channels_app.delivery import secret_blocks
from channels_app.intake import choosing, connections, reminders
from channels_app.replies import command_answers
from channels_app.replies.outbound import own_words, stop_rest
from channels_app.schedules import lists
from channels_app.tool_requests import deciding
from core.conversations import assistants, inbox, outbox, runs, usage_reports
from core.lib.interface_language import spoken
from core.lib.text import clean, one_line
from core.models import ChatSession, InboundMessage, Message, Run, Schedule, User

COMMAND = re.compile(r"/([a-z0-9_]{1,32})(?:\s+(.*))?$", re.DOTALL | re.IGNORECASE)
LISTED = 10
# Commands that change how the messages after them are answered.
FROM_HERE_ON = ("new", "assistant", "model")
HELP = {
    "new": gettext_noop("start a new conversation without the history"),
    "stop": gettext_noop("stop the answer that is being written"),
    "status": gettext_noop("show the current state"),
    "whoami": gettext_noop("show your name and address here"),
    "link": gettext_noop("a code that links another address of yours"),
}
LISTED_HELP = {
    "reminders": gettext_noop("list your reminders"),
    "timezone": gettext_noop("show or set your time zone"),
    "usage": gettext_noop("show your tokens, their cost, and your budgets"),
}
CONNECTIONS_HELP = {
    "connections": gettext_noop("your accounts at the servers that I use for you"),
}
LAST_HELP = {"help": gettext_noop("this list")}
OWNER_HELP = {
    "requests": gettext_noop("list the unknown requests"),
    "approve <id>": gettext_noop("allow a sender"),
    "deny <id>": gettext_noop("deny a sender"),
}

NO_SCOPE = "This key has no scope 'admin:requests'."
NO_USAGE = gettext_noop("Usage is shown to listed people: ask the owner to add this address.")
NOT_OWNER = gettext_noop("Only the owner can do that.")
BY_OPEN_LIST = "came in by an open list"
# The answers to a sender that an open list lets in: they are not the person with the list.
FOR_LISTED = {
    "usage": NO_USAGE,
    "reminders": reminders.NOT_LISTED,
    "timezone": reminders.NOT_LISTED,
    "connections": connections.NOT_LISTED,
}

Decide = Callable[[str, Choice], str]


@dataclass(frozen=True, slots=True)
class Command:
    """A command and its argument. ``said``: the answer, if it is carried out already.

    ``in_response``: the endpoint answers in its own response; nothing goes to the outbox.
    ``is_spent``: an unknown sender tried too many codes; the answer is not worth a message.
    """

    name: str
    argument: str = ""
    said: str = ""
    in_response: bool = False
    is_spent: bool = False

    @property
    def is_code(self) -> bool:
        """Return whether it is ``/link`` with a code."""
        return self.name == "link" and self.argument != ""

    @property
    def is_new_text(self) -> bool:
        """Return whether it is ``/new`` with a text, which is a message for the assistant."""
        return self.name == "new" and self.argument != ""


@dataclass(frozen=True, slots=True)
class Asked:
    """A command with its sender and place. ``decide`` settles an unknown request: (id, choice) ->
    words.

    ``listed``: the sender is an identity of ``user``; false for one that an open list lets in.
    ``may_decide``: the credential decides unknown requests, if ``user`` is an owner; false for an
    API key without the scope ``admin:requests`` ([A10]). ``schedules``: those that the answer
    lists.
    """

    command: Command
    user: User
    session: ChatSession
    message: InboundMessage
    now: datetime
    decide: Decide
    listed: bool
    may_decide: bool
    schedules: list[Schedule] = field(default_factory=list)

    @property
    def of_owner(self) -> bool:
        """Return whether the sender is an owner, by a listed identity."""
        return self.user.is_owner and self.listed

    @property
    def requester(self) -> assistants.Requester:
        """Return where the command was given, with the rights of its sender."""
        return assistants.requester_in(
            self.session, key_id=self.message.via_key, listed=self.listed
        )

    @property
    def of_decider(self) -> bool:
        """Return whether the sender is an owner who may see and decide unknown requests here."""
        return self.of_owner and self.may_decide


def parse(text: str) -> Command | None:
    """Return the command that ``text`` is; None if it is none or unknown."""
    found = COMMAND.match((text if text.isprintable() else clean(text)).strip())
    if found is None or found[1].lower() not in ANSWERS:
        return None
    return Command(found[1].lower(), (found[2] or "").strip())


def answered_at_once(text: str) -> Command | None:
    """Return the command that ``text`` is, for endpoints that answer in their own response."""
    command = parse(text)
    return replace(command, in_response=True) if command is not None else None


def carry_out(asked: Asked) -> str:
    """Carry out a command; return the answer. Inside the transaction that stored the message."""
    name = asked.command.name
    with spoken(asked.user.language or get_language() or ""):
        is_refused = name in FOR_LISTED and not asked.listed
        text = gettext(FOR_LISTED[name]) if is_refused else ANSWERS[name](asked)
    InboundMessage.objects.filter(id=asked.message.id).update(
        state=InboundMessage.State.ANSWERED, note=command_answers.note_of(name)
    )
    if not text or asked.command.in_response:
        return text
    message = asked.message
    words = own_words(message, text)
    if words == {"text": text}:  # no answer that a request waits for
        command_answers.leave_out_same(message, text, session_id=asked.session.id)
    if asked.schedules and has_buttons(asked):
        rows = lists.buttons_for(asked.schedules, asked.user, message_id=message.pk)
        words |= {"buttons": rows} if rows else {}
    outbox.enqueue(
        key=command_answers.key_of(message.id),
        account_id=message.account_id,
        conversation=command_answers.place_of(
            account_id=message.account_id, chat=message.chat, thread=message.thread
        ),
        target={
            "chat": message.chat,
            "thread": message.thread,
            "reply_to": message.external_message_id,
        },
        payload=secret_blocks.sealed_block(words) if link_codes.TYPED.search(text) else words,
        session_id=asked.session.id,
    )
    return text


def has_buttons(asked: Asked) -> bool:
    """Return whether messages of the chat may have buttons."""
    channel = registry.get(asked.message.account.channel)
    return channel is not None and Capability.BUTTONS in channel.capabilities


def start(asked: Asked) -> str:
    hello = gettext("Hello {name}! Write to me and I will answer.").format(name=asked.user)
    return f"{hello}\n\n{help_text(asked)}"


def help_text(asked: Asked) -> str:
    choices = choosing.help_lines(asked.session, asked.requester)
    own = choices | (LISTED_HELP if asked.listed else {})
    if asked.listed and connections.usable_by(asked.user):
        own |= CONNECTIONS_HELP
    every = HELP | own | LAST_HELP | (OWNER_HELP if asked.of_decider else {})
    return "\n".join(f"/{name} — {gettext(what)}" for name, what in every.items())


def new(asked: Asked) -> str:
    """``/new``: close the session; the text after it starts a new one."""
    session = asked.session
    last = Message.objects.filter(session=session).order_by("-id").values_list("id", flat=True)
    # The text is the first message of a new one.
    session.history_from, session.title, session.shortened_at = last.first() or 0, "", None
    session.save(update_fields=["history_from", "title", "shortened_at"])
    return "" if asked.command.argument else gettext("A new conversation begins.")


def stop(asked: Asked) -> str:
    """``/stop``: stop open runs, and drop waiting messages and undelivered answers ([C9])."""
    open_runs = Run.objects.filter(session=asked.session, state__in=Run.UNFINISHED).order_by("id")
    going = list(open_runs)
    for run in going:
        runs.request_cancel(run=run)
    waiting = inbox.drop_waiting(session=asked.session, note="stopped")
    rest = stop_rest(asked.session)
    taken = deciding.withdraw(session_id=asked.session.pk)
    # It waits for a decision in the same moment, whose run goes on.
    for run in open_runs.exclude(pk__in=[each.pk for each in going]):
        runs.request_cancel(run=run)
        going.append(run)
    if taken and not going and not rest:
        return gettext("The question was taken back.")
    is_stopping = going or waiting > 1 or rest
    return gettext("Stopping…") if is_stopping else gettext("There is nothing to stop.")


def status(asked: Asked) -> str:
    """``/status``: the state of this session."""
    states = list(
        Run.objects.filter(session=asked.session, state__in=Run.UNFINISHED).values_list(
            "state", flat=True
        )
    )
    running = states.count(Run.State.RUNNING)
    said = gettext("Answers being written: {running}. Waiting: {waiting}.")
    line = said.format(running=running, waiting=len(states) - running)
    if asked.of_owner:
        workers = gettext(
            "Workers: {answers} for answers, {tasks} for long tasks. Undelivered messages that "
            "wait for you: {dead}."
        )
        line += "\n" + workers.format(
            answers=runs.workers_alive("runs"),
            tasks=runs.workers_alive("long"),
            dead=outbox.dead_count(),
        )
    return line


def whoami(asked: Asked) -> str:
    message = asked.message
    said = gettext("You are {name}, a guest.")
    if asked.of_owner:
        said = gettext("You are {name}, the owner.")
    line = said.format(name=asked.user)
    if not message.sender:  # known by their own credential
        return line
    place = gettext("chat: {chat}").format(chat=message.chat)
    if message.thread:
        place = gettext("chat: {chat}, topic: {topic}").format(
            chat=message.chat, topic=message.thread
        )
    return f"{line}\n{message.account.channel} id: {message.sender}\n{place}"


def link(asked: Asked) -> str:
    """``/link``: make a code for another channel. A typed code was handled on receipt."""
    if asked.command.said:
        return asked.command.said
    if asked.command.argument:
        return gettext("This address is known already. Ask the owner to move it to somebody else.")
    if not asked.listed:  # else the address would stay theirs when the list is closed
        note_refusal(asked, "link.refused", f"user:{asked.user.pk}")
        return gettext("This address is on no list: ask the owner to add it first.")
    if asked.command.in_response:  # the answer is kept in the transcript, where no code belongs
        return gettext(
            "Codes are given in the menu of the web chat, and in private chats of messengers."
        )
    channel = registry.get(asked.message.account.channel)
    if channel is None or registry.is_group(channel, asked.message.chat):
        return gettext("Ask me in a private chat: anyone who reads the code can use it.")
    try:
        code = link_codes.make(
            user=asked.user,
            via=asked.message.account.channel,
            now=asked.now,
            identity_expires_at=_expiry(asked),
        )
    except link_codes.NotAllowed as error:
        return str(error)
    minutes = settings.LINK_CODE_MINUTES
    once = ngettext(
        "It works once, for {count} minute. It gives access as you: do not share it.",
        "It works once, for {count} minutes. It gives access as you: do not share it.",
        minutes,
    ).format(count=minutes)
    return f"{gettext('On the other channel, write to me:')}\n/link {code}\n{once}"


def _expiry(asked: Asked) -> datetime | None:
    """Return when the sender's own identity expires: the linked identity must not outlive it."""
    message = asked.message
    if not message.sender:  # known by their own credential
        return None
    sender = permissions.Sender(message.account, message.kind, message.sender)
    return permissions.listed_until(sender=sender, user=asked.user, now=asked.now)


def list_reminders(asked: Asked) -> str:
    """``/reminders``, ``/reminders pause 2``: the person's schedules."""
    said, rows = lists.obey(asked.user, asked.session, asked.command.argument, now=asked.now)
    asked.schedules.extend(rows)
    return said


def requests(asked: Asked) -> str:
    """``/requests``: list the unknown requests, for owners."""
    if not asked.of_decider:
        return NO_SCOPE if asked.of_owner else gettext(NOT_OWNER)
    rows = UnknownRequest.objects.filter(state=UnknownRequest.State.PENDING)
    lines = [
        f"{row.public_id}  {row.account.channel} {one_line(row.sender, 64)}  ×{row.count}  "
        f"{one_line(row.sender_name, 40)}"
        for row in rows.select_related("account").order_by("-last_seen_at")[:LISTED]
    ]
    return "\n".join(lines) or gettext("There are no unknown requests.")


def decision(asked: Asked, choice: Choice) -> str:
    """``/approve <id>``, ``/deny <id>``: for owners whose credential may decide."""
    if asked.user.is_owner and not asked.of_decider:
        note_refusal(asked, "request.refused", asked.command.argument)
        return NO_SCOPE if asked.listed else gettext(NOT_OWNER)
    return asked.decide(asked.command.argument, choice)


def note_refusal(asked: Asked, action: str, subject: str) -> None:
    """Write to the audit log that a command was refused: its sender came in by an open list, or its
    key lacks the scope."""
    message = asked.message
    sender = f"{message.account}:{message.kind}:{message.sender}"
    audit.record(
        actor=audit.actor_of(asked.user) if asked.listed else sender,
        action=action,
        subject=one_line(subject, 40),
        data={"via": message.account.channel, "why": NO_SCOPE if asked.listed else BY_OPEN_LIST},
        now=asked.now,
    )


ANSWERS: dict[str, Callable[[Asked], str]] = {
    "start": start,
    "help": help_text,
    "new": new,
    "stop": stop,
    "status": status,
    "whoami": whoami,
    "link": link,
    "assistant": lambda asked: choosing.assistant(
        asked.session, asked.requester, asked.command.argument
    ),
    "model": lambda asked: choosing.model(asked.session, asked.requester, asked.command.argument),
    "usage": lambda asked: usage_reports.summary(asked.user, asked.now),
    "reminders": list_reminders,
    "timezone": lambda asked: reminders.time_zone(
        asked.user, asked.command.argument, now=asked.now
    ),
    "connections": lambda asked: connections.obey(
        asked.user, asked.command.argument, now=asked.now
    ),
    "requests": requests,
    "approve": partial(decision, choice="approve"),
    "deny": partial(decision, choice="deny"),
}
