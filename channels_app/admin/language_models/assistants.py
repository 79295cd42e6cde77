"""Assistants in the admin: persona, chain of models, where they answer, and why."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.contrib import admin, messages
from django.core.files.uploadedfile import UploadedFile
from django.db.models import Count, Max, Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString

from allowlist.admin.audited import AuditedAdmin, OnlyDeciders, decides, disable_servers_of
from channels_app.admin.language_models import chains, pictures, why
from channels_app.admin.language_models.assistant_form import AssistantForm
from channels_app.admin.language_models.assistant_inlines import (
    BindingFormSet,
    BindingInline,
    ChainFormSet,
    ChainInline,
    WholeFormSet,
    is_usable,
)
from core.admin.base import ExtraContext, annotated, badge, visible_line
from core.models import Assistant, AssistantBinding, AssistantModel, AssistantVersion
from core.providers import catalogue

VERSIONS = 50
TOP = (("name", "slug"), "instructions")
PICTURE = ("Picture", {"fields": (("new_picture", "remove_picture"),)})
MODEL = (
    "Limits and tools",
    {
        "fields": (
            ("temperature", "max_output_tokens"),
            "all_tools",
            "tool_names",
            "language_codes",
        )
    },
)
WHO = ("Choosing it", {"fields": (("offered", "people"), ("is_default", "enabled"))})
READ_ONLY = (
    (None, {"fields": TOP}),
    (None, {"fields": (("temperature", "max_output_tokens"), "shown_tools", "shown_languages")}),
    WHO,
)


@admin.register(Assistant)
class AssistantAdmin(OnlyDeciders, ExtraContext, AuditedAdmin[Assistant]):
    """Assistants; changed by owners: instructions and tools act with the rights of each person."""

    places = annotated("bound")
    form = AssistantForm
    list_display = (
        "shown_name",
        "slug",
        "models",
        "offered",
        "places",
        "version",
        "state",
    )
    list_filter = ("enabled", "offered")
    search_fields = ("name", "slug")
    ordering = ("-is_default", "name")
    prepopulated_fields = {"slug": ("name",)}
    autocomplete_fields = recorded_sets = ("people",)
    pages = {"why": "why/"}
    inlines = (ChainInline, BindingInline)
    list_before_template = "language_models/assistants_above.html"
    change_form_outer_before_template = "language_models/assistant_above.html"
    change_form_outer_after_template = "language_models/assistant_versions.html"

    @admin.display(description="name", ordering="name")
    def shown_name(self, row: Assistant) -> str:
        return str(row)

    @admin.display(description="chain")
    def models(self, row: Assistant) -> str:
        """Show the models in order."""
        return visible_line(" → ".join(str(each.model) for each in row.chain.all()), 200)

    @admin.display(description="state", ordering="enabled")
    def state(self, row: Assistant) -> SafeString:
        if row.is_default:
            return badge("default", "info")
        return badge("enabled", "success") if row.enabled else badge("disabled")

    @admin.display(description="tools")
    def shown_tools(self, row: Assistant) -> str:
        return "all" if row.tools is None else visible_line(", ".join(row.tools) or "none")

    @admin.display(description="languages")
    def shown_languages(self, row: Assistant) -> str:
        return visible_line(", ".join(row.languages)) or "the person's"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Assistant]:
        rows = super().get_queryset(request).annotate(number=Count("bindings"))
        chain = AssistantModel.objects.select_related("model__provider")
        return rows.prefetch_related(Prefetch("chain", chain))

    def get_fieldsets(self, request: HttpRequest, obj: Assistant | None = None) -> Any:
        """Show JSON columns as fields; to readers as texts."""
        if not self.may_edit(request, obj):
            return READ_ONLY
        has_picture = obj is not None and bool(obj.picture)
        picture = PICTURE if has_picture else ("Picture", {"fields": ("new_picture",)})
        return ((None, {"fields": TOP}), MODEL, WHO, picture)

    def get_readonly_fields(self, request: HttpRequest, obj: Assistant | None = None) -> Any:
        return () if self.may_edit(request, obj) else ("shown_tools", "shown_languages")

    def get_prepopulated_fields(self, request: HttpRequest, obj: Assistant | None = None) -> Any:
        """Keep the slug of an existing assistant: commands and APIs name it."""
        return {} if obj is not None else super().get_prepopulated_fields(request, obj)

    def get_form(
        self, request: HttpRequest, obj: Assistant | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        picture = vars(request).get("picture", {})
        kwargs["form"] = type("AssistantForm", (AssistantForm,), picture)
        return super().get_form(request, obj, *args, **kwargs)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse for the default: something has to answer."""
        is_default = obj is not None and obj.is_default
        return super().has_delete_permission(request, obj) and not is_default

    def protected(self, rows: list[Assistant]) -> list[str]:
        """Refuse the default also among others."""
        return [f"{each}: the default assistant" for each in rows if each.is_default]

    def delete_model(self, request: HttpRequest, obj: Assistant) -> None:
        disable_servers_of(self, request, obj)
        super().delete_model(request, obj)

    @contextmanager
    def around_form(self, request: HttpRequest) -> Iterator[None]:
        """Scale an uploaded picture."""
        given = request.FILES.get("new_picture") if decides(request) else None
        if given is not None:
            vars(request)["picture"] = scaled(given)
        yield

    def save_model(self, request: HttpRequest, obj: Assistant, form: Any, change: Any) -> None:
        """Count versions of the instructions; move the mark of the default."""
        before = Assistant.objects.filter(pk=obj.pk).first() if change else None
        if obj.is_default:
            others = Assistant.objects.filter(is_default=True).exclude(pk=obj.pk)
            for other in others:
                self.record(request, "default_moved", other, {"to": str(obj)})
            others.update(is_default=False)
        if before is not None:
            obj.version = before.version
        is_new_text = before is None or before.instructions != obj.instructions
        if before is not None and is_new_text:
            newest = obj.versions.aggregate(most=Max("number"))["most"]
            obj.version = max(newest or 0, before.version) + 1
        super().save_model(request, obj, form, change)
        if is_new_text:
            AssistantVersion.objects.create(
                assistant=obj, number=obj.version, instructions=obj.instructions
            )
        self.record_columns(request, before, obj)

    def record_columns(
        self, request: HttpRequest, before: Assistant | None, after: Assistant
    ) -> None:
        """Record the columns whose fields have other names; of a picture only that it changed."""
        changed: dict[str, object] = {}
        for name in ("tools", "languages"):
            old, new = getattr(before, name, None), getattr(after, name)
            if old != new and not (before is None and not new):
                changed[name] = [old, new]
        if (before.picture if before is not None else "") != after.picture:
            changed["picture"] = "set" if after.picture else "removed"
        if changed:
            self.record(request, "settings_set", after, changed)

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: Any) -> None:
        """Write the chain and the bindings as a whole, and record them."""
        if isinstance(formset, WholeFormSet):
            formset.new_objects = formset.changed_objects = formset.deleted_objects = []
            if formset.is_old:
                return
        if isinstance(formset, ChainFormSet):
            self.save_chain(request, form.instance, formset)
        elif isinstance(formset, BindingFormSet):
            self.save_bindings(request, form.instance, formset)
        else:
            super().save_formset(request, form, formset, change)

    def save_chain(self, request: HttpRequest, row: Assistant, formset: ChainFormSet) -> None:
        """Write the models in their order; warn of disabled ones."""
        wanted = formset.chain()
        before = [each.model for each in row.chain.select_related("model__provider")]
        for model in wanted:
            if not is_usable(model):
                words = f"{visible_line(str(model))} is disabled: it is skipped."
                messages.warning(request, words)
        if [each.pk for each in before] == [each.pk for each in wanted]:
            return
        row.chain.all().delete()
        AssistantModel.objects.bulk_create(
            AssistantModel(assistant=row, model=model, position=number)
            for number, model in enumerate(wanted, 1)
        )
        catalogue.changed()
        names = [[str(each) for each in models] for models in (before, wanted)]
        self.record(request, "chain_set", row, {"chain": names})

    def save_bindings(self, request: HttpRequest, row: Assistant, formset: BindingFormSet) -> None:
        """Write the places where it answers."""
        wanted = [each.cleaned_data for each in formset.rows()]
        made = [
            AssistantBinding(
                assistant=row,
                account=data.get("account"),
                chat=data.get("chat") or "",
                user=data.get("user"),
                key_id=data.get("key_id") or 0,
            )
            for data in wanted
        ]
        before = sorted(map(why.describe, row.bindings.select_related("account", "user")))
        after = sorted(map(why.describe, made))
        if before == after:
            return
        row.bindings.all().delete()
        AssistantBinding.objects.bulk_create(made)
        catalogue.changed()
        self.record(request, "bindings_set", row, {"bindings": [before, after]})

    def page_context(self, request: HttpRequest, row: Assistant) -> dict[str, Any]:
        """Return the versions of the instructions, and whether a model is missing."""
        return {
            "versions": row.versions.order_by("-number")[:VERSIONS],
            "disabled": [each.model for each in row.chain.all() if not is_usable(each.model)],
            "has_none": row in chains.without_a_usable_model(),
        }

    def why_view(self, request: HttpRequest) -> HttpResponse:
        return why.view(self, request)


def scaled(given: "UploadedFile[Any]") -> dict[str, str]:
    """Return what the form is told about an uploaded picture."""
    try:
        return {"scaled": pictures.scaled(given)}
    except pictures.PictureError as error:
        return {"picture_error": str(error)}
