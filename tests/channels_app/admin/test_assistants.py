"""Assistants in the admin: every bad input beside its field, versions, chain, default, bindings."""

import base64
import io
import re
from decimal import Decimal
from html import unescape
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from PIL import Image

from allowlist import keys
from allowlist.models import ApiKey, AuditEntry
from core.models import (
    Assistant,
    AssistantBinding,
    AssistantModel,
    AssistantVersion,
    ChannelAccount,
    LanguageModel,
    ModelProvider,
    User,
)
from core.providers import catalogue
from core.tools import registry
from tests.channels_app.admin.conftest import errors_of, messages_of, opened, page, shown_fields

pytestmark = pytest.mark.django_db

Rows = list[dict[str, Any]]


def rows_of(prefix: str, rows: Rows, initial: int = 0) -> dict[str, str]:
    """Return the fields of an inline."""
    found = {f"{prefix}-TOTAL_FORMS": str(len(rows)), f"{prefix}-INITIAL_FORMS": str(initial)}
    for number, row in enumerate(rows):
        found |= {f"{prefix}-{number}-{name}": str(value) for name, value in row.items()}
    return found


def new(browser: Client, chain: Rows, bindings: Rows | None = None, **changed: Any) -> Any:
    """Post a new assistant."""
    fields = {"name": "Pirate", "all_tools": "on", "offered": "everybody", "enabled": "on"}
    fields |= rows_of("chain", chain) | rows_of("bindings", bindings or []) | changed
    return browser.post(
        page(Assistant), {name: value for name, value in fields.items() if value is not None}
    )


@pytest.fixture
def other(model: LanguageModel) -> LanguageModel:
    """Return another model."""
    return LanguageModel.objects.create(provider=model.provider, name="small")


@pytest.fixture
def pirate(model: LanguageModel) -> Assistant:
    """Return an assistant beside the default."""
    row = Assistant.objects.create(name="Pirate", slug="pirate", instructions="Speak as a pirate.")
    AssistantVersion.objects.create(assistant=row, number=1, instructions=row.instructions)
    AssistantModel.objects.create(assistant=row, model=model)
    return row


@pytest.fixture
def ann(db: None) -> User:
    """Return a person."""
    return User.objects.create(username="ann", display_name="Ann")


@pytest.fixture
def key(ann: User) -> ApiKey:
    """Return an API key of that person."""
    return keys.create(name="laptop", user=ann, scopes=["chat"])[0]


def fields_of(browser: Client, row: Assistant) -> dict[str, Any]:
    """Return what a browser sends back for an assistant's page."""
    return shown_fields(browser.get(page(Assistant, row.pk)))


def test_an_old_page_takes_back_nothing_that_it_does_not_change(
    browser: Client, pirate: Assistant, other: LanguageModel
) -> None:
    """Saved in a second tab, it set the instructions, tools and prices of then."""
    sent, of_model = opened(browser, pirate), opened(browser, other)
    Assistant.objects.filter(pk=pirate.pk).update(
        instructions="Be brief.\nBe kind.", tools=["skill"], languages=["de"], temperature=0.5
    )
    LanguageModel.objects.filter(pk=other.pk).update(input_price="2.5", offered=False)
    browser.post(page(Assistant, pirate.pk), {**sent, "name": "Captain"})
    pirate.refresh_from_db()
    assert (pirate.name, pirate.instructions) == ("Captain", "Be brief.\nBe kind.")
    assert (pirate.tools, pirate.languages, pirate.temperature) == (["skill"], ["de"], 0.5)
    browser.post(page(LanguageModel, other.pk), {**of_model, "label": "Small"})
    other.refresh_from_db()
    assert (other.label, other.input_price, other.offered) == ("Small", Decimal("2.5"), False)


