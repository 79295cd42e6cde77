"""Providers in the admin: every bad input beside its field; the key is written and never shown."""

import json
import logging
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from allowlist.models import AuditEntry
from channels_app.admin import addresses
from channels_app.admin.language_models.kinds import KINDS
from core.models import Assistant, AssistantModel, LanguageModel, ModelProvider
from core.providers import catalogue
from core.providers.base import ProviderError
from core.providers.examine import Examination
from core.providers.listing import ListedModel
from tests.channels_app.admin.conftest import (
    KEY,
    Asked,
    errors_of,
    messages_of,
    opened,
    page,
    shown_fields,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("hosts", "asked")]

GOOD = {
    "name": "Mine",
    "base_url": "https://api.example.com/v1",
    "key": KEY,
    "first_token_seconds": "60",
    "idle_seconds": "60",
    "concurrency": "0",
    "enabled": "on",
}
KIND = ModelProvider.Kind.OPENAI_COMPATIBLE


def add(browser: Client, kind: str = KIND, **changed: str) -> Any:
    """Post a new provider; a value of None leaves a field out."""
    fields = {name: value for name, value in {**GOOD, **changed}.items() if value is not None}
    return browser.post(f"{page(ModelProvider)}?kind={kind}", fields)


def test_an_old_page_takes_back_nothing_that_it_does_not_change(
    browser: Client, provider: ModelProvider
) -> None:
    """Saved in a second tab, it sent the key to the address of then."""
    sent = opened(browser, provider)
    now: dict[str, Any] = {"base_url": "https://api.example.com/v2", "enabled": False}
    ModelProvider.objects.filter(pk=provider.pk).update(**now, concurrency=3)
    browser.post(page(ModelProvider, provider.pk), {**sent, "name": "Hut", "key": KEY})
    provider.refresh_from_db()
    assert (provider.name, provider.base_url) == ("Hut", "https://api.example.com/v2")
    assert (provider.enabled, provider.concurrency) == (False, 3)
    assert provider.open_secrets() == {"key": KEY}
    assert KEY not in str(opened(browser, provider))


def test_an_old_page_of_a_server_inside_is_stored_after_its_move(
    browser: Client, provider: ModelProvider
) -> None:
    """The addresses of the host that the page shows were held against the one that is stored."""
    inside: dict[str, Any] = {"base_url": "http://192.168.1.20/v1", "allow_private": True}
    ModelProvider.objects.filter(pk=provider.pk).update(**inside)
    sent = opened(browser, provider)
    moved: dict[str, Any] = {"base_url": "https://api.example.com/v1", "allow_private": False}
    ModelProvider.objects.filter(pk=provider.pk).update(**moved)
    answer = browser.post(page(ModelProvider, provider.pk), {**sent, "name": "Hut"})
    assert answer.status_code == 302, errors_of(answer)
    provider.refresh_from_db()
    assert (provider.name, provider.base_url) == ("Hut", "https://api.example.com/v1")


