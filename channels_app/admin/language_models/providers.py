"""Providers in the admin: add, test, and choose among the models that they offer."""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.decorators import method_decorator
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from channels_app.admin.language_models import chains, checks
from channels_app.admin.language_models.kinds import KINDS, KindText
from channels_app.admin.language_models.provider_form import ProviderForm
from channels_app.admin.secret_key import opened
from channels_app.admin.service_admin import KindAdmin, page_of
from core.admin.base import annotated, badge, visible_line
from core.database import transactions
from core.models import LanguageModel, ModelProvider
from core.providers import prices

SHOWN_AT_ONCE = 12
LIMITS = ("Time and limits", {"fields": (("first_token_seconds", "idle_seconds"), "concurrency")})


@admin.register(ModelProvider)
class ModelProviderAdmin(KindAdmin[ModelProvider]):
    """Providers, for owners only: an address and a key say where all conversations go."""

    kinds = KINDS
    choosing = {
        "title": "Add a provider",
        "label": "Kinds of providers",
        "question": "Where do the models run?",
    }
    asked_again_for = frozenset({"base_url", "enabled"})
    pages = {
        **KindAdmin.pages,
        "models": "<int:pk>/ask-models/",
        "add_model": "<int:pk>/add-model/",
    }

    model_count = annotated("models")
    form = ProviderForm
    list_display = ("shown_name", "kind", "state", "model_count", "shown_check", "checked_at")
    list_filter = ("kind", "enabled")
    search_fields = ("name", "base_url")
    ordering = ("-from_environment", "name")
    change_form_outer_before_template = "language_models/provider_above.html"
    change_form_outer_after_template = "language_models/provider_models.html"

    @admin.display(description="state", ordering="enabled")
    def state(self, row: ModelProvider) -> SafeString:
        if row.from_environment:
            return badge("from the environment", "info")
        return super().state(row)

    @admin.display(description="key")
    def key_state(self, row: ModelProvider) -> str:
        if row.from_environment:
            return "read from the environment"
        return super().key_state(row)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ModelProvider]:
        return super().get_queryset(request).annotate(number=Count("language_models"))

    def get_fieldsets(self, request: HttpRequest, obj: ModelProvider | None = None) -> Any:
        """Show the fields of the kind; in place of the key, whether it is set, to readers."""
        text = self.text_of(request, obj)
        if text is None:
            top = (("name", "kind"), "state", "base_url", "allow_private", "key_state")
            return ((None, {"fields": top}), LIMITS)
        address = ("base_url", "allow_private") if text.address is not None else ()
        known = opened(obj)[0] if obj is not None else {}
        key = ("key", "remove_key") if known and not text.needs_key else ("key",)
        top = (("kind", "name") if obj is not None else "name", *address, *key, "enabled")
        return ((None, {"fields": top}), LIMITS)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse for the environment's row: the environment is where it is changed."""
        return super().has_change_permission(request, obj) and not is_fixed(obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and not is_fixed(obj)

    def protected(self, rows: list[ModelProvider]) -> list[str]:
        """Refuse what would leave an assistant without a model."""
        theirs = LanguageModel.objects.filter(provider__in=rows)
        return chains.reasons_to_stay(filter(is_fixed, rows), models=theirs)

    def prefilled(self, text: KindText, number: int) -> dict[str, Any]:
        """Prefill the address by kind. Ollama's usual one is inside the network."""
        is_ollama = text.kind == ModelProvider.Kind.OLLAMA
        return {"base_url": text.address or "", "allow_private": is_ollama}

    def ask(self, request: HttpRequest, row: ModelProvider) -> None:
        show_models(request, row)

    def save_model(self, request: HttpRequest, obj: ModelProvider, form: Any, change: Any) -> None:
        """Save, and warn of assistants that have no enabled model left."""
        super().save_model(request, obj, form, change)
        warn_of_idle_assistants(request)

    def page_context(self, request: HttpRequest, row: ModelProvider) -> dict[str, Any]:
        """Return the models that are set up, and those that the provider offers besides."""
        models = list(row.language_models.order_by("name"))
        taken = {each.name for each in models}
        offered = [each for each in row.offered_models if each not in taken and each.isprintable()]
        return {
            "models": models,
            "first": offered[:SHOWN_AT_ONCE],
            "more": offered[SHOWN_AT_ONCE:],
            "offered": offered,
            "may_decide": self.may_decide(request),
            "is_fixed": is_fixed(row),
        }

    def test(self, request: HttpRequest, row: ModelProvider) -> None:
        show_test(self, request, row, str(request.POST.get("model", ""))[:200])

    @method_decorator(require_POST)
    def models_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Ask the provider for its models."""
        row = self.row_of(request, pk)
        show_models(request, row)
        return HttpResponseRedirect(page_of(row))

    @method_decorator(require_POST)
    def add_model_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Add a model by its name."""
        row = self.row_of(request, pk)
        name = str(request.POST.get("name", "")).strip()
        if not request.user.has_perm("core.add_languagemodel") or is_fixed(row):
            raise PermissionDenied
        if not name or len(name) > 200 or not name.isprintable():
            messages.error(request, "Enter the name of a model, as the provider writes it.")
            return HttpResponseRedirect(page_of(row))
        window = prices.context_tokens(row.kind, row.base_url, name)
        with transactions.atomic_write():
            model, is_new = LanguageModel.objects.get_or_create(
                provider=row, name=name, defaults={"context_tokens": window}
            )
            if is_new:
                self.record(request, "added", model, {"provider": row.pk, "name": name})
        words = "was added. Put it into an assistant's chain to use it." if is_new else "is there."
        messages.success(request, f"{visible_line(name)} {words}")
        return HttpResponseRedirect(page_of(row))


def is_fixed(row: Any) -> bool:
    """Return whether a row is a copy of the environment's settings."""
    return row is not None and row.from_environment


def show_test(
    page: ModelProviderAdmin, request: HttpRequest, row: ModelProvider, model_name: str
) -> None:
    """Test a provider by calls of a model; show what was found, and fill in what it can do."""
    rows = row.language_models.order_by("id")
    model = rows.filter(name=model_name).first() or rows.filter(enabled=True).first()
    name = model_name or (model.name if model is not None else next(iter(row.offered_models), ""))
    try:
        found = checks.test(row, name)
    except checks.CheckError as error:
        messages.error(request, visible_line(f"{row}: {error}", 600))
        return
    for each in found.findings:
        level = messages.ERROR if each.is_error else messages.INFO
        messages.add_message(request, level, visible_line(checks.sentence(each), 600))
    if found.answers:
        messages.success(request, f"{row}: {visible_line(name)} answers.")
    elif found.ok:
        messages.success(request, f"{row} answers and offers {len(found.models)} models.")
    if model is not None and found.answers and model.name == name and not is_fixed(row):
        values = checks.learned(model, found)
        if values:
            page.record(request, "measured", model, values)


def show_models(request: HttpRequest, row: ModelProvider) -> None:
    """Ask a provider for its models, and say how many there are."""
    try:
        found = checks.ask_models(row)
    except checks.CheckError as error:
        messages.warning(request, visible_line(f"{row} did not list its models: {error}", 600))
        return
    if found:
        words = f"{row} offers {len(found)} models: choose below."
    else:
        words = f"{row} answers, and lists no models. Enter the name of one below."
    messages.info(request, words)


def warn_of_idle_assistants(request: HttpRequest) -> None:
    """Warn of assistants of whose chain no model is enabled any more."""
    idle = chains.without_a_usable_model()
    if idle:
        words = f"No model of the chain is enabled: {', '.join(map(str, idle))}. "
        messages.warning(request, f"{words}The default assistant's models answer instead.")
