"""The first run: which steps of the owner's set-up are open, skipped or done.

The state is kept in ``Installation.setup``. A step is done when it was marked so, or when what it
is for is there already: an installation that was upgraded has messages and accounts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db.models import Exists, OuterRef, Subquery
from django.utils.translation import gettext, gettext_noop

from channels_app.asgi.builtin_accounts import builtin_account
from core.conversations import assistants
from core.database.transactions import atomic_write
from core.models import ChannelIdentity, Installation, LanguageModel, Message, Run, User
from core.providers import catalogue
from core.providers.catalogue import ModelInfo

State = Literal["open", "skipped", "done"]
TITLES = {
    "model": gettext_noop("Choose a model"),
    "message": gettext_noop("Say hello"),
    "phone": gettext_noop("Reach it from your phone"),
}
NAMES = tuple(TITLES)
STATES: dict[State, str] = {
    "open": gettext_noop("open"),
    "skipped": gettext_noop("skipped"),
    "done": gettext_noop("done"),
}
PHONE_CHANNEL = "telegram"


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the first run. ``number`` counts from 1."""

    name: str
    number: int
    state: State

    @property
    def title(self) -> str:
        return gettext(TITLES[self.name])

    @property
    def state_words(self) -> str:
        """Return the state as the owner reads it."""
        return gettext(STATES[self.state])


@dataclass(frozen=True, slots=True)
class Facts:
    """By what the steps of one person are open or done, from one query: each page of the admin
    asks.

    ``of_first_owner``: whether no active owner came before this person; ``is_on_phone``: whether
    the person is known on the messenger of the third step.
    """

    setup: dict[str, Any]
    of_first_owner: bool = False
    is_answered: bool = False
    is_on_phone: bool = False


def facts_of(user: User) -> Facts:
    """Return the facts of a person."""
    earlier = User.objects.filter(is_owner=True, is_active=True, pk__lt=user.pk)
    rows = User.objects.filter(pk=user.pk).annotate(
        setup=Subquery(Installation.objects.filter(id=1).values("setup")),
        of_first_owner=~Exists(earlier),
        is_answered=Exists(
            Run.objects.filter(user=OuterRef("pk"), state=Run.State.SUCCEEDED).order_by(
                "user", "-id"
            )
        ),
        is_on_phone=Exists(
            ChannelIdentity.objects.filter(user=OuterRef("pk"), channel=PHONE_CHANNEL)
        ),
    )
    found = rows.values("setup", "of_first_owner", "is_answered", "is_on_phone").first()
    if found is None:
        return Facts({})
    return Facts(**found | {"setup": read(found["setup"])})


def is_for(user: User | AnonymousUser) -> bool:
    """Return whether the first run is this person's: the first active owner, if a superuser.

    Another owner, and staff without rights, do not see it.
    """
    if not (isinstance(user, User) and may_have(user)):
        return False
    owners = User.objects.filter(is_owner=True, is_active=True).order_by("id")
    return owners.values_list("pk", flat=True).first() == user.pk


def may_have(user: User) -> bool:
    """Return whether the first run is this person's, if no owner came before."""
    return user.is_owner and user.is_superuser and user.is_active


def begins_for(user: User) -> bool:
    """Return whether a sign-in of ``user`` leads to the first run: once, on a new installation."""
    return not stored().get("begun_at") and is_for(user) and is_new_installation()


def is_new_installation() -> bool:
    """Return whether nothing was set up or said: no model but the embedded one, no message."""
    own = LanguageModel.objects.filter(provider__from_environment=False)
    return not (environment_sets_model() or own.exists() or Message.objects.exists())


def environment_sets_model() -> bool:
    """Return whether the environment's settings name a model other than the embedded one."""
    if settings.LLM_PROVIDER != "openai-compatible":
        return True
    return bool(settings.LLM_BASE_URL) and not settings.LLM_IS_EMBEDDED