def test_an_old_page_is_checked_with_changes_made_elsewhere(
    browser: Client, pirate: Assistant, other: LanguageModel
) -> None:
    """The page showed an assistant that is enabled, and is no default; a model with a window."""
    sent, of_model = opened(browser, pirate), opened(browser, other)
    Assistant.objects.filter(pk=pirate.pk).update(enabled=False)
    answer = browser.post(page(Assistant, pirate.pk), {**sent, "is_default": "on"})
    assert errors_of(answer) == {"enabled": "The default assistant cannot be disabled."}
    Assistant.objects.update(is_default=False)
    Assistant.objects.filter(pk=pirate.pk).update(enabled=True, is_default=True)
    browser.post(page(Assistant, pirate.pk), {**sent, "name": "Captain"})
    pirate.refresh_from_db()
    assert (pirate.name, pirate.is_default) == ("Captain", True)
    LanguageModel.objects.filter(pk=other.pk).update(context_tokens=1000)
    answer = browser.post(page(LanguageModel, other.pk), {**of_model, "max_output_tokens": "2000"})
    assert "max_output_tokens" in errors_of(answer)


def appended(fields: dict[str, str], prefix: str, **row: Any) -> dict[str, str]:
    """Return what a browser sends of a page with one more row of an inline."""
    number = int(fields[f"{prefix}-TOTAL_FORMS"])
    made = {f"{prefix}-{number}-{name}": str(value) for name, value in row.items()}
    return {**fields, f"{prefix}-TOTAL_FORMS": str(number + 1), **made}


def test_an_old_page_leaves_the_rows_that_it_does_not_change(
    browser: Client, pirate: Assistant, other: LanguageModel, ann: User
) -> None:
    """It was refused without a word, or took back the first place of another tab."""
    sent, address = opened(browser, pirate), page(Assistant, pirate.pk)
    changed = appended(sent, "chain", model=other.pk, position=0)
    assert browser.post(address, appended(changed, "bindings", user=ann.pk)).status_code == 302
    assert browser.post(address, {**sent, "name": "Captain"}).status_code == 302
    pirate.refresh_from_db()
    assert pirate.name == "Captain"
    assert [each.model.name for each in pirate.chain.all()] == ["small", "large"]
    assert pirate.bindings.get().user == ann


def test_an_old_page_that_changes_rows_of_another_tab_is_told_so(
    browser: Client, pirate: Assistant, model: LanguageModel, other: LanguageModel, ann: User
) -> None:
    sent, address = opened(browser, pirate), page(Assistant, pirate.pk)
    changed = appended(sent, "chain", model=other.pk, position=2)
    assert browser.post(address, appended(changed, "bindings", user=ann.pk)).status_code == 302
    answer = browser.post(address, {**sent, "chain-0-model": str(other.pk)})
    assert "These rows were changed elsewhere" in errors_of(answer)["chain"]
    bob = User.objects.create(username="bob")
    answer = browser.post(address, appended(sent, "bindings", user=bob.pk))
    assert "These rows were changed elsewhere" in errors_of(answer)["bindings"]
    assert [each.model for each in pirate.chain.all()] == [model, other]
    assert pirate.bindings.get().user == ann


def test_an_old_page_is_stored_when_a_model_an_account_or_a_person_of_its_rows_was_deleted(
    browser: Client, pirate: Assistant, model: LanguageModel, other: LanguageModel, ann: User
) -> None:
    """Their rows go with them: *Select a valid choice* stood beside rows that were not changed."""
    account = ChannelAccount.objects.create(channel="memory", name="gone")
    AssistantModel.objects.create(assistant=pirate, model=other, position=2)
    AssistantBinding.objects.create(assistant=pirate, account=account)
    AssistantBinding.objects.create(assistant=pirate, user=ann)
    sent, address = opened(browser, pirate), page(Assistant, pirate.pk)
    other.delete()
    account.delete()
    ann.delete()
    LanguageModel.objects.filter(pk=model.pk).update(enabled=False)
    answer = browser.post(address, {**sent, "name": "Captain"})
    assert answer.status_code == 302, errors_of(answer)
    pirate.refresh_from_db()
    assert pirate.name == "Captain"
    assert [each.model for each in pirate.chain.all()] == [model]
    assert not pirate.bindings.exists()


