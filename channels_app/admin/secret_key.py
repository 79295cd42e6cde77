"""The key of a service in a form: written, encrypted, and never shown again."""

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Model
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldBooleanSwitchWidget

from core.admin.base import ChangedFieldsOnly, ModelForm
from core.lib import encryption

M = TypeVar("M", bound=Model)
PRIVATE_HELP = (
    "Tick this for a server of your own, as in http://192.168.1.20. Without it the gateway "
    "connects to public addresses only."
)


class HasSecrets(Protocol):
    """A row with encrypted secrets."""

    def open_secrets(self) -> dict[str, str]:
        """Return the decrypted secrets. Raises DecryptError."""
        ...


class KeyForm(ChangedFieldsOnly, ModelForm[M]):
    """A form with the fields ``key`` and ``remove_key``, for a row with ``secrets``. ``resolved``:
    the addresses of the posted host, by its name.
    """

    resolved: Mapping[str, list[str]] = {}

    key = forms.CharField(
        required=False,
        max_length=4000,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
    )
    remove_key = forms.BooleanField(
        label="Remove the key", required=False, widget=UnfoldBooleanSwitchWidget()
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Open the stored key."""
        super().__init__(*args, **kwargs)
        self.known, self.can_open = opened(self.row)

    @property
    def row(self) -> Any:
        """Return the row, which has secrets."""
        return self.instance

    def resolve(self, host: str, _port: int) -> list[str]:
        """Return the addresses of the posted host; none of a host that another page has stored
        since, which was checked there, and is at each connection.
        """
        return self.resolved.get(host, [])

    def describe_key(self, *, page: str) -> None:
        """Explain in the form what an empty key does. ``page``: where keys are made, if needed."""
        known = bool(self.known)
        self.fields["key"].help_text = key_help(page, known=known, can_open=self.can_open)
        if page or not known:
            self.fields.pop("remove_key", None)

    def clean_key(self) -> str:
        """Refuse a line break, which no header can hold; spaces around a key are left out."""
        key = str(self.cleaned_data.get("key") or "")
        if "\n" in key or "\r" in key:
            raise ValidationError("The key contains a line break. Copy it again, without one.")
        return key.strip(" \t")

    def clean(self) -> dict[str, Any]:
        """Refuse a new key that is to be removed."""
        data = super().clean() or {}
        if data.get("key") and data.get("remove_key"):
            self.add_error("remove_key", "Either enter a new key or remove it.")
        return data

    def key_after(self, data: dict[str, Any]) -> str:
        """Return the key as it would be stored; empty for none."""
        return data.get("key") or ("" if data.get("remove_key") else self.known.get("key", ""))

    def sealed(self) -> tuple[str, str]:
        """Return the encrypted secrets to store, and what happened: "", "key_set", "key_removed".

        A key that is already set is kept when the field is empty.
        """
        key = self.cleaned_data.get("key")
        if key:
            return encryption.encrypt({**self.known, "key": key}), "key_set"
        if self.cleaned_data.get("remove_key"):
            return "", "key_removed"
        return self.row.secrets, ""


def opened(row: HasSecrets) -> tuple[dict[str, str], bool]:
    """Return the stored secrets and whether they could be decrypted (the key may have changed)."""
    try:
        return row.open_secrets(), True
    except encryption.DecryptError:
        return {}, False


def key_state(row: HasSecrets) -> str:
    """Say whether a key is set, without any of it."""
    known, can_open = opened(row)
    if not can_open:
        return "cannot be opened: the gateway's own key was changed"
    return "set" if known else "none"


def key_help(page: str, *, known: bool, can_open: bool) -> str:
    """Describe the effect of leaving the key's input empty."""
    if not can_open:
        return "The stored key cannot be opened: the gateway's own key was changed. Enter it again."
    if known:
        return "Already set; leave empty to keep it."
    if page:
        return f"It is made at {page}. Stored encrypted and never shown again."
    return "Only if the server asks for one. Stored encrypted and never shown again."
