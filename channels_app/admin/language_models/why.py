"""“Why this assistant?”: the function that decides says it, for a person, account, group or key."""

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from allowlist.models import ApiKey
from channels_app.admin.language_models import keys
from channels_app.admin.place_form import PlaceForm, context_of
from core.admin.base import ThemedAdmin
from core.conversations import assistants
from core.lib.text import visible_line
from core.models import Assistant, AssistantBinding
from core.providers import catalogue


class WhyForm(PlaceForm):
    """A turn to explain. All are optional: a key names its person or account itself."""

    key = forms.TypedChoiceField(required=False, coerce=int, empty_value=None, label="API key")

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        """Offer the keys that the reader may know of."""
        super().__init__(*args, **kwargs)
        field = self.fields["key"]
        assert isinstance(field, forms.TypedChoiceField)  # noqa: S101 - declared above
        field.choices = keys.choices(request=request)

    def clean(self) -> dict[str, Any]:
        """Take person and account of the key."""
        data = self.cleaned_data
        key = ApiKey.objects.filter(pk=data.get("key") or 0).select_related("user", "account")
        for found in key:
            data["person"] = data.get("person") or found.user
            data["account"] = data.get("account") or found.account
        if not any(data.get(name) for name in ("person", "account", "group", "key")):
            self.add_error("person", "Choose a person, an account or an API key.")
        return super().clean()


def view(page: ThemedAdmin[Assistant], request: HttpRequest) -> HttpResponse:
    """Show the form, and what answers."""
    form = WhyForm(request.GET or None, request=request)
    context = context_of(page, request, form, "Why this assistant?")
    if request.GET and form.is_valid():
        context |= explained(form.cleaned_data)
    return TemplateResponse(request, "language_models/why.html", context)


def explained(data: dict[str, Any]) -> dict[str, Any]:
    """Return what answers a requester, and why."""
    person, account = data.get("person"), data.get("account")
    requester = assistants.Requester(
        user_id=person.pk if person is not None else 0,
        account_id=account.pk if account is not None else 0,
        chat=data.get("group") or "",
        key_id=data.get("key") or 0,
        is_owner=person is not None and person.is_owner,
    )
    known = catalogue.current()
    choice = assistants.choose(known, requester)
    return {
        "choice": choice,
        "why": choice.why,
        "chain": known.chain_of(choice.assistant.id),
        "offered": [each.name for each in assistants.offered_to(known, requester)],
    }


def describe(binding: AssistantBinding) -> str:
    """Return what a binding binds, as a text."""
    if binding.key_id:
        return f"key {keys.name_of(binding.key_id)}"
    if binding.user is not None:
        return f"person {visible_line(binding.user.username, 80)}"
    group = f", group {visible_line(binding.chat, 128)}" if binding.chat else ""
    return f"account {binding.account}{group}"
