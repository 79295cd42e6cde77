"""Search providers in the admin: add, test, and put in order."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils import timezone
from unfold.widgets import UnfoldAdminTextInputWidget

from channels_app.admin.secret_key import PRIVATE_HELP, KeyForm, opened
from channels_app.admin.service_admin import KindAdmin
from core.admin.base import visible_line
from core.database.transactions import atomic_write
from core.lib.text import one_line
from core.models import SearchProvider
from core.providers import catalogue
from core.providers.addresses import problem
from core.tools.web import services
from core.tools.web.services import Query, SearchError

Kind = SearchProvider.Kind
TEST_WORDS = "weather"
LANGUAGE = r"^[A-Za-z]{2,3}(-[A-Za-z]{2,4})?\Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindText:
    """The texts about a kind of service. ``own``: it is a server of the owner, with an address."""

    kind: Kind
    description: str
    own: bool = False

    @property
    def label(self) -> str:
        return str(self.kind.label)

    @property
    def key_page(self) -> str:
        """Return where keys are made; empty where none is needed."""
        return services.KEY_PAGES.get(self.kind, "")


KINDS: dict[str, KindText] = {
    each.kind: each
    for each in (
        KindText(
            kind=Kind.SEARXNG,
            description="A search server of your own, which asks other engines. Free of charge.",
            own=True,
        ),
        KindText(kind=Kind.BRAVE, description="An independent index of the web, by a key."),
        KindText(kind=Kind.TAVILY, description="Search that is made for assistants, by a key."),
    )
}


class SearchProviderForm(KeyForm[SearchProvider]):
    """Edit a service. ``text``: about its kind."""

    text: KindText | None = None
    base_url = forms.CharField(
        label="Address", max_length=500, required=False, widget=UnfoldAdminTextInputWidget()
    )
    language = forms.RegexField(
        LANGUAGE,
        required=False,
        max_length=16,
        help_text="As in de or pt-BR; empty for the service's choice.",
        error_messages={"invalid": "Enter the code of a language, as in de or pt-BR."},
        widget=UnfoldAdminTextInputWidget(),
    )

    class Meta:
        model = SearchProvider
        fields = (
            "kind", "name", "base_url", "allow_private", "language", "safe_search", "position",
            "enabled",
        )  # fmt: skip

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Show the fields of the kind."""
        super().__init__(*args, **kwargs)
        text, fields = self.text, self.fields
        if text is None:  # only shown
            return
        self.describe_key(page=text.key_page)
        fields["position"].help_text = "The first that answers is used."
        if text.kind == Kind.TAVILY:
            fields.pop("language", None)
        if not text.own:
            fields.pop("base_url", None)
            return
        fields["base_url"].help_text = "Where SearXNG listens, as in http://192.168.1.20:8080"
        fields["allow_private"].help_text = PRIVATE_HELP

    def clean_base_url(self) -> str:
        """Leave out the end that belongs to a single search."""
        given = str(self.cleaned_data.get("base_url") or "").strip().rstrip("/")
        return given.removesuffix("/search")

    def clean(self) -> dict[str, Any]:
        """Add what the service could not work with beside each field."""
        data = super().clean()
        kind = self.text.kind if self.text is not None else Kind(self.instance.kind)
        key = self.key_after(data)
        if "key" not in self.errors and (wrong := services.problem_of_key(kind, key)):
            page = services.KEY_PAGES.get(kind, "")
            self.add_error("key", wrong if key else f"Enter a key. It is made at {page}.")
        if "base_url" in self.fields and "base_url" not in self.errors:
            self.check_address(data)
        return data

    def check_address(self, data: dict[str, Any]) -> None:
        """Add an error for an address that is none, or that is not allowed."""
        will = self.as_stored(data)
        values = {name: will.get(name) or type(default)() for name, default in OWN.items()}
        info = replace(catalogue.search_info(self.instance), **values)
        wrong = services.problem_of_address(info) or problem(
            info.base_url, private=info.allow_private, resolve=self.resolve
        )
        if wrong:
            self.add_error("base_url", ValidationError(wrong))


OWN: dict[str, Any] = {"base_url": "", "allow_private": False}


@admin.register(SearchProvider)
class SearchProviderAdmin(KindAdmin[SearchProvider]):
    """Services that search, for owners only; the words of a search are sent to them."""

    kinds = KINDS
    choosing = {
        "title": "Add a search provider",
        "label": "Kinds of search providers",
        "question": "Who searches the web?",
    }

    form = SearchProviderForm
    list_display = ("shown_name", "kind", "position", "state", "shown_check", "checked_at")
    list_filter = ("kind", "enabled")
    search_fields = ("name", "base_url")
    ordering = ("position", "id")
    change_form_outer_before_template = "web_search/provider_above.html"

    def get_fieldsets(self, request: HttpRequest, obj: SearchProvider | None = None) -> Any:
        """Show the fields of the kind; in place of the key, whether it is set, to readers."""
        text = self.text_of(request, obj)
        if text is None:
            top: tuple[Any, ...] = (("name", "kind"), "state", "base_url", "key_state", "position")
            return ((None, {"fields": top}),)
        address = ("base_url", "allow_private") if text.own else ()
        has_key = obj is not None and bool(opened(obj)[0])
        key = ("key", "remove_key") if has_key and not text.key_page else ("key",)
        filters = (("language", "safe_search"),) if text.kind != Kind.TAVILY else ()
        name = ("kind", "name") if obj is not None else "name"
        return ((None, {"fields": (name, *address, *key, *filters, "position", "enabled")}),)

    def prefilled(self, text: KindText, number: int) -> dict[str, Any]:
        """Prefill the position. One's own SearXNG is usually inside the network."""
        return {"allow_private": text.own, "position": number}

    def page_context(self, request: HttpRequest, row: SearchProvider) -> dict[str, Any]:
        """Return whether it may be tested."""
        return {"may_decide": self.may_decide(request)}

    def test(self, request: HttpRequest, row: SearchProvider) -> None:
        """Search once, and say what came of it."""
        is_good, words = test(row)
        level = messages.SUCCESS if is_good else messages.ERROR
        messages.add_message(request, level, visible_line(f"{row}: {words}", 600))


def test(row: SearchProvider) -> tuple[bool, str]:
    """Search once; store and return whether that worked, and a sentence about it."""
    try:
        found = asyncio.run(services.search(catalogue.search_info(row), Query(TEST_WORDS)))
    except SearchError as error:
        is_good, words = False, str(error)
    else:
        is_good = bool(found.hits)
        number = len(found.hits)
        words = f"It answers: {number} result{'s'[: number != 1]} for “{TEST_WORDS}”."
        if not is_good:
            words = f"It answers, but finds nothing for “{TEST_WORDS}”."
        if found.silent:
            words += f" Its engines without an answer: {', '.join(found.silent)}."
    with atomic_write():  # by update: it changes no turn, so the version of the rows stays
        values = {"check_result": one_line(words, 500), "checked_at": timezone.now()}
        SearchProvider.objects.filter(pk=row.pk).update(**values)
    return is_good, words