def picture(kind: str = "PNG", size: tuple[int, int] = (300, 200), mode: str = "RGB") -> bytes:
    """Return a picture's bytes."""
    out = io.BytesIO()
    Image.new(mode, size, (200, 30, 30) if mode == "RGB" else (200, 30, 30, 90)).save(out, kind)
    return out.getvalue()


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("name", "", "required"),
        ("name", "ASSISTANT", "Another assistant has this name"),
        ("name", "x" * 65, "at most 64"),
        ("slug", "assistant", "Another assistant has this slug"),
        ("slug", "two words", "valid"),
        ("slug", "x" * 65, "at most 64"),
        ("temperature", "-0.1", "0 to 2"),
        ("temperature", "2.1", "0 to 2"),
        ("temperature", "nan", "number"),
        ("temperature", "warm", "number"),
        ("max_output_tokens", "0", "16"),
        ("max_output_tokens", "-5", "0"),
        ("instructions", "x" * 32_001, "at most 32000"),
        ("tool_names", "rm_rf", "valid choice"),
        ("language_codes", "de, german!", "german!"),
        ("language_codes", ",".join(f"a{a}{b}" for a in "abcde" for b in "abcde"), "at most 20"),
        ("offered", "nobody-at-all", "valid choice"),
    ],
)
def test_bad_input_has_its_error_beside_its_field(
    browser: Client, model: LanguageModel, field: str, value: str, words: str
) -> None:
    wrong: dict[str, Any] = {field: value}
    errors = errors_of(new(browser, [{"model": model.pk, "position": 1}], **wrong))
    assert list(errors) == [field], errors
    assert words in errors[field]
    assert Assistant.objects.count() == 1


def test_an_assistant_is_made_with_a_slug_from_its_name(
    browser: Client, model: LanguageModel, other: LanguageModel
) -> None:
    """The order is that of the positions; the first version is kept."""
    chain = [{"model": other.pk, "position": 2}, {"model": model.pk, "position": 1}]
    more: dict[str, Any] = {
        "instructions": "Arr.\r\nArr!",
        "language_codes": "de, pt-BR de",
        "temperature": "0",
    }
    answer = new(browser, chain, name="Captain Hook", **more)
    assert answer.status_code == 302, errors_of(answer)
    row = Assistant.objects.get(slug="captain-hook")
    assert (row.instructions, row.languages, row.tools) == ("Arr.\nArr!", ["de", "pt-BR"], None)
    assert [each.model for each in row.chain.all()] == [model, other]
    assert list(row.versions.values_list("number", "instructions")) == [(1, "Arr.\nArr!")]
    known = catalogue.current().assistants[row.pk]
    assert (known.chain, known.temperature) == ((model.pk, other.pk), 0)
    new(browser, chain[:1], name="Капитан")
    new(browser, chain[:1], name="大副")
    assert set(Assistant.objects.values_list("slug", flat=True)) >= {"assistant-2", "assistant-3"}


@pytest.mark.parametrize("rows", [[], [{"model": "", "position": 1}]])
def test_an_empty_chain_is_an_error_beside_the_chain(browser: Client, rows: Rows) -> None:
    answer = new(browser, rows)
    assert "Add at least one model" in errors_of(answer)["chain"]
    assert "Add at least one model" in answer.content.decode()
    assert Assistant.objects.count() == 1


def test_a_chain_that_becomes_empty_is_refused(browser: Client, pirate: Assistant) -> None:
    fields = {**fields_of(browser, pirate), "chain-0-DELETE": "on"}
    assert (
        "Add at least one model"
        in errors_of(browser.post(page(Assistant, pirate.pk), fields))["chain"]
    )
    assert pirate.chain.count() == 1


def test_the_same_model_twice_is_an_error_beside_the_second(
    browser: Client, model: LanguageModel
) -> None:
    rows = [{"model": model.pk, "position": number} for number in (1, 2)]
    errors = errors_of(new(browser, rows))
    assert errors == {"chain-1-model": "This model is in the chain already."}


