"""The chain of an assistant, and where it is bound: rows on its page."""

from collections.abc import Callable, Iterable
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.functional import cached_property
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from allowlist.admin.audited import decides
from channels_app.admin.language_models import keys
from channels_app.admin.language_models.constraints import leave_to_form
from core.admin.base import ModelForm, RowsFormSet, ThemedInline
from core.models import Assistant, AssistantBinding, AssistantModel, LanguageModel

EMPTY_CHAIN = "Add at least one model: without one the assistant cannot answer."


class WholeFormSet(RowsFormSet):
    """Rows that are written again as a whole, so that two of them may swap their values: none of a
    page that was opened before others wrote them.
    """

    @cached_property
    def is_old(self) -> bool:
        """Return whether the rows are no longer those that the page showed."""
        shown = {each.instance.pk for each in self.initial_forms}
        return shown != {each.pk for each in super(RowsFormSet, self).get_queryset()}

    def old_forms(self) -> list[Any]:
        """Return all forms, if one row has changed."""
        return self.forms if self.is_old else []

    @cached_property
    def empty_form(self) -> Any:
        """Return the form of a row to add, made once: a page asks for it a dozen times."""
        return super().empty_form

    @cached_property
    def _choices(self) -> dict[str, list[Any]]:
        return {}

    def read_once(self, name: str, read: Callable[[], Iterable[Any]]) -> list[Any]:
        """Return the choices of the field ``name``, read once for all rows and the empty one."""
        if name not in self._choices:
            self._choices[name] = [*iter(read())]  # without its length, another query
        return self._choices[name]

    def share(self, form: Any, name: str) -> None:
        """Let a row choose the same as the others, without a query of its own."""
        if field := form.fields.get(name):
            field.choices = self.read_once(name, lambda: field.choices)

    def rows(self) -> list[Any]:
        """Return the forms of the rows that stay, in their order."""
        return [
            each
            for each in self.forms
            if getattr(each, "cleaned_data", None) and not each.cleaned_data.get("DELETE")
        ]

    def validate_unique(self) -> None:
        """Nothing more: ``clean`` says it beside the field."""


class ChainFormSet(WholeFormSet):
    """Require a model, and each model once."""

    def add_fields(self, form: Any, index: int | None) -> None:
        """Read the models once."""
        super().add_fields(form, index)
        self.share(form, "model")

    def clean(self) -> None:
        """Add the errors beside the fields of the rows."""
        super().clean()
        if self.is_old:
            return
        chosen: set[int] = set()
        for row in self.rows():
            model = row.cleaned_data.get("model")
            if model is None:
                continue
            if model.pk in chosen:
                row.add_error("model", "This model is in the chain already.")
            chosen.add(model.pk)
        if not chosen and not any(each.errors for each in self.forms):
            raise ValidationError(EMPTY_CHAIN)

    def chain(self) -> list[LanguageModel]:
        """Return the models by their position; equal ones as they stand on the page."""
        rows = sorted(self.rows(), key=lambda row: row.cleaned_data.get("position") or 0)
        return [row.cleaned_data["model"] for row in rows]


class ChainForm(ModelForm[AssistantModel]):
    """A place in the chain."""

    class Meta:
        model = AssistantModel
        fields = ("model", "position")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Say of disabled models that they are."""
        super().__init__(*args, **kwargs)
        leave_to_form(self.instance)
        if "model" in self.fields:
            field = self.fields["model"]
            assert isinstance(field, forms.ModelChoiceField)  # noqa: S101 - a foreign key
            field.queryset = LanguageModel.objects.select_related("provider").order_by(
                "provider__name", "name"
            )
            field.label_from_instance = model_label  # type: ignore[method-assign,assignment]

    def validate_unique(self) -> None:
        """As above."""


def model_label(model: LanguageModel) -> str:
    """Return a model's name, with its provider, and that it is disabled."""
    name = f"{model.provider.name}: {model.label or model.name}"
    return name if is_usable(model) else f"{name} (disabled)"


def is_usable(model: LanguageModel) -> bool:
    return model.enabled and model.provider.enabled


