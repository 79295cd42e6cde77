"""The form of pages that explain a decision: a person, and an account or a group of it."""

from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest

from core.admin.base import PlainForm, ThemedAdmin
from core.models import ChannelAccount, User

MOST_PEOPLE = 200


class PlaceForm(PlainForm):
    """A person and a place; a group needs its account."""

    person = forms.CharField(
        required=False,
        max_length=150,
        widget=forms.TextInput(
            attrs={"list": "why-people", "autocomplete": "off", "placeholder": "username"}
        ),
    )
    account = forms.ModelChoiceField(
        ChannelAccount.objects.order_by("channel", "name"),
        required=False,
        empty_label="–",
    )
    group = forms.CharField(required=False, max_length=128, label="Group's id, in a group")

    def clean_person(self) -> User | None:
        """Return the person of a username."""
        name = str(self.cleaned_data.get("person") or "").strip()
        person = User.objects.filter(username=name).first() if name else None
        if name and person is None:
            raise forms.ValidationError("There is no user with this username.")
        return person

    def clean(self) -> dict[str, Any]:
        """Accept a group with its account only."""
        data = super().clean() or {}
        if data.get("group") and not data.get("account"):
            self.add_error("account", "Choose the account of this group.")
        return data


def people() -> QuerySet[User]:
    """Return the people whose names a page suggests."""
    return User.objects.filter(is_active=True).order_by("username")[:MOST_PEOPLE]


def context_of(
    page: ThemedAdmin[Any], request: HttpRequest, form: PlaceForm, title: str
) -> dict[str, Any]:
    """Return what such a page shows above its answer. Raises PermissionDenied."""
    if not page.has_view_permission(request):
        raise PermissionDenied
    return page.admin_site.each_context(request) | {
        "title": title,
        "opts": page.model._meta,
        "form": form,
        "people": people(),
    }
