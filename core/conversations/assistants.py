"""Which assistant answers: one function decides, and says why.

The most specific binding wins: the person's own choice in this conversation > API key > group >
person > account > the default. A choice counts while the owner offers that assistant to the person.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import transaction

from core.database.transactions import atomic_write
from core.models import Assistant, ChatSession, User
from core.providers import catalogue
from core.providers.catalogue import AssistantInfo, Catalogue, ModelInfo
from core.signals import pubsub

WHY = {
    "choice": "it was chosen in this conversation",
    "key": "it is bound to the API key",
    "chat": "it is bound to this group",
    "person": "it is bound to this person",
    "account": "it is bound to this account",
    "default": "it is the default",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a turn is asked for. ``key_id``: the API key; 0 for none."""

    user_id: int
    account_id: int
    chat: str = ""
    key_id: int = 0
    is_owner: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """The assistant of a turn, the model that the person wants before its chain (0: none), and the
    reason, a key of WHY.
    """

    assistant: AssistantInfo
    model_id: int
    reason: str

    @property
    def why(self) -> str:
        """Return the explanation as a sentence."""
        return f"{self.assistant.name} answers: {WHY[self.reason]}."


def place_of(session: ChatSession, *, key_id: int = 0) -> Place:
    """Return the place of a session."""
    return Place(
        user_id=session.user_id,
        account_id=session.account_id,
        chat=session.chat,
        key_id=key_id,
        is_owner=session.user.is_owner,
    )


def choose(known: Catalogue, place: Place, *, assistant_id: int = 0, model_id: int = 0) -> Choice:
    """Return what answers at ``place``. The ids are the person's choice in the conversation."""
    bound = (
        ("choice", assistant_id if may_choose(known, place, assistant_id) else None),
        ("key", known.of_key.get(place.key_id)),
        ("chat", known.of_chat.get((place.account_id, place.chat))),
        ("person", known.of_person.get(place.user_id)),
        ("account", known.of_account.get(place.account_id)),
        ("default", known.default),
    )
    reason, found = next((reason, each) for reason, each in bound if each in known.assistants)
    wanted = model_id if may_choose_model(known, place, model_id) else 0
    return Choice(known.assistants[found or known.default], wanted, reason)


def choose_for(session: ChatSession, *, key_id: int = 0) -> Choice:
    """Return what answers the next turn of a session. May block on the database."""
    return choose(
        catalogue.current(),
        place_of(session, key_id=key_id),
        assistant_id=session.assistant_id,
        model_id=session.model_id,
    )


def may_choose(known: Catalogue, place: Place, assistant_id: int) -> bool:
    """Return whether a person may choose an assistant: the owner any, others what is offered."""
    found = known.assistants.get(assistant_id)
    if found is None:
        return False
    if place.is_owner or found.offered == Assistant.Offered.EVERYBODY:
        return True
    return found.offered == Assistant.Offered.LISTED and place.user_id in found.people


def may_choose_model(known: Catalogue, place: Place, model_id: int) -> bool:
    """Return whether a person may choose a model: the owner any, others those that are offered."""
    found = known.models.get(model_id)
    return found is not None and (place.is_owner or found.offered)


def offered_to(known: Catalogue, place: Place) -> list[AssistantInfo]:
    """Return the assistants that a person may choose, by name."""
    rows = [each for each in known.assistants.values() if may_choose(known, place, each.id)]
    return sorted(rows, key=lambda each: each.name.casefold())


def models_offered_to(known: Catalogue, place: Place) -> list[ModelInfo]:
    """Return the models that a person may choose, by label."""
    rows = [each for each in known.models.values() if may_choose_model(known, place, each.id)]
    return sorted(rows, key=lambda each: each.label.casefold())


def pick(session: ChatSession, **chosen: int) -> None:
    """Store a person's choice for a conversation: ``assistant_id``, ``model_id``; 0 undoes it.

    What may not be chosen is checked when it is used (:func:`choose`), so also after the owner has
    withdrawn it. A frame of kind "assistant" tells the person's open pages, after the commit.
    """
    values: dict[str, Any] = {
        name: value for name, value in chosen.items() if name in {"assistant_id", "model_id"}
    }
    with atomic_write(joins=True):
        ChatSession.objects.filter(pk=session.pk).update(**values)
        keys = [f"user:{session.user_id}"]
        frame = {"keys": keys, "kind": "assistant", "session": session.public_id}
        transaction.on_commit(partial(pubsub.publish, [frame]), robust=True)
    for name, value in values.items():
        setattr(session, name, value)


def place_of_user(user: User, *, account_id: int, chat: str = "", key_id: int = 0) -> Place:
    """Return the place of a person who has no session yet."""
    return Place(user.pk, account_id, chat, key_id, user.is_owner)
