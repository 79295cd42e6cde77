"""The form of a provider: its fields by kind, and the key, which is written and never shown."""

from dataclasses import replace
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from unfold.widgets import UnfoldAdminTextInputWidget

from channels_app.admin import addresses
from channels_app.admin.language_models.kinds import KindText
from channels_app.admin.secret_key import PRIVATE_HELP, KeyForm
from core.models import ModelProvider
from core.providers import catalogue, vendors

KEPT_NAMES = {name.casefold() for name in (catalogue.ENVIRONMENT, catalogue.EMBEDDED)}
MOST_CALLS = 1000
SETTINGS = ("base_url", "allow_private", "first_token_seconds", "idle_seconds")


class ProviderForm(KeyForm[ModelProvider]):
    """Edit a provider. ``text``: about its kind."""

    text: KindText | None = None
    base_url = forms.CharField(
        label="Address", max_length=500, required=False, widget=UnfoldAdminTextInputWidget()
    )

    class Meta:
        model = ModelProvider
        fields = (
            "kind",
            "name",
            "base_url",
            "allow_private",
            "first_token_seconds",
            "idle_seconds",
            "concurrency",
            "enabled",
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Show the fields of the kind."""
        super().__init__(*args, **kwargs)
        text, fields = self.text, self.fields
        if text is None:  # only shown
            return
        self.describe_key(page=text.key_page)
        if text.address is None:
            fields.pop("base_url", None)
            fields.pop("allow_private", None)
        else:
            fields["base_url"].help_text = text.address_help
            fields["allow_private"].help_text = PRIVATE_HELP
        fields["first_token_seconds"].help_text = "Then the next model of the chain is asked."
        fields["idle_seconds"].help_text = "The longest silence in the middle of an answer."
        fields["concurrency"].help_text = "The sum over all processes. 0 for no limit."

    def clean_name(self) -> str:
        """Refuse the names of the environment's row."""
        name = str(self.cleaned_data["name"])
        if name.strip().casefold() in KEPT_NAMES:
            raise ValidationError("This name belongs to the settings of the environment.")
        return name

    def clean_base_url(self) -> str:
        """Refuse a path that belongs to a single call."""
        address = str(self.cleaned_data.get("base_url") or "").rstrip("/")
        if words := addresses.wrong_path(address):
            raise ValidationError(words)
        return address

    def clean_concurrency(self) -> int:
        """Refuse what no worker has."""
        calls = int(self.cleaned_data["concurrency"])
        if calls > MOST_CALLS:
            raise ValidationError(f"Enter a number from 0 to {MOST_CALLS}.")
        return calls

    def clean(self) -> dict[str, Any]:
        """Add what the provider could not work with beside each field."""
        data = super().clean()
        for name, words in self.problems(data).items():
            if name in self.fields and name not in self.errors:
                self.add_error(name, words)
        return data

    def problems(self, data: dict[str, Any]) -> dict[str, str]:
        """Return what is wrong with the provider as it would be stored, by field."""
        kind = self.text.kind if self.text is not None else self.instance.kind
        will = self.as_stored(data)
        values = {name: will[name] for name in SETTINGS if will.get(name) is not None}
        info = replace(catalogue.provider_info(self.instance), kind=kind, **values)
        key = self.key_after(data)
        found = vendors.problems(info, key, resolve=self.resolve)
        if "key" in found and not key and self.text is not None:
            found["key"] = f"Enter a key. It is made at {self.text.key_page}."
        return found