def test_the_kind_is_chosen_first_with_a_few_words_about_each(browser: Client) -> None:
    content = unescape(browser.get(page(ModelProvider)).content.decode())
    for kind in KINDS.values():
        assert f"?kind={kind.kind}" in content
        assert kind.description in content
    assert set(KINDS) == set(ModelProvider.Kind) - {ModelProvider.Kind.ENVIRONMENT}


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_form_has_the_fields_of_its_kind(browser: Client, kind: str) -> None:
    """An address only where the kind has one, prefilled; a name that is free."""
    text = KINDS[ModelProvider.Kind(kind)]
    ModelProvider.objects.create(name=text.label, kind=kind)
    form = browser.get(f"{page(ModelProvider)}?kind={kind}").context["adminform"].form
    assert ("base_url" in form.fields) == (text.address is not None)
    assert ("allow_private" in form.fields) == (text.address is not None)
    assert form["name"].value() not in {text.label, ""}
    if text.address is not None:
        assert form["base_url"].value() == text.address


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("name", "", "required"),
        ("name", "Shed", "already exists"),
        ("name", "environment", "belongs to the settings of the environment"),
        ("name", "Embedded Model", "belongs to the settings of the environment"),
        ("name", "x" * 65, "at most 64"),
        ("base_url", "", "address"),
        ("base_url", "api.example.com/v1", "http"),
        ("base_url", "ftp://api.example.com", "http"),
        ("base_url", "https://", "http"),
        ("base_url", "https://api.example.com:99999/v1", "address"),
        ("base_url", "https://api.example.com/v 1", "space"),
        ("base_url", "https://ann:secret@api.example.com/v1", "key"),
        ("base_url", "https://api.example.com/v1?key=1", "?"),
        ("base_url", "https://api.example.com/v1#top", "#"),
        ("base_url", "https://api.example.com/v1/chat/completions", "Leave out /chat/completions"),
        ("base_url", "https://api.example.com/v1/models/", "Leave out /models"),
        ("base_url", "https://api.example.com//v1", "two slashes"),
        ("base_url", "http://192.168.1.20:8080/v1", "inside"),
        ("base_url", "http://127.0.0.1:8080/v1", "inside"),
        ("base_url", "http://[::1]:8080/v1", "inside"),
        ("base_url", "http://shed.home:8080/v1", "inside"),
        ("base_url", "http://169.254.169.254/v1", "never"),
        ("base_url", "http://127.0.0.1:8000/v1", "would ask themselves"),
        ("base_url", "http://localhost:8000", "would ask themselves"),
        ("key", f"{KEY}\nX-Evil: 1", "line break"),
        ("key", f"{KEY}\r\n", "line break"),
        ("key", f"{KEY} and more", "space"),
        ("key", f"{KEY}é", "character"),
        ("key", f"{KEY}\x00", "ull"),
        ("first_token_seconds", "0", "1"),
        ("first_token_seconds", "-1", "0"),
        ("first_token_seconds", "soon", "whole number"),
        ("idle_seconds", "0", "1"),
        ("idle_seconds", "", "required"),
        ("concurrency", "-1", "0"),
        ("concurrency", "1001", "1000"),
    ],
)
def test_bad_input_has_its_error_beside_its_field(
    browser: Client,
    provider: ModelProvider,
    hosts: dict[str, list[str]],
    caplog: pytest.LogCaptureFixture,
    field: str,
    value: str,
    words: str,
) -> None:
    """Nothing is stored, and the key is in no page, error and log."""
    hosts["shed.home"] = ["192.168.1.20"]
    with caplog.at_level(logging.DEBUG):
        answer = add(browser, **{field: value})
    errors = errors_of(answer)
    assert list(errors) == [field], errors
    assert words in errors[field]
    assert ModelProvider.objects.filter(from_environment=False).count() == 1
    assert KEY not in answer.content.decode()
    assert KEY not in caplog.text
    assert not AuditEntry.objects.exists()


def test_both_errors_of_two_fields_are_shown(browser: Client) -> None:
    errors = errors_of(add(browser, base_url="http://10.0.0.1/v1", key="a\nb"))
    assert set(errors) == {"base_url", "key"}


@pytest.mark.parametrize("kind", [kind for kind, text in KINDS.items() if text.needs_key])
def test_a_vendor_needs_a_key_and_the_error_says_where_it_is_made(
    browser: Client, kind: str
) -> None:
    errors = errors_of(add(browser, kind, key=""))
    assert KINDS[ModelProvider.Kind(kind)].key_page in errors["key"]


def test_an_address_inside_the_network_is_stored_with_the_tick(browser: Client) -> None:
    answer = add(browser, base_url="http://192.168.1.20:8080/v1/", allow_private="on", key="")
    assert answer.status_code == 302, errors_of(answer)
    row = ModelProvider.objects.get(name="Mine")
    assert (row.base_url, row.allow_private) == ("http://192.168.1.20:8080/v1", True)
    assert row.secrets == ""


