"""API keys as a choice of a form, by their names: rows name them by number."""

from typing import Any

from django import forms
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminSelectWidget

from allowlist.admin.audited import decides
from allowlist.models import ApiKey
from core.lib.text import visible_line

NONE = (0, "–")
MOST = 500


class KeyField(forms.TypedChoiceField):
    """A choice among the keys that are not revoked; 0 for none. ``kept``: shown though revoked."""

    def __init__(self, **kwargs: Any) -> None:
        """Choices are read when the form is made: see :func:`fill`."""
        kwargs = {"required": False, "coerce": int, "empty_value": 0, **kwargs}
        super().__init__(widget=UnfoldAdminSelectWidget(), choices=[NONE], **kwargs)

    def prepare_value(self, value: Any) -> Any:
        return value or 0


def label_of(key: ApiKey) -> str:
    """Return a key's name with whose it is, and no part of the key that would open anything."""
    return visible_line(f"{key.name} ({key.user or key.account})", 120)


def choices(*, kept: int = 0, request: HttpRequest | None = None) -> list[tuple[int, str]]:
    """Return the MOST newest keys as choices by name; for a user who is no owner, their own."""
    rows = ApiKey.objects.select_related("user", "account").order_by("-id")
    if request is not None and not decides(request):
        rows = rows.filter(user=request.user.pk)
    usable = [(key.pk, label_of(key)) for key in rows[:MOST] if key.revoked_at is None]
    found = [NONE, *sorted(usable, key=lambda each: (each[1].casefold(), each[0]))]
    return with_kept(found, kept)


def with_kept(known: list[tuple[int, str]], kept: int) -> list[tuple[int, str]]:
    """Return the choices with the key ``kept``."""
    return known if not kept or kept in dict(known) else [*known, (kept, name_of(kept))]


def fill(form: forms.BaseForm, *, kept: int) -> None:
    """Fill the choices of a form's field ``key_id``."""
    field = form.fields["key_id"]
    assert isinstance(field, KeyField)  # noqa: S101 - the forms of this package
    field.choices = choices(kept=kept)


def name_of(key_id: int) -> str:
    """Return the name of a key by its number; empty for none."""
    return names_of([key_id]).get(key_id, "")


def names_of(ids: list[int]) -> dict[int, str]:
    """Return the names of keys by their numbers, without that of none."""
    wanted = {each for each in ids if each}
    if not wanted:
        return {}
    found = ApiKey.objects.select_related("user", "account").in_bulk(wanted)
    return {
        each: label_of(found[each]) if each in found else f"a deleted key ({each})"
        for each in wanted
    }
