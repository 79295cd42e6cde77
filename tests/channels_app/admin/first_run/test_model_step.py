"""The first step: an error stands beside its field; a model that answers heads the chain."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from allowlist.models import AuditEntry
from channels_app.admin.first_run import model_step
from core.lib.encryption import encrypt
from core.models import Assistant, LanguageModel, ModelProvider, User
from core.providers import catalogue, listing, questions
from tests.journeys import model as models
from tests.journeys.model import Model, Rule

KEY = "sk-planted-0123456789abcdef"
NOTHING_THERE = "http://127.0.0.1:9/v1"


@pytest.fixture
def server() -> Iterator[Model]:
    """Yield a model server that wants a key."""
    with models.running() as found:
        found.key, found.names = KEY, ["small", "large"]
        call = Rule(re.escape(questions.FOR_TOOL), tool=questions.TOOL)
        found.rules = [call, Rule(re.escape(questions.FOR_COLOUR), text="Blue")]
        yield found


def given(server: Model, **more: str) -> dict[str, str]:
    """Return the fields of the form for a server inside the network."""
    fields = {"kind": "openai-compatible", "base_url": server.url, "allow_private": "1"}
    return {**fields, "key": KEY, "model": "small", **more}


def posted(page: Client, fields: dict[str, str]) -> dict[str, Any]:
    """Post the form as the page's script does; return the answer."""
    answer = page.post("/first-run/model", fields, headers={"accept": "application/json"})
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def chain() -> list[str]:
    """Return the names of the models in the default assistant's chain."""
    rows = Assistant.objects.get(is_default=True).chain.select_related("model")
    return [each.model.name for each in rows]


def test_a_working_model_replaces_the_embedded_one(page: Client, server: Model) -> None:
    page.get("/first-run/model")
    assert chain() == ["default"]
    assert posted(page, given(server)) == {"next": "/first-run/message"}
    assert chain() == ["small"]
    provider = ModelProvider.objects.get(from_environment=False)
    assert provider.name == server.url.removeprefix("http://").removesuffix("/v1")
    assert (provider.kind, provider.base_url) == ("openai-compatible", server.url)
    assert (provider.allow_private, provider.enabled) == (True, True)
    assert provider.open_secrets() == {"key": KEY}
    assert KEY not in provider.secrets
    assert provider.offered_models == ["large", "small"]
    model = provider.language_models.get()
    assert (model.name, model.can_call_tools, model.can_see_images) == ("small", True, None)
    known = catalogue.current()
    assert [each.name for each in known.chain_of(known.default)] == ["small"]


def test_the_models_of_the_provider_are_listed(page: Client, server: Model) -> None:
    assert posted(page, given(server, do="list", model="")) == {"models": ["large", "small"]}
    assert not ModelProvider.objects.filter(from_environment=False).exists()


@pytest.mark.parametrize("do", ["list", "save"])
@pytest.mark.parametrize(
    ("changed", "field", "words"),
    [
        ({"key": "sk-wrong"}, "key", "The provider refuses the key."),
        ({"key": ""}, "key", "The provider wants a key."),
        ({"key": "sk-a\nb"}, "key", "a space or a line break"),
        ({"key": "sk-ö"}, "key", "a character that no key has"),
        ({"base_url": NOTHING_THERE}, "base_url", "Nothing answers at 127.0.0.1:9"),
        ({"base_url": ""}, "base_url", "An address is needed"),
        ({"base_url": "https://x.example/v1/models"}, "base_url", "Leave out /models"),
        ({"base_url": "ftp://example.com"}, "base_url", "http:// or https://"),
        ({"base_url": "http://169.254.169.254/v1"}, "base_url", "never asked"),
        ({"allow_private": ""}, "base_url", "inside your network"),
        ({"kind": "openai", "key": ""}, "key", "OpenAI wants a key."),
    ],
)
def test_an_error_stands_beside_its_field(
    page: Client, server: Model, do: str, changed: dict[str, str], field: str, words: str
) -> None:
    fields = {key: value for key, value in given(server, **changed).items() if value}
    errors = posted(page, {**fields, "do": do})["errors"]
    assert list(errors) == [field]
    assert words in " ".join(errors[field])
    assert KEY not in str(errors)
    assert not ModelProvider.objects.filter(from_environment=False).exists()
    assert server.asked == []


def test_a_model_that_the_provider_does_not_have_is_refused(page: Client, server: Model) -> None:
    errors = posted(page, given(server, model="smal"))["errors"]
    assert "knows no model of this name" in errors["model"][0]
    assert "small" in errors["model"][0]
    assert posted(page, given(server, model=""))["errors"] == {"model": ["Choose a model."]}
    assert not LanguageModel.objects.filter(provider__from_environment=False).exists()


def test_a_kind_that_is_none_is_refused(page: Client, server: Model) -> None:
    assert list(posted(page, given(server, kind="environment"))["errors"]) == ["kind"]