def test_an_unknown_kind_shows_the_choice_and_stores_nothing(browser: Client) -> None:
    for kind in ("environment", "nonsense", ""):
        answer = add(browser, kind)
        assert answer.status_code == 200
        assert "Where do the models run?" in answer.content.decode()
    assert not ModelProvider.objects.filter(from_environment=False).exists()


def test_a_key_is_stored_encrypted_and_never_shown_again(browser: Client) -> None:
    """Not in the page, the list, the audit and its page; an empty field keeps it."""
    answer = add(browser)
    row = ModelProvider.objects.get(name="Mine")
    address = page(ModelProvider, row.pk)
    assert answer.headers["Location"] == address
    assert row.open_secrets() == {"key": KEY}
    assert KEY not in row.secrets
    shown = browser.get(address)
    assert "Already set; leave empty to keep it." in shown.content.decode()
    fields = {**shown_fields(shown), "name": "Mine too"}
    assert "key" not in fields
    assert browser.post(address, fields).status_code == 302
    row.refresh_from_db()
    assert (row.name, row.open_secrets()) == ("Mine too", {"key": KEY})
    pages = [address, reverse("admin:core_modelprovider_changelist"), "/admin/"]
    pages.append(reverse("admin:allowlist_auditentry_changelist"))
    pages += [
        reverse("admin:allowlist_auditentry_change", args=[pk])
        for pk in AuditEntry.objects.values_list("pk", flat=True)
    ]
    for each in pages:
        content = browser.get(each).content.decode()
        assert KEY not in content
        assert row.secrets not in content
    actions = list(AuditEntry.objects.order_by("id").values_list("action", flat=True))
    assert actions == ["modelprovider.added", "modelprovider.key_set", "modelprovider.changed"]
    stored = json.dumps(list(AuditEntry.objects.values("data", "subject", "actor")))
    assert KEY not in stored
    assert row.secrets not in stored


def test_a_key_is_replaced_and_removed(browser: Client) -> None:
    add(browser)
    row = ModelProvider.objects.get(name="Mine")
    address = page(ModelProvider, row.pk)
    fields = shown_fields(browser.get(address))
    errors = errors_of(browser.post(address, {**fields, "key": "sk-new", "remove_key": "on"}))
    assert list(errors) == ["remove_key"]
    browser.post(address, {**fields, "key": "sk-new"})
    row.refresh_from_db()
    assert row.open_secrets() == {"key": "sk-new"}
    browser.post(address, {**fields, "remove_key": "on"})
    row.refresh_from_db()
    assert row.secrets == ""
    assert AuditEntry.objects.filter(action="modelprovider.key_removed").count() == 1


def test_a_key_that_cannot_be_opened_is_entered_again(browser: Client, settings: Any) -> None:
    add(browser)
    row = ModelProvider.objects.get(name="Mine")
    settings.GATEWAY_ENCRYPTION_KEYS = ["another key of the gateway, long enough"]
    address = page(ModelProvider, row.pk)
    shown = browser.get(address)
    assert "cannot be opened" in shown.content.decode()
    browser.post(address, {**shown_fields(shown), "key": "sk-new"})
    row.refresh_from_db()
    assert row.open_secrets() == {"key": "sk-new"}


def test_the_kind_stays(browser: Client, provider: ModelProvider) -> None:
    address = page(ModelProvider, provider.pk)
    fields = {**shown_fields(browser.get(address)), "kind": "anthropic", "enabled": "on"}
    assert browser.post(f"{address}?kind=anthropic", fields).status_code == 302
    provider.refresh_from_db()
    assert provider.kind == KIND


def test_a_change_raises_the_version_of_the_catalogue(
    browser: Client, provider: ModelProvider
) -> None:
    address = page(ModelProvider, provider.pk)
    fields = shown_fields(browser.get(address))
    before = catalogue.version()
    browser.post(address, {**fields, "idle_seconds": "5"})
    assert catalogue.version() > before