class OfAssistant:
    """Mixin: the rows have the permissions of their assistant; changes are for deciders."""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("core.view_assistant") or self.may_edit(request)

    def may_edit(self, request: HttpRequest, obj: Any = None) -> bool:
        names = ("core.change_assistant", "core.add_assistant")
        return decides(request) and any(map(request.user.has_perm, names))

    has_add_permission = has_change_permission = has_delete_permission = may_edit


class ChainInline(OfAssistant, ThemedInline[AssistantModel, Assistant]):
    model = AssistantModel
    form = ChainForm
    formset = ChainFormSet
    fields = ("model", "position")
    ordering_field = "position"
    hide_title = True
    verbose_name = "model"
    verbose_name_plural = "chain of models: the first that works answers"

    def get_extra(self, request: Any, obj: Assistant | None = None, **kwargs: Any) -> int:
        """Offer a row for the first model."""
        return 0 if obj is not None and obj.chain.exists() else 1


class BindingForm(ModelForm[AssistantBinding]):
    """Where an assistant answers: one account, group, person or API key."""

    key_id = keys.KeyField(label="API key")
    chat = forms.CharField(
        label="Group", required=False, max_length=128, widget=UnfoldAdminTextInputWidget()
    )

    class Meta:
        model = AssistantBinding
        fields = ("account", "chat", "user", "key_id")
        labels = {"user": "Person"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Leave the constraints to ``clean``."""
        super().__init__(*args, **kwargs)
        leave_to_form(self.instance)

    def clean(self) -> dict[str, Any]:
        """Require exactly one thing; a group belongs to an account."""
        data = super().clean() or {}
        if data.get("DELETE"):
            return data
        given = [name for name in ("account", "user", "key_id") if data.get(name)]
        if data.get("chat") and "account" not in given:
            self.add_error("account", "Choose the account of this group.")
        elif not given and not self.errors:
            self.add_error("account", "Choose an account, a person or an API key.")
        for name in given[1:]:
            words = "A row binds one thing. Add another row for this."
            self.add_error(name, words)
        return data

    def validate_unique(self) -> None:
        """As above."""


class BindingFormSet(WholeFormSet):
    """Require each place once, in this assistant and in all others."""

    def add_fields(self, form: Any, index: int | None) -> None:
        """Read the accounts and the keys once."""
        super().add_fields(form, index)
        self.share(form, "account")
        if field := form.fields.get("key_id"):
            known = self.read_once("key_id", keys.choices)
            field.choices = keys.with_kept(known, form.instance.key_id)

    def clean(self) -> None:
        """Add the errors beside the fields of the rows."""
        super().clean()
        if self.is_old:
            return
        others = AssistantBinding.objects.exclude(assistant=self.instance.pk)
        taken = {bound_by(row): row.assistant for row in others.select_related("assistant")}
        mine: set[Any] = set()
        for row in self.rows():
            if row.errors:
                continue
            bound = bound_by(row.instance)
            if bound in mine:
                row.add_error(bound[0], "This is bound in another row already.")
            elif bound in taken:
                row.add_error(bound[0], f"This is bound to {taken[bound]} already.")
            mine.add(bound)


def bound_by(row: AssistantBinding) -> tuple[str, tuple[Any, ...]]:
    """Return the field that an error belongs to, and what a row binds."""
    if row.key_id:
        return "key_id", (row.key_id,)
    if row.user_id:
        return "user", (row.user_id,)
    return ("chat" if row.chat else "account"), (row.account_id, row.chat)


class BindingInline(OfAssistant, ThemedInline[AssistantBinding, Assistant]):
    model = AssistantBinding
    form = BindingForm
    formset = BindingFormSet
    fields = ("account", "chat", "user", "key_id")
    autocomplete_fields = ("user",)
    hide_title = True
    verbose_name = "place"
    verbose_name_plural = "where it answers: the most specific of API key, group, person, account"

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        """Leave the links to other pages out of the rows."""
        found = super().formfield_for_dbfield(db_field, request, **kwargs)
        if isinstance(found, forms.ModelChoiceField) and db_field.name == "account":
            found.widget = UnfoldAdminSelectWidget()
        return found
