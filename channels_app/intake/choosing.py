"""Choosing an assistant or a model: by a request's fields, and by ``/assistant`` and ``/model``.

A choice by a command holds in the sender's own conversation. Conversations are of one person, also
in groups: a choice never concerns others.
"""

from django.utils.translation import gettext, gettext_noop, ngettext

from channels_app.asgi.http import RefusedError
from core.conversations import assistants
from core.conversations.assistants import Requester
from core.conversations.inbox import Draft
from core.lib.text import in_ascii, one_line
from core.models import ChatSession
from core.providers import catalogue
from core.providers.catalogue import AssistantInfo, Catalogue

UNDO = "default"
FROM_NOW = gettext_noop("From your next message on.")
LISTED = 40
NO_OTHER = gettext_noop("There is no other one to choose.")
# The name is not repeated: it may be anything.
NO_ASSISTANT = gettext_noop(
    "There is no assistant of this name that you may choose. /assistant lists them."
)
NO_MODEL = gettext_noop("There is no model of this name that you may choose. /model lists them.")


def chosen_by(draft: Draft, *, session: ChatSession, listed: bool) -> assistants.Choice | None:
    """Return what answers a request that names it; None for one that names nothing.

    Raises RefusedError 404 for what the sender may not choose, as for what there is not.
    ``listed``: see :func:`assistants.requester_in`.
    """
    if draft.wanted is None:
        return None
    try:
        return assistants.choose_for(
            session, key_id=draft.via_key, wanted=draft.wanted, listed=listed
        )
    except assistants.NotOfferedError as error:
        raise refusal(error.field, error.name) from error


def refusal(field: str, name: str) -> RefusedError:
    """Return the error for a name that may not be chosen. ``field``: one of ``Wanted``."""
    shown = in_ascii(name[:100])
    if field == "either":
        # The first sentence is OpenAI's, by which clients know it.
        hint = "`default` always answers; GET /v1/models lists the names that you may use."
        return RefusedError(404, f"The model `{shown}` does not exist. {hint}", field="model")
    return RefusedError(404, f"There is no {field} `{shown}` that you may choose.", field=field)


def help_lines(session: ChatSession, requester: Requester) -> dict[str, str]:
    """Return the entries of ``/help`` for the commands with which this person changes something."""
    known = catalogue.current()
    free = assistants.choose(known, requester)
    found: dict[str, str] = {}
    if any(each.id != free.assistant.id for each in assistants.offered_to(known, requester)):
        found["assistant"] = gettext_noop("show or choose the assistant of this conversation")
    now = answering(known, session, requester)
    first = next(iter(known.chain_of(now.assistant.id)), None)
    if any(each != first for each in assistants.models_offered_to(known, requester)):
        found["model"] = gettext_noop("show or choose the model of this conversation")
    return found


def answering(known: Catalogue, session: ChatSession, requester: Requester) -> assistants.Choice:
    """Return what answers the next turn of a session."""
    return assistants.choose(
        known, requester, assistant_id=session.assistant_id, model_id=session.model_id
    )


def assistant(session: ChatSession, requester: Requester, name: str) -> str:
    """Carry out ``/assistant``: without a ``name`` list those that the person may choose, else
    choose one; ``default`` undoes the choice. Inside a transaction.
    """
    known = catalogue.current()
    offered = assistants.offered_to(known, requester)
    if name:
        wanted = None if name.casefold() == UNDO else named(offered, name)
        if wanted is None and name.casefold() != UNDO:
            return gettext(NO_ASSISTANT)
        assistants.pick(session, assistant_id=wanted.id if wanted else 0)
        return f"{said(answering(known, session, requester))} {gettext(FROM_NOW)}"
    lines = []
    if session.assistant_id and not assistants.may_choose(known, requester, session.assistant_id):
        assistants.pick(session, assistant_id=0)
        lines.append(gettext("The assistant that you chose here is no longer offered."))
    now = answering(known, session, requester)
    lines.append(said(now))
    ruling = assistants.choose(known, requester).assistant.id
    if all(each.id == ruling for each in offered):
        return "\n".join([*lines, gettext(NO_OTHER)])
    rows = [assistant_line(each, now.assistant.id) for each in offered]
    return "\n".join([*lines, *listed(rows, "/assistant")])