def test_a_model_that_is_no_model_is_an_error_beside_it(browser: Client) -> None:
    assert list(errors_of(new(browser, [{"model": 0, "position": 1}]))) == ["chain-0-model"]


def test_a_disabled_model_is_accepted_with_a_warning(browser: Client, model: LanguageModel) -> None:
    ModelProvider.objects.filter(pk=model.provider_id).update(enabled=False)
    answer = new(browser, [{"model": model.pk, "position": 1}])
    row = Assistant.objects.get(name="Pirate")
    shown = browser.get(page(Assistant, row.pk))
    assert answer.status_code == 302
    assert "Shed: large is disabled: it is skipped." in messages_of(shown)
    assert "No model of the chain is enabled." in shown.content.decode()


def test_two_models_swap_their_places(
    browser: Client, pirate: Assistant, model: LanguageModel, other: LanguageModel
) -> None:
    """By their names as well as by their positions; an unchanged chain is not written again."""
    AssistantModel.objects.create(assistant=pirate, model=other, position=2)
    address = page(Assistant, pirate.pk)
    fields = fields_of(browser, pirate)
    swapped = {**fields, "chain-0-model": str(other.pk), "chain-1-model": str(model.pk)}
    assert browser.post(address, swapped).status_code == 302
    assert [each.model for each in pirate.chain.all()] == [other, model]
    fields = fields_of(browser, pirate)
    assert browser.post(address, {**fields, "chain-0-position": "9"}).status_code == 302
    assert [(each.model, each.position) for each in pirate.chain.all()] == [(model, 1), (other, 2)]
    entries = AuditEntry.objects.filter(action="assistant.chain_set").order_by("id")
    assert entries[1].data == {
        "chain": [["Shed: small", "Shed: large"], ["Shed: large", "Shed: small"]]
    }
    browser.post(address, fields_of(browser, pirate))
    assert entries.count() == 2


def test_instructions_have_versions_and_edits_are_audited(
    browser: Client, pirate: Assistant
) -> None:
    """Another field, or other ends of lines, make no version."""
    address = page(Assistant, pirate.pk)
    fields = fields_of(browser, pirate)
    browser.post(address, {**fields, "instructions": "Speak.\r\nLike a pirate."})
    pirate.refresh_from_db()
    assert (pirate.version, pirate.instructions) == (2, "Speak.\nLike a pirate.")
    entry = AuditEntry.objects.get(action="assistant.changed")
    assert entry.data == {"instructions": ["Speak as a pirate.", "Speak.\nLike a pirate."]}
    fields = fields_of(browser, pirate)
    browser.post(address, {**fields, "instructions": "Speak.\r\nLike a pirate."})
    pirate.refresh_from_db()
    assert pirate.version == 2
    browser.post(address, {**fields, "instructions": "<b>Third</b>"})
    browser.post(address, {**fields, "instructions": "Speak as a pirate."})
    pirate.refresh_from_db()
    assert pirate.version == 4
    texts = list(pirate.versions.order_by("number").values_list("instructions", flat=True))
    assert texts[0] == texts[3] == "Speak as a pirate."
    shown = browser.get(address).content.decode()
    assert all(f"Version {number}" in shown for number in (1, 2, 3, 4))
    assert "&lt;b&gt;Third&lt;/b&gt;" in shown
    assert catalogue.current().assistants[pirate.pk].version == 4


def test_another_default_moves_the_mark(
    browser: Client, pirate: Assistant, default: Assistant
) -> None:
    address = page(Assistant, pirate.pk)
    answer = browser.post(address, {**fields_of(browser, pirate), "is_default": "on"})
    assert answer.status_code == 302, errors_of(answer)
    assert Assistant.objects.get(is_default=True) == pirate
    assert catalogue.current().default == pirate.pk
    entry = AuditEntry.objects.get(action="assistant.default_moved")
    assert entry.data == {"to": "Pirate"}
    assert default.name in entry.subject


