"""The rows that go with a deleted one: counted by one statement, removed in parts."""

from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.db.models import PROTECT, RESTRICT
from django.test.utils import CaptureQueriesContext

from core.database import counting, dependents
from core.models import ChannelAccount, ChatSession, Message, Run, User
from tests.gateway_project.personal_data import everything

pytestmark = pytest.mark.django_db(transaction=True)
ROOTS = (User, ChannelAccount)


@pytest.fixture
def person() -> User:
    """Return a person with something in every table, beside an owner."""
    User.objects.create(username="boss", is_owner=True, is_staff=True)
    one, two = (ChannelAccount.objects.create(channel="memory", name=name) for name in "ab")
    everything.build("other", "okapistic", one, two)
    return everything.build("ann", "quagganym", one, two)


def roots(person: User) -> list[Any]:
    return [person, ChannelAccount.objects.get(name="a")]


def counts(root: Any) -> dict[str, int]:
    """Return what Django would delete with a row, without the row itself."""
    _, found = type(root).objects.filter(pk=root.pk).delete()
    return {name: number for name, number in found.items() if name != root._meta.label}


@pytest.mark.parametrize("number", range(len(ROOTS)))
def test_the_numbers_are_those_of_django_s_deletion(person: User, number: int) -> None:
    """By one statement."""
    root = roots(person)[number]
    going = dependents.of(type(root))
    with CaptureQueriesContext(connection) as asked:
        found = counting.numbers([each.rows([root]) for each in going])
    assert len(asked) == 1
    counted = {
        each.model._meta.label: number for each, number in zip(going, found, strict=True) if number
    }
    assert counted == counts(root)
    assert len(counted) > 10


@pytest.mark.parametrize("number", range(len(ROOTS)))
def test_all_goes_before_the_row_in_parts(
    person: User, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of others goes; a row that only names it stays, without it."""
    root = roots(person)[number]
    kept = {
        each: each._default_manager.count() - each_number
        for each, each_number in numbers_of(root).items()
    }
    monkeypatch.setattr(dependents, "AT_ONCE", 1)
    dependents.remove_before(root)
    assert type(root).objects.filter(pk=root.pk).exists()
    assert {each: each._default_manager.count() for each in kept} == kept
    assert counts(root) == {}


def numbers_of(root: Any) -> dict[Any, int]:
    going = dependents.of(type(root))
    found = counting.numbers([each.rows([root]) for each in going])
    return {each.model: number for each, number in zip(going, found, strict=True)}


def test_the_nearest_come_first_and_each_model_once() -> None:
    models = [each.model for each in dependents.of(ChannelAccount)]
    assert len(models) == len({*models})
    assert models.index(ChatSession) < models.index(Message)
    [run] = [each for each in dependents.of(ChannelAccount) if each.model is Run]
    assert run.paths == ("session__account",)


def test_no_row_is_protected() -> None:
    """The admin says so without a look (allowlist/admin/audited.py)."""
    chosen = {
        getattr(field.remote_field, "on_delete", None)
        for model in apps.get_models(include_auto_created=True)
        for field in model._meta.concrete_fields
    }
    assert not chosen & {PROTECT, RESTRICT}
