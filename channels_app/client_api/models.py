"""The names that ``model`` may have at ``/v1``: assistants, models, and two that always work.

``default`` and the name of the environment's model (``GATEWAY_MODEL``) stand for what answers the
caller anyway; the latter for that model, where the caller may choose it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.asgi.principal import Principal
from channels_app.client_api.sessions import ORIGIN
from channels_app.intake import choosing
from core.conversations import assistants
from core.conversations.assistants import Requester, Wanted
from core.models import Assistant, LanguageModel
from core.providers import catalogue
from core.providers.catalogue import Catalogue

ALIAS = "default"
OWNER = "latchkey"


@dataclass(frozen=True, slots=True)
class Entry:
    """One name: of an assistant, of a model, or of neither. ``owner``: its maker."""

    name: str
    owner: str = OWNER
    assistant_id: int = 0
    model_id: int = 0


def always() -> list[str]:
    """Return the names that every request may use."""
    return list(dict.fromkeys([settings.LLM_MODEL, ALIAS]))


def wanted(name: str) -> Wanted | None:
    """Return what a request with this ``model`` asks for; None for what answers anyway."""
    if name == ALIAS:
        return None
    return Wanted(either=name, is_optional=name == settings.LLM_MODEL)


def requester_of(caller: Principal) -> Requester:
    """Return a caller as a requester; a bridge may list what is offered to all."""
    if caller.user is not None:
        account = builtin_account(ORIGIN)
        return assistants.requester_of(caller.user, account_id=account.pk, key_id=caller.key_id)
    account_id = caller.account.pk if caller.account is not None else 0
    return Requester(user_id=0, account_id=account_id, key_id=caller.key_id)


def listed(caller: Principal) -> list[dict[str, Any]]:
    """Return the list of ``GET /v1/models``. May block on the database."""
    known, requester = catalogue.current(), requester_of(caller)
    rows: dict[str, Entry] = {}
    for each in (*own(known, requester), *others(known, requester)):
        rows.setdefault(each.name, each)
    return bodies(known, [*rows.values()])


def one(caller: Principal, name: str) -> dict[str, Any] | None:
    """Return one entry; None for a name that the caller may not use. May block on the database."""
    known, requester = catalogue.current(), requester_of(caller)
    found: Entry | None = None
    if name in always():
        found = Entry(name)
    elif assistant_id := assistants.assistant_named(known, requester, name):
        found = Entry(name, assistant_id=assistant_id)
    elif model_id := assistants.model_named(known, requester, name):
        found = Entry(name, known.models[model_id].provider.name, model_id=model_id)
    return bodies(known, [found])[0] if found is not None else None


def named(caller: Principal, name: str) -> dict[str, Any]:
    """Return an entry. Raises RefusedError 404 if the caller may not use it. May block."""
    found = one(caller, name)
    if found is None:
        raise choosing.refusal("either", name)
    return found


def own(known: Catalogue, requester: Requester) -> Iterator[Entry]:
    """Yield the names that always work; the environment's only where it answers, or is offered."""
    answers = known.chain_of(assistants.choose(known, requester).assistant.id)
    usable = (*answers, *assistants.models_offered_to(known, requester))
    if any(each.provider.from_environment for each in usable):
        yield Entry(settings.LLM_MODEL)
    yield Entry(ALIAS)


def others(known: Catalogue, requester: Requester) -> Iterator[Entry]:
    """Yield the assistants and models with which something else than ``default`` answers.

    Nothing but ``default`` is listed where there is one assistant with one model.
    """
    now = assistants.choose(known, requester).assistant.id
    offered = assistants.offered_to(known, requester)
    if any(each.id != now for each in offered):
        for assistant in offered:
            yield Entry(assistant.slug, assistant_id=assistant.id)
    chain = known.chain_of(now)
    models = assistants.models_offered_to(known, requester)
    if any(each not in chain[:1] for each in models):
        for model in models:
            name = assistants.name_of_model(known, model.id)
            yield Entry(name, model.provider.name, model_id=model.id)


def bodies(known: Catalogue, entries: list[Entry]) -> list[dict[str, Any]]:
    """Return entries in OpenAI's form. ``created``: when the owner made the assistant or model."""
    of_assistants = {each.assistant_id or known.default for each in entries}
    made = dict(Assistant.objects.filter(pk__in=of_assistants).values_list("pk", "created_at"))
    of_models = {each.model_id for each in entries if each.model_id}
    models = dict(LanguageModel.objects.filter(pk__in=of_models).values_list("pk", "created_at"))
    found = []
    for each in entries:
        at = models.get(each.model_id) or made.get(each.assistant_id or known.default)
        created = int(at.timestamp()) if at is not None else 0
        body = {"id": each.name, "object": "model", "created": created, "owned_by": each.owner}
        found.append(body)
    return found
