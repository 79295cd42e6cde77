"""Models in the admin: window, abilities, prices, who may choose it, and the circuit breaker."""

from decimal import Decimal
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from allowlist.admin.audited import AuditedAdmin, OnlyDeciders
from channels_app.admin.language_models import chains
from channels_app.admin.language_models.constraints import leave_to_form
from channels_app.admin.language_models.providers import is_fixed, warn_of_idle_assistants
from channels_app.admin.service_admin import page_of
from core.admin.base import ChangedFieldsOnly, ExtraContext, ModelForm, badge, visible_line
from core.models import Assistant, LanguageModel, ModelCircuit, ModelProvider
from core.providers import circuits

PRICES = ("input_price", "cached_price", "output_price")
# Written again from the environment at each start.
OF_ENVIRONMENT = ("name", "context_tokens", "max_output_tokens", "can_call_tools", "enabled")
LEAST_WINDOW, LEAST_ANSWER = 512, 16
MOST_TOKENS = 100_000_000


class LanguageModelForm(ChangedFieldsOnly, ModelForm[LanguageModel]):
    """Check what a model could not work with."""

    class Meta:
        model = LanguageModel
        fields = (
            "provider",
            "name",
            "label",
            "context_tokens",
            "max_output_tokens",
            "can_call_tools",
            "can_see_images",
            *PRICES,
            "offered",
            "enabled",
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Explain the fields; a model is added to a provider that is set up here."""
        super().__init__(*args, **kwargs)
        leave_to_form(self.instance)
        helps = {
            "name": "As the provider writes it.",
            "label": "The name that people see. Empty: the provider's.",
            "context_tokens": "In tokens. Empty: the gateway's default.",
            "max_output_tokens": "In tokens. Empty: the gateway's default.",
            "can_see_images": "Unknown: it is tried once.",
            "input_price": "Dollars for a million tokens. Empty: the price list's.",
            "cached_price": "Of tokens that the provider had cached.",
            "output_price": "Dollars for a million tokens. Empty: the price list's.",
            "offered": "In the picker and by /model. Owners may always choose it.",
        }
        for name, words in helps.items():
            if name in self.fields:
                self.fields[name].help_text = words
        if "provider" in self.fields:
            provider = self.fields["provider"]
            assert isinstance(provider, forms.ModelChoiceField)  # noqa: S101 - a foreign key
            provider.queryset = ModelProvider.objects.filter(from_environment=False)

    def clean(self) -> dict[str, Any]:
        """Refuse negative prices, tiny windows, and an answer that the window does not hold."""
        data = super().clean() or {}
        for name in PRICES:
            if data.get(name) is not None and data[name] < Decimal(0):
                self.add_error(name, "A price cannot be below zero.")
        will = self.as_stored(data)
        window, answer = will.get("context_tokens"), will.get("max_output_tokens")
        for name, value, least in (
            ("context_tokens", window, LEAST_WINDOW),
            ("max_output_tokens", answer, LEAST_ANSWER),
        ):
            if value is not None and not least <= value <= MOST_TOKENS:
                self.add_error(name, f"Enter a number from {least} to {MOST_TOKENS}.")
        if window and answer and answer >= window:
            words = f"The longest answer must be shorter than the window of {window} tokens."
            self.add_error("max_output_tokens", words)
        self.refuse_twice(will)
        return data

    def refuse_twice(self, data: dict[str, Any]) -> None:
        """Add an error when the provider has a model of this name already."""
        # The form of an existing row does not show it.
        provider = data.get("provider") or (self.instance.provider if self.instance.pk else None)
        twice = Q(provider=provider, name=data.get("name", self.instance.name))
        if provider and LanguageModel.objects.filter(twice).exclude(pk=self.instance.pk).exists():
            self.add_error("name", f"{provider} has this model already.")


@admin.register(LanguageModel)
class LanguageModelAdmin(OnlyDeciders, ExtraContext, AuditedAdmin[LanguageModel]):
    """Models of the providers; changed by owners."""

    form = LanguageModelForm
    pages = {"again": "<int:pk>/try-again/"}
    list_display = (
        "shown_label",
        "provider",
        "window",
        "abilities",
        "prices",
        "offered",
        "state",
        "circuit_badge",
    )
    list_filter = ("provider", "enabled", "offered")
    search_fields = ("name", "label", "provider__name")
    ordering = ("provider__name", "name")
    change_form_outer_before_template = "language_models/model_above.html"
    fieldsets = (
        (None, {"fields": (("provider", "name"), "label", ("offered", "enabled"))}),
        (
            "Abilities",
            {
                "fields": (
                    ("context_tokens", "max_output_tokens"),
                    ("can_call_tools", "can_see_images"),
                )
            },
        ),
        ("Own prices", {"fields": PRICES}),
    )

    @admin.display(description="model", ordering="name")
    def shown_label(self, model: LanguageModel) -> str:
        return visible_line(model.label or model.name, 80)

    @admin.display(description="window", ordering="context_tokens")
    def window(self, model: LanguageModel) -> str:
        return f"{model.context_tokens:,}" if model.context_tokens else "default"

    @admin.display(description="abilities")
    def abilities(self, model: LanguageModel) -> str:
        """Say whether it calls tools and sees images."""
        images = "images" if model.can_see_images else ""
        return ", ".join(filter(None, ("tools" if model.can_call_tools else "", images))) or "text"

    @admin.display(description="own prices")
    def prices(self, model: LanguageModel) -> str:
        """Show dollars for a million tokens, in and out."""
        each = (model.input_price, model.output_price)
        if each == (None, None):
            return "–"
        return " / ".join("–" if price is None else f"${price.normalize():f}" for price in each)

    @admin.display(description="state", ordering="enabled")
    def state(self, model: LanguageModel) -> SafeString:
        if not model.enabled or not model.provider.enabled:
            return badge("disabled")
        return badge("enabled", "success")

    @admin.display(description="circuit")
    def circuit_badge(self, model: LanguageModel) -> SafeString:
        circuit = circuit_of(model)
        if circuit is None or circuit.opened_at is None:
            return badge("closed", "success")
        return badge(f"open: {circuit.code}", "danger")

    def get_readonly_fields(
        self, request: HttpRequest, obj: LanguageModel | None = None
    ) -> tuple[str, ...]:
        """Fix the provider, and what the environment sets."""
        if obj is None:
            return ()
        return ("provider", *(OF_ENVIRONMENT if is_fixed(obj.provider) else ()))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        fixed = obj is not None and is_fixed(obj.provider)
        return super().has_delete_permission(request, obj) and not fixed

    def protected(self, rows: list[LanguageModel]) -> list[str]:
        """Refuse what would leave an assistant without a model."""
        fixed = [each for each in rows if is_fixed(each.provider)]
        return chains.reasons_to_stay(fixed, models=rows)

    def save_model(self, request: HttpRequest, obj: LanguageModel, form: Any, change: Any) -> None:
        """Save, and warn of assistants that have no enabled model left."""
        super().save_model(request, obj, form, change)
        if change and "enabled" in form.changed_data:
            warn_of_idle_assistants(request)

    def page_context(self, request: HttpRequest, row: LanguageModel) -> dict[str, Any]:
        """Return the circuit, and the assistants that use the model."""
        return {
            "circuit": circuit_of(row),
            "now": timezone.now(),
            "assistants": Assistant.objects.filter(chain__model=row).order_by("name"),
            "is_fixed": is_fixed(row.provider),
            "may_decide": self.has_change_permission(request, row),
        }

    @method_decorator(require_POST)
    def again_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Close the circuit of a model: the next turn asks it again."""
        model = get_object_or_404(LanguageModel, pk=pk)
        if not self.has_change_permission(request, model):
            return HttpResponse(status=403)
        circuits.close(model_id=pk)
        self.record(request, "circuit_closed", model, {})
        messages.success(request, f"{visible_line(str(model))} is asked again from the next turn.")
        return HttpResponseRedirect(page_of(model))

    def get_queryset(self, request: HttpRequest) -> QuerySet[LanguageModel]:
        return super().get_queryset(request).select_related("provider", "circuit")


def circuit_of(model: LanguageModel) -> ModelCircuit | None:
    """Return the circuit of a model; None for one that never failed."""
    return getattr(model, "circuit", None)
