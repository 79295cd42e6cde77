"""Search providers in the admin: bad input beside its field, a plain test, a secret key."""

import logging
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from allowlist.models import AuditEntry
from channels_app.admin import web_search
from channels_app.admin.web_search import KINDS
from core.lib import encryption
from core.models import SearchProvider, User
from core.providers import catalogue
from core.providers.catalogue import SearchInfo
from core.tools.web import services
from core.tools.web.services import Hit, Hits, Query, SearchError
from tests.channels_app.admin.conftest import KEY, errors_of, messages_of, page, shown_fields

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("hosts")]
GOOD = {"name": "Mine", "position": "1", "enabled": "on"}
LIST = "/admin/core/searchprovider/"
OWN = {"base_url": "https://api.example.com"}


def add(browser: Client, kind: str = "searxng", **changed: Any) -> Any:
    """Post a new provider; a value of None leaves a field out."""
    given = {**GOOD, **(OWN if kind == "searxng" else {"key": KEY}), **changed}
    fields = {name: value for name, value in given.items() if value is not None}
    return browser.post(f"{page(SearchProvider)}?kind={kind}", fields)


class Searched:
    """A service that answers what it is told to, and notes what it was asked."""

    def __init__(self) -> None:
        """Find a page."""
        self.answer: Hits | SearchError = Hits([Hit("A", "https://a.example/", "a")])
        self.asked: list[tuple[SearchInfo, Query]] = []

    async def search(self, info: SearchInfo, query: Query) -> Hits:
        """Stand for ``services.search``."""
        self.asked.append((info, query))
        if isinstance(self.answer, SearchError):
            raise self.answer
        return self.answer


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> Searched:
    """Return the service that the page asks."""
    found = Searched()
    monkeypatch.setattr(services, "search", found.search)
    return found


def test_v28_the_kind_is_chosen_first_with_a_few_words_about_each(browser: Client) -> None:
    content = unescape(browser.get(page(SearchProvider)).content.decode())
    for kind in KINDS.values():
        assert f"?kind={kind.kind}" in content
        assert kind.description in content
    assert set(KINDS) == set(SearchProvider.Kind)


@pytest.mark.parametrize("kind", list(KINDS))
def test_v28_a_form_has_the_fields_of_its_kind(browser: Client, kind: str) -> None:
    form = browser.get(f"{page(SearchProvider)}?kind={kind}").context["adminform"].form
    assert ("base_url" in form.fields) == (kind == "searxng")
    assert ("allow_private" in form.fields) == (kind == "searxng")
    assert ("safe_search" in form.fields) == (kind != "tavily")
    assert form["name"].value() == KINDS[SearchProvider.Kind(kind)].label


@pytest.mark.parametrize(
    ("kind", "field", "value", "words"),
    [
        ("searxng", "name", "", "required"),
        ("searxng", "name", "Shed", "already exists"),
        ("searxng", "base_url", "", "An address is needed"),
        ("searxng", "base_url", "searx.example", "http"),
        ("searxng", "base_url", "https://ann:secret@api.example.com", "key"),
        ("searxng", "base_url", "https://api.example.com/?q=x", "?"),
        ("searxng", "base_url", "http://192.168.1.20:8080", "inside"),
        ("searxng", "base_url", "http://169.254.169.254", "never"),
        ("searxng", "language", "german!", "code of a language"),
        ("searxng", "safe_search", "maybe", "not one of"),
        ("searxng", "position", "-1", "0"),
        ("brave", "key", "", "Enter a key. It is made at api-dashboard.search.brave.com."),
        ("tavily", "key", f"{KEY}\nX-Evil: 1", "line break"),
        ("tavily", "key", f"{KEY} more", "space"),
    ],
)
def test_v28_bad_input_has_its_error_beside_its_field(
    browser: Client,
    caplog: pytest.LogCaptureFixture,
    kind: str,
    field: str,
    value: str,
    words: str,
) -> None:
    SearchProvider.objects.create(name="Shed")
    with caplog.at_level(logging.DEBUG):
        answer = add(browser, kind, **{field: value})
    errors = errors_of(answer)
    assert list(errors) == [field], errors
    assert words in errors[field]
    assert SearchProvider.objects.count() == 1
    assert KEY not in answer.content.decode() + caplog.text


