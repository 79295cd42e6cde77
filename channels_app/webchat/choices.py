"""The assistant and the model of a web chat, those that the person may choose, and pictures.

The entry of the page's menu with the id 0 is the usual one, which answers without a choice.
"""

import base64
import binascii
import re
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from django.urls import reverse
from django.utils.translation import gettext_lazy

from channels_app.asgi.builtin_accounts import builtin_account
from core.conversations import assistants
from core.conversations.assistants import Choice, Requester
from core.models import Assistant, ChatSession, User
from core.providers import catalogue
from core.providers.catalogue import AssistantInfo, Catalogue, ModelInfo

# Pictures that a browser decodes and never executes: no SVG.
PICTURE = re.compile(r"data:(image/(?:png|jpeg|gif|webp));base64,([A-Za-z0-9+/=\s]+)")
FIELDS = ("assistant_id", "model_id")
MISSING = {
    "assistant_id": gettext_lazy("This assistant does not exist."),
    "model_id": gettext_lazy("This model does not exist."),
}
Option = dict[str, Any]
Info = TypeVar("Info", AssistantInfo, ModelInfo)


@dataclass(frozen=True, slots=True)
class Picked:
    """A person's choice for a conversation; 0: none."""

    assistant_id: int = 0
    model_id: int = 0

    def __bool__(self) -> bool:
        """Return whether something was chosen."""
        return bool(self.assistant_id or self.model_id)


def requester_in_new_chat(user: User) -> Requester:
    """Return the requester in a web chat that has no session yet."""
    return assistants.requester_of(user, account_id=builtin_account("web").pk)


def of_new_chat(user: User, wanted: Picked | None = None) -> dict[str, Any]:
    """Return :func:`shown` for a chat that has no session yet."""
    return shown(requester_in_new_chat(user), wanted or Picked())


def field_refused(requester: Requester, wanted: Picked) -> str:
    """Return the name of the field whose value the person may not choose; empty: none."""
    known = catalogue.current()
    if wanted.assistant_id and not assistants.may_choose(known, requester, wanted.assistant_id):
        return "assistant_id"
    if wanted.model_id and not assistants.may_choose_model(known, requester, wanted.model_id):
        return "model_id"
    return ""


def of_session(session: ChatSession) -> dict[str, Any]:
    """Return :func:`shown` for a chat."""
    stored = Picked(session.assistant_id, session.model_id)
    return shown(assistants.requester_in(session), stored)


def shown(requester: Requester, wanted: Picked) -> dict[str, Any]:
    """Return what answers ``requester``, why, and the options of the menu (see the module)."""
    known = catalogue.current()
    choice = assistants.choose(known, requester, **asdict(wanted))
    people = assistant_options(known, requester, choice)
    models = model_options(known, requester, choice)
    chosen = next((each["name"] for each in models if each["checked"] and each["id"]), "")
    return {
        "name": choice.assistant.name,
        "picture": picture_address(choice.assistant),
        "why": choice.why,
        "model": chosen,
        "is_embedded": is_embedded(known, choice),
        "assistants": people,
        "models": models,
    }


def assistant_options(known: Catalogue, requester: Requester, choice: Choice) -> list[Option]:
    """Return the assistants that the person may choose, and the usual one."""
    usual = assistants.choose(known, requester).assistant
    offered = assistants.offered_to(known, requester)
    return [
        {
            **option(each.id, each.name, usual=usual.id, current=choice.assistant.id),
            "picture": picture_address(each),
        }
        for each in with_usual(offered, usual)
    ]


def model_options(known: Catalogue, requester: Requester, choice: Choice) -> list[Option]:
    """Return the models that the person may choose, and the assistant's own."""
    usual = next(iter(known.chain_of(choice.assistant.id)), None)
    offered = assistants.models_offered_to(known, requester)
    usual_id = usual.id if usual is not None else 0
    current = choice.model_id or usual_id
    return [
        option(each.id, each.label, usual=usual_id, current=current)
        for each in (with_usual(offered, usual) if usual is not None else offered)
    ]


def with_usual(offered: list[Info], usual: Info) -> list[Info]:
    """Return ``offered``, with the usual one before them if it is not among them."""
    rows = list(offered)
    if not any(each.id == usual.id for each in rows):
        rows.insert(0, usual)
    return rows


def option(number: int, name: str, *, usual: int, current: int) -> Option:
    """Return an entry of the menu."""
    return {
        "id": 0 if number == usual else number,
        "name": name,
        "usual": number == usual,
        "checked": number == current,
    }


def is_embedded(known: Catalogue, choice: Choice) -> bool:
    """Return whether the embedded model answers first."""
    chain = known.chain_of(choice.assistant.id, first=choice.model_id)
    return bool(chain) and chain[0].is_embedded


def may_meet_embedded() -> bool:
    """Return whether the embedded model is one of the models."""
    return any(each.is_embedded for each in catalogue.current().models.values())


def picture_address(assistant: AssistantInfo) -> str:
    """Return the address of an assistant's picture, another one after a change; empty: none."""
    if not assistant.picture_hash:
        return ""
    path = reverse("chat-assistant-picture", args=[assistant.id])
    return f"{path}?v={assistant.picture_hash}"


@dataclass(frozen=True, slots=True)
class Picture:
    """The bytes of a picture, their type, and a hash that changes with them."""

    data: bytes
    content_type: str
    tag: str


def picture_of(assistant_id: int) -> Picture | None:
    """Return the picture of an assistant; None without one that may be shown."""
    rows = Assistant.objects.filter(pk=assistant_id).values_list("picture", flat=True)
    stored = rows.first() or ""
    found = PICTURE.fullmatch(stored)
    if found is None:
        return None
    try:
        data = base64.b64decode(found[2], validate=False)
    except binascii.Error:
        return None
    return Picture(data, found[1], catalogue.picture_hash(stored))
