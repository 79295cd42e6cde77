"""Models in the admin: abilities, prices, and the circuit breaker."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from allowlist.models import AuditEntry
from core.models import Assistant, AssistantModel, LanguageModel, ModelCircuit, ModelProvider
from core.providers import catalogue
from tests.channels_app.admin.conftest import errors_of, messages_of, page, shown_fields

pytestmark = pytest.mark.django_db


def add(browser: Client, of: ModelProvider, **changed: str) -> Any:
    """Post a new model."""
    fields = {"provider": str(of.pk), "name": "new", "can_see_images": "unknown"}
    return browser.post(page(LanguageModel), {**fields, "enabled": "on", **changed})


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("name", "", "required"),
        ("name", "large", "Shed has this model already"),
        ("name", "x" * 201, "at most 200"),
        ("provider", "", "required"),
        ("provider", "0", "valid choice"),
        ("label", "x" * 101, "at most 100"),
        ("input_price", "-0.01", "below zero"),
        ("cached_price", "-1", "below zero"),
        ("output_price", "-1e-6", "below zero"),
        ("input_price", "much", "number"),
        ("input_price", "NaN", "number"),
        ("input_price", "0.0000001", "6 decimal"),
        ("output_price", "1000000", "6 digits"),
        ("context_tokens", "-1", "0"),
        ("context_tokens", "511", "512"),
        ("context_tokens", "1e9", "whole number"),
        ("context_tokens", "100000001", "512 to 100000000"),
        ("max_output_tokens", "0", "16"),
    ],
)
def test_bad_input_has_its_error_beside_its_field(
    browser: Client, model: LanguageModel, field: str, value: str, words: str
) -> None:
    errors = errors_of(add(browser, model.provider, **{field: value}))
    assert list(errors) == [field], errors
    assert words in errors[field]
    assert LanguageModel.objects.filter(provider__from_environment=False).count() == 1


def test_an_answer_must_fit_the_window(browser: Client, provider: ModelProvider) -> None:
    answer = add(browser, provider, context_tokens="4096", max_output_tokens="4096")
    assert "shorter than the window" in errors_of(answer)["max_output_tokens"]


def test_a_model_cannot_be_added_to_the_environment(browser: Client) -> None:
    fixed = ModelProvider.objects.get(from_environment=True)
    assert list(errors_of(add(browser, fixed))) == ["provider"]


def test_a_model_is_added_with_its_prices(browser: Client, provider: ModelProvider) -> None:
    """The catalogue has it from the next turn on; the change is audited."""
    answer = add(
        browser,
        provider,
        context_tokens="128000",
        input_price="0",
        output_price="1.25",
        offered="on",
        can_see_images="true",
    )
    assert answer.status_code == 302, errors_of(answer)
    row = LanguageModel.objects.get(name="new")
    found = catalogue.current().models[row.pk]
    assert (found.input_price, found.output_price) == (Decimal(0), Decimal("1.25"))
    assert (found.context_tokens, found.can_see_images, found.offered) == (128_000, True, True)
    entry = AuditEntry.objects.get(action="languagemodel.added")
    assert entry.data["output_price"] == [None, "1.25"]
    listed = browser.get(reverse("admin:core_languagemodel_changelist")).content.decode()
    assert "$0 / $1.25" in listed
    assert "128,000" in listed


def test_prices_and_offers_of_the_environments_model_can_be_set_and_the_rest_cannot(
    browser: Client,
) -> None:
    row = LanguageModel.objects.get(provider__from_environment=True)
    address = page(LanguageModel, row.pk)
    fields = {**shown_fields(browser.get(address)), "input_price": "2", "name": "other"}
    assert browser.post(address, {**fields, "context_tokens": "600"}).status_code == 302
    changed = LanguageModel.objects.get(pk=row.pk)
    assert (changed.input_price, changed.name) == (Decimal(2), row.name)
    assert changed.context_tokens == row.context_tokens
    assert changed.enabled
    delete = reverse("admin:core_languagemodel_delete", args=[row.pk])
    assert browser.post(delete, {"post": "yes"}).status_code == 403


def test_an_open_circuit_says_since_when_why_and_when_next_and_is_closed_by_hand(
    browser: Client, model: LanguageModel
) -> None:
    address = page(LanguageModel, model.pk)
    assert "The model is asked as usual." in browser.get(address).content.decode()
    again = reverse("admin:core_languagemodel_again", args=[model.pk])
    assert "Try again now" not in browser.get(address).content.decode()
    now = timezone.now()
    ModelCircuit.objects.create(
        model=model,
        failures=3,
        opened_at=now - timedelta(minutes=7),
        probe_at=now + timedelta(minutes=2, seconds=30),
        openings=2,
        code="quota",
        reason="<b>no credit</b>",
    )
    shown = browser.get(address).content.decode().replace("\xa0", " ")
    assert "Skipped since 7 minutes: &lt;b&gt;no credit&lt;/b&gt;" in shown
    assert "Tried again in 2 minutes" in shown
    assert "opened 2 times in all" in shown
    listed = browser.get(reverse("admin:core_languagemodel_changelist")).content.decode()
    assert "open: quota" in listed
    assert browser.get(again).status_code == 405
    answer = browser.post(again, follow=True)
    assert "is asked again from the next turn" in messages_of(answer)
    circuit = ModelCircuit.objects.get(pk=model.pk)
    assert (circuit.opened_at, circuit.failures) == (None, 0)
    assert AuditEntry.objects.filter(action="languagemodel.circuit_closed").count() == 1


def test_a_model_names_the_assistants_that_use_it(browser: Client, model: LanguageModel) -> None:
    address = page(LanguageModel, model.pk)
    assert "In no assistant" in browser.get(address).content.decode()
    other = Assistant.objects.create(name="Pirate", slug="pirate")
    AssistantModel.objects.create(assistant=other, model=model)
    assert page(Assistant, other.pk) in browser.get(address).content.decode()
    fields = shown_fields(browser.get(address))
    del fields["enabled"]
    answer = browser.post(address, fields, follow=True)
    assert "No model of the chain is enabled: Pirate" in messages_of(answer)