@pytest.mark.parametrize("field", ["is_default", "enabled"])
def test_the_default_stays_and_stays_enabled(
    browser: Client, default: Assistant, field: str
) -> None:
    fields = fields_of(browser, default)
    del fields[field]
    errors = errors_of(browser.post(page(Assistant, default.pk), fields))
    assert list(errors) == [field]
    default.refresh_from_db()
    assert default.is_default
    assert default.enabled


def test_a_disabled_assistant_cannot_become_the_default(browser: Client, pirate: Assistant) -> None:
    fields = {**fields_of(browser, pirate), "is_default": "on"}
    del fields["enabled"]
    assert list(errors_of(browser.post(page(Assistant, pirate.pk), fields))) == ["enabled"]


def test_the_default_cannot_be_deleted_also_among_others(
    browser: Client, pirate: Assistant, default: Assistant
) -> None:
    delete = reverse("admin:core_assistant_delete", args=[default.pk])
    assert browser.post(delete, {"post": "yes"}).status_code == 403
    chosen = {"action": "delete_selected", "post": "yes"}
    list_ = reverse("admin:core_assistant_changelist")
    browser.post(list_, {**chosen, "_selected_action": [default.pk, pirate.pk]})
    assert Assistant.objects.count() == 2
    browser.post(list_, {**chosen, "_selected_action": [pirate.pk]})
    assert list(Assistant.objects.all()) == [default]


@pytest.mark.parametrize(
    ("kind", "mode", "type_"),
    [("PNG", "RGB", "jpeg"), ("PNG", "RGBA", "png"), ("JPEG", "RGB", "jpeg"), ("WEBP", "RGB", "")],
)
def test_a_picture_becomes_a_small_square(
    browser: Client, pirate: Assistant, kind: str, mode: str, type_: str
) -> None:
    """It is shown, kept when nothing is chosen, and can be removed; the audit holds none of it."""
    file = SimpleUploadedFile("me.svg", picture(kind, mode=mode), content_type="image/svg+xml")
    address = page(Assistant, pirate.pk)
    answer = browser.post(address, {**fields_of(browser, pirate), "new_picture": file})
    assert answer.status_code == 302, errors_of(answer)
    pirate.refresh_from_db()
    assert pirate.picture.startswith(f"data:image/{type_ or 'jpeg'};base64,")
    content = base64.b64decode(pirate.picture.partition(",")[2])
    with Image.open(io.BytesIO(content)) as opened:
        assert opened.size == (128, 128)
    was = pirate.picture
    assert was in unescape(browser.get(address).content.decode())
    browser.post(address, fields_of(browser, pirate))
    pirate.refresh_from_db()
    assert pirate.picture == was
    browser.post(address, {**fields_of(browser, pirate), "remove_picture": "on"})
    pirate.refresh_from_db()
    assert pirate.picture == ""
    data = [
        each.data
        for each in AuditEntry.objects.filter(action="assistant.settings_set").order_by("id")
    ]
    assert data == [{"picture": "set"}, {"picture": "removed"}]


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (SVG, "PNG, JPEG or WebP"),
        (b'<?xml version="1.0"?>' + SVG, "PNG, JPEG or WebP"),
        (picture("GIF"), "PNG, JPEG or WebP"),
        (b"<html>", "PNG, JPEG or WebP"),
        (picture()[:60], "cannot be read"),
        (picture() + b"\x00" * 2 * 1024 * 1024, "larger than 2 MB"),
        (b"", "empty"),
    ],
    ids=["svg", "xml", "gif", "html", "cut", "large", "empty"],
)
def test_a_file_that_is_no_picture_is_an_error_beside_it(
    browser: Client, pirate: Assistant, content: bytes, words: str
) -> None:
    file = SimpleUploadedFile("me.png", content, content_type="image/png")
    fields = {**fields_of(browser, pirate), "new_picture": file}
    errors = errors_of(browser.post(page(Assistant, pirate.pk), fields))
    assert list(errors) == ["new_picture"]
    assert words in errors["new_picture"]
    pirate.refresh_from_db()
    assert pirate.picture == ""


