"""Ask for a yes: in one place, the last channel of who decides that can be written to.

Where there is none, in the open web chats. The admin has all questions besides.
"""

from collections.abc import Sequence

import orjson
from django.conf import settings
from django.utils.translation import get_language

from allowlist import pending_count, tool_rights
from channels_app import registry
from channels_app.base import Block, Capability
from channels_app.owner import notice_targets, notices
from channels_app.owner.notice_targets import Target
from channels_app.schedules.rights import is_group
from core.conversations import outbox, push_messages, tool_calls
from core.conversations.tool_calls import Asked
from core.database import transactions
from core.lib.text import one_line
from core.models import Delivery, Run, ToolCall, User
from core.providers.base import ChatMessage
from core.tools import phrases
from core.tools.mcp.oauth.pages import sign_in_page

PREFIX = "tool"
ONCE, HOUR, ALWAYS, EDIT, DENY = "once", "hour", "always", "edit", "deny"
LABELS = {
    ONCE: "Allow",
    HOUR: "Allow here for 1 h",
    ALWAYS: "Always for this person and tool",
    EDIT: "Edit",
    DENY: "Deny",
}
OF_OWNER = ((ONCE, HOUR), (ALWAYS,), (EDIT, DENY))
OF_PERSON = ((ONCE, DENY), (ALWAYS,))
# About a call of somebody whom an open list lets in.
OF_STRANGER = ((ONCE,), (EDIT, DENY))
QUESTION = "May I use {0}?"
SIGN_IN = "Sign in to {0}, so that I can go on."
# Of a sign-in: the first is a link to its page.
OF_SIGN_IN = {EDIT: "Sign in", DENY: "Not now"}
# Of the hash of a call, in the data of a button (64 bytes in all).
DIGEST_CHARACTERS = 16
NAME_CHARACTERS, ARGUMENT_CHARACTERS, MOST_ARGUMENTS = 64, 200, 12


def ask(*, run: Run, messages: Sequence[ChatMessage], questions: Sequence[Asked]) -> None:
    """Store and ask the questions with which a run ends. In the transaction that ends it."""
    asked = [(each, decider_of(run, each)) for each in questions]
    rows = tool_calls.pause(
        run=run,
        messages=messages,
        asked=[(each, user.pk if user is not None else None) for each, user in asked],
    )
    sign_ins: set[int] = set()  # one question is enough for all calls that wait for it
    for row, (_, user) in zip(rows, asked, strict=True):
        if user is not None and row.sign_in_id not in sign_ins:
            put(row, user)
        if row.sign_in_id is not None:
            sign_ins.add(row.sign_in_id)
    pending_count.changed()


def decider_of(run: Run, question: Asked) -> User | None:
    """Return who is asked: the person, or an owner, before others one who can be written to."""
    if question.of_person or run.user.is_owner:
        return run.user
    return owner_to_ask()


def owner_to_ask() -> User | None:
    """Return an owner, before others one who can be written to."""
    owners = notices.owners()
    return next((each for each in owners if notice_targets.of(each)), owners[0] if owners else None)


def put(row: ToolCall, user: User) -> None:
    """Ask a question in the one place of who decides."""
    push_messages.enqueue(user_id=user.pk, kind="question", ref=row.public_id)
    show_at(target_of(row, user), row, user)


def show_at(target: Target | None, row: ToolCall, user: User) -> None:
    """Show a question in a chat of who decides; None: in their open web chats."""
    text = text_of(row, language_of(user))
    if target is None:
        notices.show_in_web_chats(user, card(row, user, text))
        return
    if row.sign_in is not None:
        block: Block = {"text": f"{text}\n{sign_in_page(row.sign_in.public_id)}"}
        if Capability.BUTTONS in target.channel.capabilities:
            block["buttons"] = buttons(row, user)
    else:
        block = notices.block_of(target.channel, text, buttons(row, user), own_page_of(row))
    notices.put(target, key=key_of(row, user), payload=block)


def target_of(row: ToolCall, user: User) -> Target | None:
    """Return the chat of a question; None for a person who cannot be written to first.

    A person's own question is asked where the request was made, unless others read that chat.
    """
    session = row.run.session
    if row.run.user_id == user.pk and session.account_id == (user.last_account_id or 0):
        here = notice_targets.target(user, session.account, session.chat, session.thread)
        if here is not None:
            return here
    return next(iter(notice_targets.of(user)), None)


def key_of(row: ToolCall, user: User) -> str:
    """Return the dedupe key of a question: it is asked once."""
    return f"{PREFIX}:{row.public_id}:{user.pk}"


def buttons(row: ToolCall, user: User) -> notices.Buttons:
    """Return the buttons under a question; their data is bound to the call's hash."""
    rows = choices_of(row)
    end = f"{row.public_id}:{row.digest[:DIGEST_CHARACTERS]}"
    language = language_of(user)
    return [
        [
            {
                "text": phrases.in_language(label_of(row, each), language),
                "data": f"{PREFIX}:{each}:{end}",
            }
            for each in line
        ]
        for line in rows
    ]