def test_without_a_script_the_page_comes_back_with_the_errors_and_without_the_key(
    page: Client, server: Model
) -> None:
    answer = page.post("/first-run/model", given(server, model="smal"))
    assert answer.status_code == 422
    shown = answer.content.decode()
    assert re.search(r'data-error="model">The provider knows no model', shown)
    assert server.url in shown
    assert KEY not in shown
    answer = page.post("/first-run/model", given(server, do="list", model=""))
    assert answer.status_code == 200
    assert '<option value="large">' in answer.content.decode()
    answer = page.post("/first-run/model", given(server))
    assert answer["Location"] == "/first-run/message"


def test_a_second_model_of_the_same_server_keeps_the_key_and_goes_before_the_first(
    page: Client, server: Model
) -> None:
    posted(page, given(server))
    again = given(server, key="", model="large", base_url=f"{server.url}/")
    assert posted(page, again) == {"next": "/first-run/message"}
    assert chain() == ["large", "small"]
    assert ModelProvider.objects.filter(from_environment=False).count() == 1
    posted(page, given(server, key="", model="small"))
    assert chain() == ["small", "large"]


def test_a_server_that_was_stored_with_a_slash_keeps_its_key(page: Client, server: Model) -> None:
    """As the first steps did before they left it out."""
    stored = {"kind": "openai-compatible", "base_url": f"{server.url}/", "allow_private": True}
    ModelProvider.objects.create(name="Mine", secrets=encrypt({"key": KEY}), **stored)
    assert posted(page, given(server, key="")) == {"next": "/first-run/message"}
    assert ModelProvider.objects.get(from_environment=False).name == "Mine"


def test_the_hidden_address_of_another_kind_is_no_error(page: Client, server: Model) -> None:
    """It stays in the form when one chooses another kind after a refused address."""
    fields = given(server, kind="openai", key="", base_url="https://x.example/v1/models")
    assert list(posted(page, fields)["errors"]) == ["key"]


def test_changes_that_are_made_while_a_model_is_tried_stay(
    page: Client, server: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    posted(page, given(server))
    provider = ModelProvider.objects.get(from_environment=False)
    add_errors = model_step.add_errors

    def meanwhile(*arguments: Any) -> None:
        add_errors(*arguments)
        ModelProvider.objects.filter(pk=provider.pk).update(
            name="Mine", secrets=encrypt({"key": "sk-new"})
        )

    monkeypatch.setattr(model_step, "add_errors", meanwhile)
    assert "next" in posted(page, given(server, key="", model="large"))
    provider.refresh_from_db()
    assert (provider.name, provider.open_secrets()) == ("Mine", {"key": "sk-new"})


def test_a_model_of_the_environment_stays_behind_the_new_one(
    page: Client, server: Model, settings: Any
) -> None:
    settings.LLM_IS_EMBEDDED, settings.LLM_MODEL = False, "of-the-environment"
    shown = page.get("/first-run/model").content.decode()
    assert "of-the-environment</strong> answers now, as the environment says" in shown
    posted(page, given(server))
    assert chain() == ["small", "of-the-environment"]


def test_a_server_with_the_name_of_another_provider_gets_a_number(
    page: Client, server: Model
) -> None:
    name = server.url.removeprefix("http://").removesuffix("/v1")
    ModelProvider.objects.create(name=name, base_url="http://elsewhere.example/v1")
    posted(page, given(server))
    names = ModelProvider.objects.filter(from_environment=False).values_list("name", flat=True)
    assert set(names) == {name, f"{name} 2"}


def test_each_change_is_audited_without_the_key(page: Client, server: Model, owner: User) -> None:
    posted(page, given(server))
    rows = AuditEntry.objects.order_by("id")
    assert [each.action for each in rows] == [
        "modelprovider.added",
        "languagemodel.added",
        "assistant.changed",
    ]
    assert all(f"user:{owner.pk}" in each.actor for each in rows)
    assert KEY not in str(list(rows.values()))


def test_a_model_without_tools_is_told_of(page: Client, server: Model) -> None:
    server.rules = [Rule(re.escape(questions.FOR_TOOL), text="I am ready.")]
    posted(page, given(server))
    assert not LanguageModel.objects.get(name="small").can_call_tools
    assert "It cannot call tools" in page.get("/first-run/message").content.decode()


def test_an_ollama_on_this_machine_is_found_by_itself(
    page: Client, server: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.key = ""
    host = server.url.removeprefix("http://").removesuffix("/v1")
    monkeypatch.setattr(listing, "OWN_MACHINE", host)
    shown = page.get("/first-run/model").content.decode()
    assert "Ollama was found on this machine." in shown
    assert re.search(r'value="ollama" checked', shown)
    assert f'value="{server.url}"' in shown
    assert '<option value="small">' in shown
    fields = {"kind": "ollama", "base_url": server.url, "allow_private": "1", "model": "small"}
    assert posted(page, fields) == {"next": "/first-run/message"}
    assert ModelProvider.objects.get(from_environment=False).name == "Ollama"


def test_without_one_nothing_is_said_of_it(page: Client) -> None:
    shown = page.get("/first-run/model").content.decode()
    assert "was found" not in shown
    assert "very small demo model" in shown
    assert re.search(r'value="openai" checked', shown)