def test_v27_a_key_is_stored_encrypted_and_never_shown_again(browser: Client) -> None:
    assert add(browser, "tavily", key=f" {KEY}\t").status_code == 302
    row = SearchProvider.objects.get()
    assert row.open_secrets() == {"key": KEY}
    assert KEY not in row.secrets
    assert row.kind == "tavily"
    answer = browser.get(page(SearchProvider, row.pk))
    assert KEY not in answer.content.decode()
    assert "leave empty to keep it" in unescape(answer.content.decode())
    fields = shown_fields(answer)
    browser.post(page(SearchProvider, row.pk), {**fields, "name": "Renamed"})
    row.refresh_from_db()
    assert (row.name, row.open_secrets()) == ("Renamed", {"key": KEY})
    entries = list(AuditEntry.objects.order_by("id").values_list("action", "data"))
    assert [action for action, _ in entries] == [
        "searchprovider.added", "searchprovider.key_set", "searchprovider.changed",
    ]  # fmt: skip
    assert KEY not in str(entries)
    row.secrets = "of another installation"
    row.save()
    content = unescape(browser.get(page(SearchProvider, row.pk)).content.decode())
    assert "cannot be opened" in content


def test_v27_an_optional_key_can_be_removed(browser: Client) -> None:
    add(browser, key="token-1")
    row = SearchProvider.objects.get()
    fields = shown_fields(browser.get(page(SearchProvider, row.pk)))
    browser.post(page(SearchProvider, row.pk), {**fields, "remove_key": "on"})
    row.refresh_from_db()
    assert row.secrets == ""


def test_v25_a_stored_provider_is_in_the_next_turn(
    browser: Client, hosts: dict[str, list[str]]
) -> None:
    hosts["searx.home"] = ["192.168.1.20"]
    assert catalogue.current().search == ()
    given = {"base_url": "http://searx.home:8080/search/", "allow_private": "on"}
    add(browser, **given, language="pt-BR", safe_search="strict", position="2")
    add(browser, "brave", name="First")
    first, second = catalogue.current().search
    assert (first.name, first.kind, first.base_url) == ("First", "brave", "")
    assert second.base_url == "http://searx.home:8080"
    assert (second.language, second.safe_search, second.allow_private) == ("pt-BR", "strict", True)


OUTCOMES: list[tuple[Hits | SearchError, str, str]] = [
    (Hits([Hit("A", "https://a.example/", "a")]), "success", "It answers: 1 result for “weather”."),
    (Hits([]), "error", "It answers, but finds nothing for “weather”."),
    (Hits([], ("bing: timeout",)), "error", "Its engines without an answer: bing: timeout."),
    (SearchError("Nothing listens at x:1."), "error", "Nothing listens at x:1."),
]


@pytest.mark.parametrize(("answer", "level", "words"), OUTCOMES)
def test_v28_the_test_says_its_outcome_in_plain_words(
    browser: Client, searched: Searched, answer: Hits | SearchError, level: str, words: str
) -> None:
    row = SearchProvider.objects.create(name="Mine", base_url="https://api.example.com")
    before = catalogue.current()
    searched.answer = answer
    url = reverse("admin:core_searchprovider_test", args=[row.pk])
    found = browser.post(url, follow=True)
    assert words in messages_of(found)
    assert [each.level_tag for each in found.context["messages"]] == [level]
    row.refresh_from_db()
    assert words in row.check_result
    assert words in unescape(browser.get(page(SearchProvider, row.pk)).content.decode())
    assert words[:20] in unescape(browser.get(LIST).content.decode())
    assert searched.asked == [(catalogue.search_info(row), Query(web_search.TEST_WORDS))]
    assert catalogue.current() is before, "a test changes no turn"


def test_v28_only_deciders_test_and_change(
    browser: Client, client: Client, searched: Searched
) -> None:
    row = SearchProvider.objects.create(
        name="Mine", kind="tavily", secrets=encryption.encrypt({"key": KEY})
    )
    url = reverse("admin:core_searchprovider_test", args=[row.pk])
    assert browser.get(url).status_code == 405
    assert browser.post(reverse("admin:core_searchprovider_test", args=[999])).status_code == 404
    staff = User.objects.create(username="staff", is_staff=True)
    staff.user_permissions.set(Permission.objects.filter(codename__endswith="searchprovider"))
    client.force_login(staff)
    assert client.post(url).status_code == 403
    assert client.get(page(SearchProvider)).status_code == 403
    seen = client.get(page(SearchProvider, row.pk))
    assert seen.status_code == 200
    assert KEY not in seen.content.decode()
    client.post(page(SearchProvider, row.pk), {**GOOD, "key": "other"})
    row.refresh_from_db()
    assert row.open_secrets() == {"key": KEY}
    assert searched.asked == []