def test_a_bomb_of_pixels_ends_its_own_process_only(browser: Client, pirate: Assistant) -> None:
    out = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(out, "PNG")
    file = SimpleUploadedFile("me.png", out.getvalue())
    fields = {**fields_of(browser, pirate), "new_picture": file}
    errors = errors_of(browser.post(page(Assistant, pirate.pk), fields))
    assert "cannot be read" in errors["new_picture"]


def test_tools_are_all_or_the_ticked_ones(browser: Client, pirate: Assistant) -> None:
    """One that is not installed any more stays ticked until it is unticked."""
    address = page(Assistant, pirate.pk)
    shown = browser.get(address).content.decode()
    assert all(each.name in shown for each in registry.every())
    fields = fields_of(browser, pirate)
    del fields["all_tools"]
    browser.post(address, {**fields, "tool_names": ["run_skill", "current_time"]})
    pirate.refresh_from_db()
    assert pirate.tools == ["current_time", "run_skill"]
    browser.post(address, fields)
    pirate.refresh_from_db()
    assert pirate.tools == []
    Assistant.objects.filter(pk=pirate.pk).update(tools=["gone"])
    assert "gone (not installed)" in browser.get(address).content.decode()
    browser.post(address, {**fields, "tool_names": ["gone"]})
    pirate.refresh_from_db()
    assert pirate.tools == ["gone"]
    browser.post(address, {**fields, "all_tools": "on"})
    pirate.refresh_from_db()
    assert pirate.tools is None
    entries = AuditEntry.objects.filter(action="assistant.settings_set").order_by("id")
    assert entries[0].data == {"tools": [None, ["current_time", "run_skill"]]}


def test_only_listed_people_need_a_list(browser: Client, pirate: Assistant, ann: User) -> None:
    address = page(Assistant, pirate.pk)
    fields = {**fields_of(browser, pirate), "offered": "listed"}
    assert list(errors_of(browser.post(address, fields))) == ["people"]
    assert browser.post(address, {**fields, "people": [ann.pk]}).status_code == 302
    assert catalogue.current().assistants[pirate.pk].people == {ann.pk}
    entry = AuditEntry.objects.get(action="assistant.people_set")
    assert entry.data == {"people": ["Ann"]}


def test_bindings_of_every_kind_are_stored_and_explained(
    browser: Client,
    pirate: Assistant,
    telegram: ChannelAccount,
    ann: User,
    key: ApiKey,
) -> None:
    """“Why this assistant?” says what the function that decides says."""
    rows: Rows = [
        {"account": telegram.pk, "chat": "-100"},
        {"user": ann.pk},
        {"key_id": key.pk},
    ]
    address = page(Assistant, pirate.pk)
    fields = fields_of(browser, pirate) | rows_of("bindings", rows)
    answer = browser.post(address, fields)
    assert answer.status_code == 302, errors_of(answer)
    assert pirate.bindings.count() == 3
    entry = AuditEntry.objects.get(action="assistant.bindings_set")
    assert entry.data["bindings"] == [
        [],
        ["account telegram/main, group -100", f"key laptop (Ann)", "person ann"],  # noqa: F541
    ]
    shown = browser.get(address).content.decode()
    assert "laptop (Ann)" in shown
    assert key.digest not in shown
    why = reverse("admin:core_assistant_why")
    asked: list[tuple[dict[str, Any], str]] = [
        ({"account": telegram.pk}, "Assistant answers: it is the default."),
        ({"account": telegram.pk, "group": "-100"}, "Pirate answers: it is bound to this group."),
        ({"person": "ann"}, "Pirate answers: it is bound to this person."),
        ({"key": key.pk}, "Pirate answers: it is bound to the API key."),
    ]
    for query, words in asked:
        assert words in browser.get(why, query).content.decode(), query


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"person": "nobody"}, "person"),
        ({"person": ""}, "person"),
        ({"group": "-1"}, "account"),
        ({"account": "0"}, "account"),
        ({"key": "0x"}, "key"),
        ({"key": "999"}, "key"),
    ],
)
def test_why_shows_errors_beside_their_fields(
    browser: Client, query: dict[str, str], field: str
) -> None:
    answer = browser.get(reverse("admin:core_assistant_why"), query)
    assert answer.status_code == 200
    assert field in answer.context["form"].errors
    assert "choice" not in answer.context