def answering(user: User) -> ModelInfo | None:
    """Return the model that answers a person's new web chat; None if there is no model."""
    known = catalogue.current()
    requester = assistants.requester_of(user, account_id=builtin_account("web").pk)
    chosen = assistants.choose(known, requester)
    chain = known.chain_of(chosen.assistant.id)
    if not chain or (is_placeholder(chain[0]) and not chain[0].is_embedded):
        return None
    return chain[0]


def own_model() -> ModelInfo | None:
    """Return the default assistant's first model, unless it is embedded or not set up."""
    known = catalogue.current()
    chain = known.chain_of(known.default)
    return chain[0] if chain and not is_placeholder(chain[0]) else None


def is_placeholder(model: ModelInfo | LanguageModel) -> bool:
    """Return whether a model is only the environment's default: the embedded one, or nothing."""
    return model.provider.from_environment and not environment_sets_model()


def steps(user: User) -> list[Step]:
    """Return the three steps of the first run of ``user``."""
    return steps_of(facts_of(user))


def steps_of(facts: Facts) -> list[Step]:
    """Return the steps by the facts of a person."""
    return [Step(name, number, state_of(name, facts)) for number, name in enumerate(NAMES, start=1)]


def state_of(name: str, facts: Facts) -> State:
    """Return the state of a step: as it was marked, or done when it is no longer needed."""
    marked = facts.setup.get("steps", {})
    state: State = marked.get(name, {}).get("state", "open")
    if state != "done" and IS_DONE[name](facts):
        return "done"
    # A model that was deleted later is asked for again.
    return "open" if name == "model" and state == "done" and own_model() is None else state


IS_DONE: dict[str, Callable[[Facts], bool]] = {
    "model": lambda _: own_model() is not None,
    "message": lambda facts: facts.is_answered,
    "phone": lambda facts: facts.is_on_phone,
}


def remaining(user: User | AnonymousUser) -> list[Step]:
    """Return the steps that are not done, for the person of the first run; empty when dismissed."""
    if not (isinstance(user, User) and may_have(user)):
        return []
    facts = facts_of(user)
    if not facts.of_first_owner or facts.setup.get("dismissed_at"):
        return []
    return [each for each in steps_of(facts) if each.state != "done"]


def has_begun() -> bool:
    """Return whether the first run was opened by the first sign-in, not from the menu later."""
    return bool(stored().get("is_first"))


def begin(*, now: datetime) -> None:
    """Record that the first run was opened; nothing when it was before."""

    def opened(state: dict[str, Any]) -> None:
        if "begun_at" not in state:
            state.update(begun_at=now.isoformat(), is_first=is_new_installation())

    change(opened)


def mark(name: str, state: State, *, now: datetime) -> None:
    """Record a step as skipped or done. A done step is not skipped any more."""

    def marked(setup: dict[str, Any]) -> None:
        known = setup.setdefault("steps", {})
        if known.get(name, {}).get("state") != "done" or state == "done":
            known[name] = {"state": state, "at": now.isoformat()}

    change(marked)


def dismiss(*, now: datetime) -> None:
    """Offer the first run no longer."""
    change(lambda state: state.update(dismissed_at=now.isoformat()))


def stored() -> dict[str, Any]:
    """Return the stored state; empty before the first run was opened."""
    return read(Installation.objects.filter(id=1).values_list("setup", flat=True).first())


def read(found: Any) -> dict[str, Any]:
    """Return a state that was read; empty where there is none."""
    return found if isinstance(found, dict) else {}


def change(edit: Callable[[dict[str, Any]], None]) -> None:
    """Apply ``edit`` to the stored state, one at a time."""
    with atomic_write():
        Installation.objects.get_or_create(id=1)
        row = Installation.objects.select_for_update().get(id=1)
        state = dict(row.setup or {})
        edit(state)
        Installation.objects.filter(id=1).update(setup=state)
