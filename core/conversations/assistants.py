"""Which assistant answers ([C10]): one function decides, and says why.

A name in the request wins, then the person's own choice in this conversation, then the most
specific binding: API key > group > person > account > the default. A choice counts while the owner
offers that assistant to the person.
"""

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext, gettext_noop

from core.database.transactions import after_commit, atomic_write
from core.models import Assistant, ChatSession, User
from core.providers import catalogue
from core.providers.catalogue import AssistantInfo, Catalogue, ModelInfo
from core.signals import pubsub

WHY = {
    "request": gettext_noop("the request names it"),
    "choice": gettext_noop("it was chosen in this conversation"),
    "key": gettext_noop("it is bound to the API key"),
    "chat": gettext_noop("it is bound to this group"),
    "person": gettext_noop("it is bound to this person"),
    "account": gettext_noop("it is bound to this account"),
    "default": gettext_noop("it is the default"),
}


@dataclass(frozen=True, slots=True)
class Requester:
    """The person or program that asks for a turn, and the conversation.

    ``key_id``: the API key; 0 for none.
    """

    user_id: int
    account_id: int
    chat: str = ""
    key_id: int = 0
    is_owner: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The names in a request, for its turn; empty: nothing.

    ``assistant``: a slug. ``model``: one of :func:`model_names`. ``either``: one of the two, an
    assistant before a model of the same name; ``is_optional``: it counts as nothing if the person
    may not choose it.
    """

    assistant: str = ""
    model: str = ""
    either: str = ""
    is_optional: bool = False


class NotOfferedError(Exception):
    """The value of ``field`` (of :class:`Wanted`) does not exist, or may not be chosen."""

    def __init__(self, field: str, name: str) -> None:
        super().__init__(f"{field}: {name}")
        self.field = field
        self.name = name


@dataclass(frozen=True, slots=True)
class Choice:
    """A turn's assistant, its wanted model (0: none), and the reason, a key of WHY."""

    assistant: AssistantInfo
    model_id: int
    reason: str

    @property
    def why(self) -> str:
        """Return the explanation as a sentence."""
        said = gettext("{name} answers: {reason}.")
        return said.format(name=self.assistant.name, reason=gettext(WHY[self.reason]))


def requester_in(session: ChatSession, *, key_id: int = 0, listed: bool = True) -> Requester:
    """Return the requester of a session.

    Not ``listed``: an open list lets the sender in, who speaks as the session's person and has no
    owner's rights.
    """
    return Requester(
        user_id=session.user_id,
        account_id=session.account_id,
        chat=session.chat,
        key_id=key_id,
        is_owner=listed and session.user.is_owner,
    )


def requester_of(user: User, *, account_id: int, chat: str = "", key_id: int = 0) -> Requester:
    """Return a person who has no session yet."""
    return Requester(user.pk, account_id, chat, key_id, user.is_owner)


def choose(
    known: Catalogue,
    requester: Requester,
    *,
    assistant_id: int = 0,
    model_id: int = 0,
    wanted: Wanted | None = None,
) -> Choice:
    """Return what answers ``requester``. The ids are the person's choice in the conversation.

    The parts that ``wanted`` leaves out are decided without it. Raises NotOfferedError for a name
    in it that the person may not choose.
    """
    named = found(known, requester, wanted) if wanted is not None else (None, None)
    bound = (
        ("request", named[0]),
        ("choice", assistant_id if may_choose(known, requester, assistant_id) else None),
        ("key", known.of_key.get(requester.key_id)),
        ("chat", known.of_chat.get((requester.account_id, requester.chat))),
        ("person", known.of_person.get(requester.user_id)),
        ("account", known.of_account.get(requester.account_id)),
        ("default", known.default),
    )
    reason, decided = next((reason, each) for reason, each in bound if each in known.assistants)
    model = model_id if named[1] is None else named[1]
    wanted_model = model if may_choose_model(known, requester, model) else 0
    return Choice(known.assistants[decided or known.default], wanted_model, reason)


def choose_for(
    session: ChatSession, *, key_id: int = 0, wanted: Wanted | None = None, listed: bool = True
) -> Choice:
    """Return what answers the next turn of a session. May block on the database.

    Raises NotOfferedError for a name in ``wanted`` that the person may not choose. ``listed``: see
    :func:`requester_in`.
    """
    return choose(
        catalogue.current(),
        requester_in(session, key_id=key_id, listed=listed),
        assistant_id=session.assistant_id,
        model_id=session.model_id,
        wanted=wanted,
    )


