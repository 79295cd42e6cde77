"""Which assistant answers: every combination of bindings and of what is offered."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.conversations import assistants, inbox
from core.conversations.assistants import NotOfferedError, Requester, Wanted
from core.models import (
    Assistant,
    AssistantBinding,
    ChannelAccount,
    ChatSession,
    LanguageModel,
    ModelProvider,
    User,
)
from core.providers import catalogue
from core.providers.catalogue import AssistantInfo, Catalogue, ModelInfo, ProviderInfo
from tests.plans import listening

OURS, OTHERS = 1, 2
PROVIDER = ProviderInfo(
    id=1,
    name="P",
    kind="openai-compatible",
    base_url="",
    secrets="",
    first_token_seconds=1,
    idle_seconds=1,
    concurrency=0,
    allow_private=False,
    from_environment=False,
)
# From the most specific to the least, as the module says.
ORDER = ("request", "choice", "key", "chat", "person", "account", "default")
OFFERED = tuple(Assistant.Offered.values)


def persona(number: int, *, offered: str = "everybody", people: tuple[int, ...] = ()) -> Any:
    """Return an assistant with two models of its own."""
    return AssistantInfo(
        id=number,
        slug=f"a{number}",
        name=f"Assistant {number}",
        instructions="",
        version=number,
        chain=(1, 2),
        temperature=None,
        max_output_tokens=None,
        tools=None,
        languages=(),
        offered=offered,
        people=frozenset(people),
    )


def model(number: int, *, offered: bool = True, name: str = "", provider: str = "P") -> ModelInfo:
    return ModelInfo(
        id=number,
        provider=replace(PROVIDER, name=provider),
        name=name or f"m{number}",
        label=f"Model {number}",
        context_tokens=8192,
        max_output_tokens=100,
        can_call_tools=True,
        can_see_images=None,
        input_price=Decimal(0),
        cached_price=None,
        output_price=None,
        offered=offered,
        is_embedded=False,
    )


# For each way to an assistant one of its own, which is there or not (disabled and deleted ones are
# not in the catalogue), and to whom it is offered.
state = st.tuples(
    st.booleans(), st.sampled_from(OFFERED), st.sampled_from([(), (OURS,), (OTHERS,)])
)


@pytest.mark.unmeasured
@settings(max_examples=300)
@given(
    bound=st.sets(st.sampled_from(ORDER[1:-1])),
    there=st.lists(state, min_size=len(ORDER), max_size=len(ORDER)),
    is_owner=st.booleans(),
    request=st.booleans(),
    models=st.lists(st.booleans(), min_size=3, max_size=3),
    model_id=st.integers(0, 4),
)
def test_c10_the_most_specific_way_to_an_assistant_that_is_there_wins_and_why_names_it(
    bound: set[str],
    there: list[tuple[bool, str, tuple[int, ...]]],
    is_owner: bool,
    request: bool,
    models: list[bool],
    model_id: int,
) -> None:
    number_of = {way: number for number, way in enumerate(ORDER, start=10)}
    state_of = dict(zip(ORDER, there, strict=True)) | {"default": (True, *there[-1][1:])}
    known = Catalogue(
        version=1,
        models={n: model(n, offered=offered) for n, offered in enumerate(models, start=1)},
        assistants={
            number_of[way]: persona(number_of[way], offered=offered, people=people)
            for way, (is_there, offered, people) in state_of.items()
            if is_there
        },
        default=number_of["default"],
        of_key={7: number_of["key"]} if "key" in bound else {},
        of_chat={(3, "c"): number_of["chat"]} if "chat" in bound else {},
        of_person={OURS: number_of["person"]} if "person" in bound else {},
        of_account={3: number_of["account"]} if "account" in bound else {},
    )
    requester = Requester(user_id=OURS, account_id=3, chat="c", key_id=7, is_owner=is_owner)

    def is_usable(way: str) -> bool:
        """Say independently whether a way leads to an assistant."""
        is_there, offered, people = state_of[way]
        may = is_owner or offered == "everybody" or (offered == "listed" and OURS in people)
        if way == "request":
            return request and is_there
        return is_there and (way == "default" or way in bound) and (way != "choice" or may)

    picked = number_of["choice"] if "choice" in bound else 0
    wanted = Wanted(assistant=f"a{number_of['request']}") if request else None
    named = {each.slug for each in assistants.offered_to(known, requester)}
    if wanted is not None and wanted.assistant not in named:
        with pytest.raises(NotOfferedError):
            assistants.choose(known, requester, assistant_id=picked, wanted=wanted)
        wanted, request = None, False
    found = assistants.choose(
        known, requester, assistant_id=picked, model_id=model_id, wanted=wanted
    )
    expected = next(way for way in ORDER if is_usable(way))
    assert (found.reason, found.assistant.id) == (expected, number_of[expected])
    assert found.why == f"{found.assistant.name} answers: {assistants.WHY[expected]}."
    offered_model = 1 <= model_id <= 3 and (is_owner or models[model_id - 1])
    assert found.model_id == (model_id if offered_model else 0)
    if picked and found.reason == "choice":  # it is in the list
        assert picked in {each.id for each in assistants.offered_to(known, requester)}


def test_c10_another_key_chat_person_and_account_are_not_concerned() -> None:
    known = Catalogue(
        version=1,
        models={},
        assistants={n: persona(n) for n in range(1, 6)},
        default=1,
        of_key={7: 2},
        of_chat={(3, "c"): 3},
        of_person={OURS: 4},
        of_account={3: 5},
    )
    mine = Requester(user_id=OURS, account_id=3, chat="c", key_id=7)
    elsewhere = Requester(user_id=OTHERS, account_id=4, chat="c", key_id=8)
    assert assistants.choose(known, elsewhere).reason == "default"
    for key, (account, chat), user in product((7, 8), ((3, "c"), (3, "d"), (4, "c")), (1, 2)):
        requester = Requester(user_id=user, account_id=account, chat=chat, key_id=key)
        expected = (
            "key" * (key == 7)
            or "chat" * ((account, chat) == (3, "c"))
            or "person" * (user == OURS)
            or "account" * (account == 3)
            or "default"
        )
        assert assistants.choose(known, requester).reason == expected
    assert assistants.choose(known, mine).reason == "key"


KNOWN = Catalogue(
    version=1,
    models={
        1: model(1, name="x"),
        2: model(2, name="x", provider="Q"),
        3: model(3, name="P/x", provider="R"),
        4: model(4, name="secret", offered=False),
        5: model(5, name="a2"),
    },
    assistants={1: persona(1), 2: persona(2), 3: persona(3, offered="listed", people=(OURS,))},
    default=1,
)
ME, YOU = Requester(user_id=OURS, account_id=1), Requester(user_id=OTHERS, account_id=1)


def test_every_model_has_one_name_of_its_own_and_the_older_one_keeps_the_plain_one() -> None:
    names = [assistants.name_of_model(KNOWN, each) for each in KNOWN.models]
    assert names == ["x", "Q/x", "R/P/x", "secret", "a2"]
    assert assistants.model_named(KNOWN, ME, "P/x") == 1, "with its provider every name is known"
    assert assistants.model_named(KNOWN, ME, "R/P/x") == 3
    assert assistants.name_of_model(KNOWN, 99) == ""


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Wanted(), ("default", 1, 5)),
        (Wanted(assistant="a2"), ("request", 2, 5)),
        (Wanted(model="Q/x"), ("default", 1, 2)),
        (Wanted(assistant="a3", model="x"), ("request", 3, 1)),
        (Wanted(either="a2"), ("request", 2, 0)),
        (Wanted(either="x"), ("default", 1, 1)),
        (Wanted(either="x", is_optional=True), ("default", 1, 1)),
        (Wanted(either="secret", is_optional=True), ("default", 1, 5)),
    ],
)
def test_a_request_names_its_assistant_and_leaves_the_rest(
    wanted: Wanted, expected: tuple[str, int, int]
) -> None:
    """An assistant goes before a model of its name, and with its own models."""
    found = assistants.choose(KNOWN, ME, model_id=5, wanted=wanted)
    assert (found.reason, found.assistant.id, found.model_id) == expected


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        (Wanted(assistant="a3"), "assistant"),  # offered to another person
        (Wanted(assistant="a9"), "assistant"),
        (Wanted(assistant="Assistant 1"), "assistant"),  # a name is no slug
        (Wanted(model="secret"), "model"),
        (Wanted(model="a1"), "model"),
        (Wanted(either="a3"), "either"),
        (Wanted(either="secret"), "either"),
        (Wanted(either="x", assistant="a9"), "assistant"),
    ],
)
def test_c10_a_name_that_may_not_be_chosen_is_refused_like_one_that_there_is_not(
    wanted: Wanted, field: str
) -> None:
    with pytest.raises(NotOfferedError) as refused:
        assistants.choose(KNOWN, YOU, wanted=wanted)
    assert refused.value.field == field


def test_an_owner_may_choose_everything_that_is_there() -> None:
    owner = replace(YOU, is_owner=True)
    assert [each.id for each in assistants.offered_to(KNOWN, owner)] == [1, 2, 3]
    assert [each.id for each in assistants.offered_to(KNOWN, YOU)] == [1, 2]
    assert 4 in [each.id for each in assistants.models_offered_to(KNOWN, owner)]
    assert 4 not in [each.id for each in assistants.models_offered_to(KNOWN, YOU)]


# With the database.


@pytest.fixture
def coder(account: ChannelAccount) -> Assistant:
    """Return an assistant that is offered to all, beside the default one."""
    del account
    catalogue.current()
    return Assistant.objects.create(name="Coder", slug="coder", version=3)


def test_c10_a_run_keeps_the_choice_of_its_conversation_and_another_persons_is_untouched(
    session: ChatSession, say: Callable[..., Any], coder: Assistant, woken: list[Any]
) -> None:
    other = User.objects.create(username="bob")
    theirs = inbox.open_session(user=other, account=session.account, chat="42")
    assistants.pick(session, assistant_id=coder.pk)
    mine, yours = say("hello"), say("hello", into=theirs)
    assert (mine.assistant_id, mine.assistant_version) == (coder.pk, 3)
    assert yours.assistant_id == catalogue.current().default
    session.refresh_from_db()
    assert session.assistant_id == coder.pk
    assistants.pick(session, assistant_id=0)
    assert say("hello").assistant_id == catalogue.current().default


@pytest.mark.parametrize("change", ["withdrawn", "disabled", "deleted"])
def test_c10_a_choice_stops_counting_when_the_owner_takes_it_away(
    session: ChatSession, say: Callable[..., Any], coder: Assistant, woken: list[Any], change: str
) -> None:
    assistants.pick(session, assistant_id=coder.pk)
    if change == "withdrawn":
        coder.offered = Assistant.Offered.NOBODY
    elif change == "disabled":
        coder.enabled = False
    coder.delete() if change == "deleted" else coder.save()
    found = assistants.choose_for(session)
    assert (found.reason, say("hello").assistant_id) == ("default", catalogue.current().default)


@pytest.mark.parametrize("change", ["withdrawn", "disabled", "provider disabled", "deleted"])
def test_c10_a_chosen_model_stops_counting_when_the_owner_takes_it_away(
    session: ChatSession, say: Callable[..., Any], coder: Assistant, woken: list[Any], change: str
) -> None:
    provider = ModelProvider.objects.create(name="P")
    row = LanguageModel.objects.create(provider=provider, name="m", offered=True)
    assistants.pick(session, model_id=row.pk)
    assert say("hello").model_id == row.pk
    if change == "provider disabled":
        provider.enabled = False
        provider.save()
    elif change == "deleted":
        row.delete()
    else:
        LanguageModel.objects.filter(pk=row.pk).update(
            **{"offered": False} if change == "withdrawn" else {"enabled": False}
        )
        catalogue.changed()
    assert say("hello").model_id == 0


def test_a_binding_holds_from_the_next_run_on(
    session: ChatSession, say: Callable[..., Any], coder: Assistant, woken: list[Any]
) -> None:
    first = say("hello")
    AssistantBinding.objects.create(assistant=coder, account=session.account, chat=session.chat)
    second = say("hello")
    assert [first.assistant_id, second.assistant_id] == [catalogue.current().default, coder.pk]
    elsewhere = inbox.open_session(user=session.user, account=session.account, chat="43")
    assert say("hello", into=elsewhere).assistant_id == first.assistant_id


def test_c10_an_open_list_gives_no_owners_rights(session: ChatSession, coder: Assistant) -> None:
    """A sender by the owner's open list speaks as the owner, but may not choose like one."""
    Assistant.objects.filter(pk=coder.pk).update(offered=Assistant.Offered.NOBODY)
    catalogue.changed()
    session.user.is_owner = True
    wanted = Wanted(assistant="coder")
    assert assistants.choose_for(session, wanted=wanted).assistant.id == coder.pk
    with pytest.raises(NotOfferedError):
        assistants.choose_for(session, wanted=wanted, listed=False)


def test_the_decision_costs_one_small_statement(session: ChatSession, coder: Assistant) -> None:
    """Also with a choice: the session comes with its person."""
    assistants.pick(session, assistant_id=coder.pk)
    assistants.choose_for(session)
    session = inbox.TO_FLUSH.all(id=session.pk)[0]
    with listening() as asked:
        assert assistants.choose_for(session).reason == "choice"
    assert [each.sql.partition(" FROM ")[2].split()[0] for each in asked] == ['"core_installation"']