def choices_of(row: ToolCall) -> tuple[tuple[str, ...], ...]:
    """Return the choices of a question with buttons; a sign-in has its link."""
    if row.kind == ToolCall.Kind.SIGN_IN:
        return ((DENY,),)
    if row.of_person:
        return OF_PERSON if may_last(row) else OF_PERSON[:1]
    return OF_OWNER if may_last(row) else OF_STRANGER


def may_last(row: ToolCall) -> bool:
    """Return whether a yes to a call may hold for later ones of its sender: not where an open list
    lets them in, as all of these speak as one person. May block on the database.
    """
    return tool_rights.is_listed(
        row.run, is_group=is_group(row.run.session), now=transactions.now()
    )


def label_of(row: ToolCall, choice: str) -> str:
    return OF_SIGN_IN[choice] if row.kind == ToolCall.Kind.SIGN_IN else LABELS[choice]


def own_page_of(row: ToolCall) -> str:
    """Return the path of the page where who was asked decides a call, without the admin."""
    return f"/tool-calls/{row.public_id}"


def page_of(row: ToolCall) -> str:
    """Return the path of the admin's page where a call is decided or edited."""
    return f"/admin/core/toolcall/{row.pk}/decide/"


def text_of(row: ToolCall, language: str) -> str:
    """Return the question: tool, person, place, arguments and cost; foreign text is cut."""
    if row.kind == ToolCall.Kind.SIGN_IN:
        server = str(row.sign_in.server) if row.sign_in is not None else row.tool
        line = phrases.in_language(SIGN_IN.format(f"“{server}”"), language)
        return f"🔑 {line}\n{where(row)}"
    name = phrases.name_of(one_line(row.tool, NAME_CHARACTERS))
    question = phrases.in_language(QUESTION.format(f"“{name}”"), language)
    lines = [f"🔐 {question}", where(row)]
    lines += [f"• {name}: {value}" for name, value in arguments_of(row)]
    if row.cost:
        lines.append(one_line(row.cost, ARGUMENT_CHARACTERS))
    return "\n".join(line for line in lines if line)


def where(row: ToolCall) -> str:
    """Return who asks, and in which kind of chat."""
    return f"{one_line(str(row.run.user), 64)} · {chat_of(row)}"


def chat_of(row: ToolCall) -> str:
    """Return the name of the channel on which was asked, and the group."""
    session = row.run.session
    channel = registry.get(session.account.channel)
    name = channel.name if channel is not None else session.account.channel
    group = f", {one_line(session.chat, 40)}" if is_group(session) else ""
    return f"{name}{group}"


def arguments_of(row: ToolCall) -> list[tuple[str, str]]:
    """Return the names and values of a call's arguments, shortened, for people."""
    try:
        given = orjson.loads(row.arguments)
    except orjson.JSONDecodeError:
        return [("", one_line(row.arguments, ARGUMENT_CHARACTERS))]
    found = []
    for name, value in list(given.items())[:MOST_ARGUMENTS]:
        text = value if isinstance(value, str) else orjson.dumps(value).decode()
        found.append((one_line(name, 40), one_line(text, ARGUMENT_CHARACTERS)))
    if len(given) > MOST_ARGUMENTS:
        found.append(("…", f"+{len(given) - MOST_ARGUMENTS}"))
    return found


def card(row: ToolCall, user: User, text: str) -> dict[str, object]:
    """Return a question as the web chat shows it."""
    choices = [(each, LABELS[each]) for line in choices_of(row) for each in line]
    page, language = f"{settings.GATEWAY_URL}{page_of(row)}", language_of(user)
    if row.kind == ToolCall.Kind.SIGN_IN:
        choices = list(OF_SIGN_IN.items()) if row.sign_in is not None else choices
        page = sign_in_page(row.sign_in.public_id) if row.sign_in is not None else page
    return {
        "tool_call": row.public_id,
        "digest": row.digest,
        "text": text,
        "arguments": [list(each) for each in arguments_of(row)],
        "choices": [[each, phrases.in_language(label, language)] for each, label in choices],
        "page": page,
    }


def settle(row: ToolCall, text: str) -> None:
    """Show the outcome in the place of the question, without buttons: a person's own one to no
    other, one for an owner to all owners.
    """
    payload = {"text": text}
    prefix = f"{PREFIX}:{row.public_id}:"
    for notice in Delivery.objects.filter(dedupe_key__startswith=prefix).order_by("id"):
        if notice.payload != payload:
            outbox.change(delivery=notice, payload=payload)
    told = [row.asked_of, *(() if row.of_person else notices.owners())]
    for user in {each.pk: each for each in told if each is not None}.values():
        shown = {"tool_call": row.public_id, "text": text, "decided": True}
        notices.show_in_web_chats(user, shown)


def language_of(user: User) -> str:
    """Return the language of questions to a person: their own, else that of the page."""
    return user.language or get_language() or ""