def found(known: Catalogue, requester: Requester, wanted: Wanted) -> tuple[int | None, int | None]:
    """Return the ids of the assistant and the model that a request names; None where it names none.

    An assistant that ``either`` names answers with its own models: 0. Raises NotOfferedError.
    """
    assistant = model = None
    if wanted.either:
        assistant = assistant_named(known, requester, wanted.either)
        model = 0 if assistant else model_named(known, requester, wanted.either)
        if model is None and not wanted.is_optional:
            raise NotOfferedError("either", wanted.either)
    if wanted.assistant:
        assistant = assistant_named(known, requester, wanted.assistant)
        if assistant is None:
            raise NotOfferedError("assistant", wanted.assistant)
    if wanted.model:
        model = model_named(known, requester, wanted.model)
        if model is None:
            raise NotOfferedError("model", wanted.model)
    return assistant, model


def assistant_named(known: Catalogue, requester: Requester, slug: str) -> int | None:
    """Return the id of the assistant with this slug, if the person may choose it."""
    return next((each.id for each in offered_to(known, requester) if each.slug == slug), None)


def model_named(known: Catalogue, requester: Requester, name: str) -> int | None:
    """Return the id of the model with this name, if the person may choose it."""
    model = model_names(known).get(name)
    return model.id if model is not None and may_choose_model(known, requester, model.id) else None


def model_names(known: Catalogue) -> dict[str, ModelInfo]:
    """Return the models by every name that commands and interfaces accept; the first name of each
    is that of lists (:func:`name_of_model`).

    It is the provider's. Where two models have the same one it is the older one's, and the other
    has its provider's name before it, which is accepted for all: ``OpenRouter/gpt-x``.
    """
    names: dict[str, ModelInfo] = {}
    for each in known.models.values():  # by age
        full = f"{each.provider.name}/{each.name}"
        for name in (each.name, full, f"{full}#{each.id}"):
            names.setdefault(name, each)
    return names


def name_of_model(known: Catalogue, model_id: int) -> str:
    """Return the name of a model for commands and interfaces; "" for one that there is not."""
    found_names = (name for name, each in model_names(known).items() if each.id == model_id)
    return next(found_names, "")


def may_choose(known: Catalogue, requester: Requester, assistant_id: int) -> bool:
    """Return whether a person may choose an assistant: the owner any, others what is offered."""
    assistant = known.assistants.get(assistant_id)
    if assistant is None:
        return False
    if requester.is_owner or assistant.offered == Assistant.Offered.EVERYBODY:
        return True
    return assistant.offered == Assistant.Offered.LISTED and requester.user_id in assistant.people


def may_choose_model(known: Catalogue, requester: Requester, model_id: int) -> bool:
    """Return whether a person may choose a model: the owner any, others those that are offered."""
    model = known.models.get(model_id)
    return model is not None and (requester.is_owner or model.offered)


def offered_to(known: Catalogue, requester: Requester) -> list[AssistantInfo]:
    """Return the assistants that a person may choose, by name."""
    rows = [each for each in known.assistants.values() if may_choose(known, requester, each.id)]
    return sorted(rows, key=lambda each: each.name.casefold())


def models_offered_to(known: Catalogue, requester: Requester) -> list[ModelInfo]:
    """Return the models that a person may choose, by label."""
    rows = [each for each in known.models.values() if may_choose_model(known, requester, each.id)]
    return sorted(rows, key=lambda each: each.label.casefold())


def pick(session: ChatSession, **chosen: int) -> None:
    """Store a person's choice for a conversation: ``assistant_id``, ``model_id``; 0 undoes it.

    Whether it may be chosen is checked when it is used (:func:`choose`), so also after the owner
    has withdrawn it. A frame of kind "assistant" tells the person's open pages, after the commit.
    """
    values: dict[str, Any] = {
        name: value for name, value in chosen.items() if name in {"assistant_id", "model_id"}
    }
    if not values:
        return
    with atomic_write(joins=True):
        ChatSession.objects.filter(pk=session.pk).update(**values)
        keys = [f"user:{session.user_id}"]
        frame = {"keys": keys, "kind": "assistant", "session": session.public_id}
        after_commit(pubsub.publish, [frame])
    for name, value in values.items():
        setattr(session, name, value)