def test_the_row_of_the_environment_is_read_only(browser: Client) -> None:
    row = ModelProvider.objects.get(from_environment=True)
    address = page(ModelProvider, row.pk)
    shown = browser.get(address)
    assert "from the environment" in shown.content.decode()
    assert not shown.context["has_change_permission"]
    assert browser.post(address, {**GOOD, "name": "Other"}).status_code == 403
    delete = reverse("admin:core_modelprovider_delete", args=[row.pk])
    assert browser.post(delete, {"post": "yes"}).status_code == 403
    add_model = reverse("admin:core_modelprovider_add_model", args=[row.pk])
    assert browser.post(add_model, {"name": "x"}).status_code == 403
    chosen = {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"}
    browser.post(reverse("admin:core_modelprovider_changelist"), chosen)
    row.refresh_from_db()
    assert row.name != "Other"


def test_a_saved_provider_is_asked_for_its_models_and_one_tap_adds_one(
    browser: Client, asked: Asked
) -> None:
    asked.offers = ["large", "small", "<b>bold</b>"]
    answer = browser.post(f"{page(ModelProvider)}?kind={KIND}", GOOD, follow=True)
    assert "Mine offers 3 models" in messages_of(answer)
    assert asked.asked == [("models", GOOD["base_url"])]
    assert "&lt;b&gt;bold" in answer.content.decode()
    row = ModelProvider.objects.get(name="Mine")
    address = reverse("admin:core_modelprovider_add_model", args=[row.pk])
    answer = browser.post(address, {"name": "large"}, follow=True)
    assert "large was added" in messages_of(answer)
    assert answer.context["dashboard"]["offered"] == ["small", "<b>bold</b>"]
    browser.post(address, {"name": "large"})
    assert LanguageModel.objects.filter(provider=row).count() == 1
    assert AuditEntry.objects.filter(action="languagemodel.added").count() == 1


@pytest.mark.parametrize("name", ["", " ", "x" * 201, "a\x07b", "a\nb"])
def test_a_name_that_no_model_has_is_refused(
    browser: Client, provider: ModelProvider, name: str
) -> None:
    address = reverse("admin:core_modelprovider_add_model", args=[provider.pk])
    answer = browser.post(address, {"name": name}, follow=True)
    assert "Enter the name of a model" in messages_of(answer)
    assert not provider.language_models.exists()


def test_a_provider_that_does_not_list_its_models_is_stored_all_the_same(
    browser: Client, asked: Asked
) -> None:
    asked.fails = ProviderError("It cannot be reached.", code="unreachable")
    answer = browser.post(f"{page(ModelProvider)}?kind={KIND}", GOOD, follow=True)
    assert "did not list its models: It cannot be reached." in messages_of(answer)
    assert ModelProvider.objects.filter(name="Mine").exists()


def test_test_shows_the_problem_and_keeps_it(
    browser: Client, asked: Asked, model: LanguageModel
) -> None:
    """The first model is tested, or the one that is chosen; each sentence names its field."""
    address = reverse("admin:core_modelprovider_test", args=[model.provider_id])
    assert browser.get(address).status_code == 405
    asked.finding.note("key", "The provider refuses the key.")
    asked.finding.note("can_call_tools", "It cannot call tools.", is_error=False)
    answer = browser.post(address, follow=True)
    assert "Key: The provider refuses the key." in messages_of(answer)
    assert "Tools: It cannot call tools." in messages_of(answer)
    assert "answers" not in messages_of(answer)
    row = ModelProvider.objects.get(pk=model.provider_id)
    assert row.check_result == "Key: The provider refuses the key. Tools: It cannot call tools."
    assert row.check_result in answer.content.decode()
    browser.post(address, {"model": "other"})
    assert asked.asked == [("test", "large"), ("test", "other")]


def test_a_test_that_answers_fills_in_its_findings(
    browser: Client, asked: Asked, model: LanguageModel
) -> None:
    """Values of the owner stay; nothing is learned about a model of another name."""
    address = reverse("admin:core_modelprovider_test", args=[model.provider_id])
    asked.finding = Examination(answers=True, context_tokens=200_000, can_see_images=False)
    browser.post(address, {"model": "other"})
    model.refresh_from_db()
    assert model.context_tokens is None
    before = catalogue.version()
    answer = browser.post(address, follow=True)
    assert "Shed: large answers." in messages_of(answer)
    found = LanguageModel.objects.get(pk=model.pk)
    assert (found.context_tokens, found.can_see_images) == (200_000, False)
    assert catalogue.version() > before
    LanguageModel.objects.filter(pk=model.pk).update(context_tokens=4096)
    browser.post(address)
    assert LanguageModel.objects.get(pk=model.pk).context_tokens == 4096
    entry = AuditEntry.objects.get(action="languagemodel.measured")
    assert entry.data == {"context_tokens": 200_000, "can_see_images": False}


def test_a_test_without_a_model_counts_the_offered_ones(
    browser: Client, asked: Asked, provider: ModelProvider
) -> None:
    asked.finding = Examination(models=[ListedModel("a"), ListedModel("b")])
    address = reverse("admin:core_modelprovider_test", args=[provider.pk])
    answer = browser.post(address, follow=True)
    assert "Shed answers and offers 2 models." in messages_of(answer)


def test_the_environment_is_tested_too_and_nothing_of_its_row_changes(
    browser: Client, asked: Asked
) -> None:
    row = ModelProvider.objects.get(from_environment=True)
    asked.finding = Examination(answers=True, context_tokens=200_000)
    was = row.language_models.get().context_tokens
    answer = browser.post(reverse("admin:core_modelprovider_test", args=[row.pk]), follow=True)
    assert "answers." in messages_of(answer)
    assert row.language_models.get().context_tokens == was


def test_a_provider_is_kept_while_an_assistant_would_have_no_model(
    browser: Client, model: LanguageModel, default: Assistant
) -> None:
    other = Assistant.objects.create(name="Pirate", slug="pirate")
    AssistantModel.objects.create(assistant=other, model=model)
    delete = reverse("admin:core_modelprovider_delete", args=[model.provider_id])
    assert "the only model of the assistant Pirate" in browser.get(delete).content.decode()
    browser.post(delete, {"post": "yes"})
    assert ModelProvider.objects.filter(pk=model.provider_id).exists()
    chosen = {"action": "delete_selected", "_selected_action": [model.pk], "post": "yes"}
    browser.post(reverse("admin:core_languagemodel_changelist"), chosen)
    assert LanguageModel.objects.filter(pk=model.pk).exists()
    AssistantModel.objects.create(assistant=other, model=default.chain.get().model)
    assert browser.post(delete, {"post": "yes"}).status_code == 302
    assert not ModelProvider.objects.filter(pk=model.provider_id).exists()


def test_a_disabled_provider_that_idles_an_assistant_warns(
    browser: Client, model: LanguageModel
) -> None:
    other = Assistant.objects.create(name="Pirate", slug="pirate")
    AssistantModel.objects.create(assistant=other, model=model)
    address = page(ModelProvider, model.provider_id)
    fields = shown_fields(browser.get(address))
    del fields["enabled"]
    answer = browser.post(address, fields, follow=True)
    assert "No model of the chain is enabled: Pirate" in messages_of(answer)


def test_an_address_is_looked_up_by_the_system() -> None:
    """Numbers resolve without a server; nonsense does not."""
    assert addresses.host_of("http://[::1]:80/v1") == "::1"
    assert addresses.host_of("http://[::1") == ""


def test_a_local_name_is_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert addresses.look_up("127.0.0.1") == ["127.0.0.1"]
    assert addresses.look_up("") == []
    assert addresses.look_up("a" * 300) == []