@pytest.mark.parametrize(
    ("row", "field", "words"),
    [
        ({"chat": "-1"}, "account", "Choose the account of this group"),
        ({"account": "A", "user": "U"}, "user", "binds one thing"),
        ({"account": "A", "key_id": "K"}, "key_id", "binds one thing"),
        ({"user": "U", "key_id": "K"}, "key_id", "binds one thing"),
        ({"account": "A", "chat": "x" * 129}, "chat", "at most 128"),
        ({"key_id": "999"}, "key_id", "valid choice"),
        ({"user": "0"}, "user", "valid choice"),
        ({"account": "T"}, "account", "bound to Assistant already"),
    ],
)
def test_a_binding_of_nothing_or_of_two_things_is_an_error_beside_it(
    browser: Client,
    pirate: Assistant,
    default: Assistant,
    telegram: ChannelAccount,
    ann: User,
    key: ApiKey,
    row: dict[str, str],
    field: str,
    words: str,
) -> None:
    taken = ChannelAccount.objects.create(channel="bridge", name="taken")
    AssistantBinding.objects.create(assistant=default, account=taken)
    known = {"A": telegram.pk, "U": ann.pk, "K": key.pk, "T": taken.pk}
    given = {name: known.get(value, value) for name, value in row.items()}
    fields = fields_of(browser, pirate) | rows_of("bindings", [given])
    errors = errors_of(browser.post(page(Assistant, pirate.pk), fields))
    assert list(errors) == [f"bindings-0-{field}"], errors
    assert words in errors[f"bindings-0-{field}"]
    assert not pirate.bindings.exists()


def test_the_same_place_twice_is_an_error_and_two_places_may_swap(
    browser: Client, pirate: Assistant, telegram: ChannelAccount, ann: User
) -> None:
    address = page(Assistant, pirate.pk)
    twice: Rows = [{"user": ann.pk}, {"user": ann.pk}]
    fields = fields_of(browser, pirate)
    errors = errors_of(browser.post(address, fields | rows_of("bindings", twice)))
    assert errors == {"bindings-1-user": "This is bound in another row already."}
    bob = User.objects.create(username="bob")
    for person in (ann, bob):
        AssistantBinding.objects.create(assistant=pirate, user=person)
    fields = fields_of(browser, pirate)
    people = ("bindings-0-user", "bindings-1-user")
    swapped = {**fields, people[0]: fields[people[1]], people[1]: fields[people[0]]}
    assert browser.post(address, swapped).status_code == 302
    gone = {**fields_of(browser, pirate), "bindings-0-DELETE": "on", people[1]: str(ann.pk)}
    assert browser.post(address, gone).status_code == 302
    assert [each.user for each in pirate.bindings.all()] == [ann]


def test_a_revoked_key_that_is_bound_stays_named(
    browser: Client, pirate: Assistant, key: ApiKey, owner: User
) -> None:
    AssistantBinding.objects.create(assistant=pirate, key_id=key.pk)
    ApiKey.objects.filter(pk=key.pk).update(revoked_at=key.created_at)
    fields = fields_of(browser, pirate)
    assert fields["bindings-0-key_id"] == str(key.pk)
    assert browser.post(page(Assistant, pirate.pk), fields).status_code == 302
    assert pirate.bindings.get().key_id == key.pk


def test_text_in_a_field_runs_as_its_own_letters_do(browser: Client, pirate: Assistant) -> None:
    """Arabic and Hebrew from the right; a text without letters of a language stays as it is."""
    html = browser.get(page(Assistant, pirate.pk)).content.decode()
    fields = re.findall(r"<(?:input|textarea)[^>]*>", html)
    named = {found[1]: each for each in fields if (found := re.search(r'name="(\w+)"', each))}
    assert 'dir="auto"' in named["name"]
    assert 'dir="auto"' in named["instructions"]
    assert 'dir="auto"' not in named["enabled"]