def listed(rows: list[str], command: str) -> list[str]:
    """Return the lines of a list, and how to choose from it."""
    rest = len(rows) - LISTED
    said = ngettext("… and {count} more", "… and {count} more", rest).format(count=rest)
    more = [said] if rest > 0 else []
    return [
        "",
        *rows[:LISTED],
        *more,
        "",
        gettext("{command} <name> chooses one here, {command} default undoes it.").format(
            command=command
        ),
    ]


def said(choice: assistants.Choice) -> str:
    """Return who answers and why, as a sentence; names are the owner's words, on one line."""
    return one_line(choice.why, 300)


def assistant_line(each: AssistantInfo, now: int) -> str:
    """Return the line of an assistant in the list: its slug, its name, and whether it answers."""
    name = "" if each.name.casefold() == each.slug else f" — {one_line(each.name, 64)}"
    return f"{each.slug}{name}{now_mark(is_now=each.id == now)}"


def now_mark(*, is_now: bool) -> str:
    """Return the mark of what answers at present."""
    return f" {gettext('(now)')}" if is_now else ""


def named(offered: list[AssistantInfo], name: str) -> AssistantInfo | None:
    """Return the assistant with this slug, else with this name; in any case of letters."""
    wanted = name.casefold()
    slugs = (each for each in offered if each.slug.casefold() == wanted)
    names = (each for each in offered if each.name.casefold() == wanted)
    return next(slugs, None) or next(names, None)


def model(session: ChatSession, requester: Requester, name: str) -> str:
    """Carry out ``/model``, as :func:`assistant` does ``/assistant``."""
    known = catalogue.current()
    names = {
        each.id: assistants.name_of_model(known, each.id)
        for each in assistants.models_offered_to(known, requester)
    }
    if name:
        wanted = 0 if name.casefold() == UNDO else model_named(known, names, name)
        if not wanted and name.casefold() != UNDO:
            return gettext(NO_MODEL)
        assistants.pick(session, model_id=wanted)
        return f"{said_model(known, session, requester)} {gettext(FROM_NOW)}"
    lines = []
    if session.model_id and session.model_id not in names:
        assistants.pick(session, model_id=0)
        lines.append(gettext("The model that you chose here is no longer offered."))
    lines.append(said_model(known, session, requester))
    now = answering(known, session, requester)
    chain = known.chain_of(now.assistant.id)
    if all(chain and each == chain[0].id for each in names):
        return "\n".join([*lines, gettext(NO_OTHER)])
    asked = known.chain_of(now.assistant.id, first=now.model_id)
    first = asked[0].id if asked else 0
    rows = [model_line(known, each, name, first) for each, name in names.items()]
    return "\n".join([*lines, *listed(rows, "/model")])


def said_model(known: Catalogue, session: ChatSession, requester: Requester) -> str:
    """Return which model is asked first and why, as a sentence.

    A model that is not offered to the person is not named.
    """
    now = answering(known, session, requester)
    if now.model_id:
        label = one_line(known.models[now.model_id].label, 100)
        asked = gettext("{name} is asked first: it was chosen in this conversation.")
        return asked.format(name=label)
    own = gettext("{name} uses its own models: none was chosen here.")
    return own.format(name=one_line(now.assistant.name, 64))


def model_line(known: Catalogue, model_id: int, name: str, first: int) -> str:
    """Return the line of a model in the list: its name, its label, whether it is asked first."""
    label = known.models[model_id].label
    more = "" if label.casefold() == name.casefold() else f" — {one_line(label, 100)}"
    return f"{one_line(name, 200)}{more}{now_mark(is_now=model_id == first)}"


def model_named(known: Catalogue, offered: dict[int, str], name: str) -> int:
    """Return the id of the offered model with this name or label, in any case of letters."""
    wanted = name.casefold()
    for each, found in assistants.model_names(known).items():
        if found.id in offered and each.casefold() == wanted:
            return found.id
    return next((each for each in offered if known.models[each].label.casefold() == wanted), 0)
