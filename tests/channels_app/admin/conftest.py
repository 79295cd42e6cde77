"""Fixtures of the tests of the admin's pages for models."""

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from django.core.cache import cache
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from channels_app.admin import addresses
from core.models import Assistant, ChannelAccount, LanguageModel, ModelProvider, User
from core.providers import catalogue, examine, listing
from core.providers.listing import ListedModel

KEY = "sk-planted-0123456789"


def shown_fields(answer: Any) -> dict[str, str]:
    """Return the fields of the form of a page and of its inlines, as a browser would send them."""
    forms = [answer.context["adminform"].form]
    found: dict[str, str] = {}
    for each in answer.context.get("inline_admin_formsets", ()):
        forms += [each.formset.management_form, *each.formset.forms]
    for form in forms:
        for name in form.fields:
            value = form[name].value()
            if isinstance(value, list | tuple):
                continue
            found[form.add_prefix(name)] = "" if value is None or value is False else str(value)
    return {name: value for name, value in found.items() if value}


def errors_of(answer: Any) -> dict[str, str]:
    """Return the errors of the form of a page by field, and those of its rows by prefix-field."""
    assert answer.status_code == 200, answer
    found = {
        name: " ".join(words) for name, words in answer.context["adminform"].form.errors.items()
    }
    for each in answer.context.get("inline_admin_formsets", ()):
        if each.formset.non_form_errors():
            found[each.formset.prefix] = " ".join(each.formset.non_form_errors())
        for form in each.formset.forms:
            for name, words in form.errors.items():
                found[form.add_prefix(name)] = " ".join(words)
    return found


def messages_of(answer: Any) -> str:
    """Return the messages that a page shows, as one text."""
    return " | ".join(str(each) for each in answer.context["messages"])


def page(model: type[Any], pk: int | None = None) -> str:
    """Return the address of the page of a row, or of a new one."""
    name = f"admin:core_{model._meta.model_name}"
    return reverse(f"{name}_add") if pk is None else reverse(f"{name}_change", args=[pk])


def opened(browser: Client, row: Model) -> dict[str, str]:
    """Return what a browser sends back for a page, with the values that it was opened with."""
    answer = browser.get(page(type(row), row.pk))
    found = re.findall(r'name="(initial-[\w-]+)" value="([^"]*)"', answer.content.decode())
    return {**shown_fields(answer), **{name: unescape(value) for name, value in found}}


@pytest.fixture(autouse=True)
def fresh_cache() -> Iterator[None]:
    """Empty the cache."""
    cache.clear()
    yield
    cache.clear()


@pytest.fixture(autouse=True)
def written(db: None) -> None:
    """Write the environment's rows."""
    catalogue.write_environment()


@pytest.fixture
def owner(db: None) -> User:
    """Return the owner."""
    return User.objects.create(username="owner", is_owner=True, is_staff=True, is_superuser=True)


@pytest.fixture
def browser(client: Client, owner: User) -> Client:
    """Return a browser where the owner is signed in."""
    client.force_login(owner)
    return client


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Return the names that resolve, with their addresses; all others do not."""
    known: dict[str, list[str]] = {"api.example.com": ["93.184.215.14"]}

    def look_up(host: str) -> list[str]:
        return known.get(host, [host] if host[:1].isdigit() or ":" in host else [])

    monkeypatch.setattr(addresses, "look_up", look_up)
    return known


class Asked:
    """A provider that answers what it is told to, and notes what it was asked."""

    def __init__(self) -> None:
        """Offer nothing."""
        self.offers: list[str] = []
        self.finding = examine.Examination()
        self.fails: Exception | None = None
        self.asked: list[tuple[str, str]] = []

    async def list_models(self, info: catalogue.ProviderInfo) -> list[ListedModel]:
        """Stand for ``listing.list_models``."""
        self.asked.append(("models", info.base_url))
        if self.fails is not None:
            raise self.fails
        return [ListedModel(each) for each in self.offers]

    async def examine(self, info: catalogue.ProviderInfo, model_name: str) -> examine.Examination:
        """Stand for ``examine.examine``."""
        self.asked.append(("test", model_name))
        if self.fails is not None:
            raise self.fails
        return self.finding


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Return the provider that the pages ask instead of a server."""
    found = Asked()
    monkeypatch.setattr(listing, "list_models", found.list_models)
    monkeypatch.setattr(examine, "examine", found.examine)
    return found


@pytest.fixture
def provider(db: None) -> ModelProvider:
    """Return a provider without a key."""
    return ModelProvider.objects.create(name="Shed", base_url="https://api.example.com/v1")


@pytest.fixture
def model(provider: ModelProvider) -> LanguageModel:
    """Return a model of it."""
    return LanguageModel.objects.create(provider=provider, name="large")


@pytest.fixture
def default(db: None) -> Assistant:
    """Return the default assistant."""
    return Assistant.objects.get(is_default=True)


@pytest.fixture
def telegram(db: None) -> ChannelAccount:
    """Return a Telegram account."""
    return ChannelAccount.objects.create(channel="telegram", name="main")
