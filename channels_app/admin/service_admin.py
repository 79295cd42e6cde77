"""Pages of services that the gateway calls at an address with a key, and that can be tested."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from allowlist.admin.audited import AuditedAdmin, OnlyDeciders, decides
from channels_app.admin import addresses
from channels_app.admin.secret_key import key_state
from core.admin.base import ExtraContext, badge, visible_line

M = TypeVar("M", bound=Model)


class ServiceAdmin(OnlyDeciders, ExtraContext, AuditedAdmin[M], Generic[M]):
    """Services, for owners only. The form is a :class:`KeyForm`; ``address``: its field of the
    address; ``asked_again_for``: fields after whose change a saved service is asked again.
    """

    address = "base_url"
    asked_again_for: frozenset[str] = frozenset()
    pages = {"test": "<int:pk>/test/"}

    def ask(self, request: HttpRequest, row: Any) -> None:
        """Ask a saved service what it offers, and show it."""

    def test(self, request: HttpRequest, row: Any) -> None:
        """Call a service with the saved settings, and show what was found."""
        raise NotImplementedError

    @admin.display(description="name", ordering="name")
    def shown_name(self, row: Any) -> str:
        return str(row)

    @admin.display(description="state", ordering="enabled")
    def state(self, row: Any) -> SafeString:
        return badge("enabled", "success") if row.enabled else badge("disabled")

    @admin.display(description="last test")
    def shown_check(self, row: Any) -> SafeString | str:
        text = visible_line(row.check_result, 160)
        return render_to_string("language_models/cell.html", {"text": text}) if text else "–"

    @admin.display(description="key")
    def key_state(self, row: Any) -> str:
        """Say whether a key is set, without any of it."""
        return key_state(row)

    @contextmanager
    def around_form(self, request: HttpRequest) -> Iterator[None]:
        """Resolve the posted address before the form is stored; examine the service afterwards."""
        if decides(request):
            host = addresses.host_of(str(request.POST.get(self.address, "")).strip())
            vars(request)["resolved"] = {host: addresses.look_up(host)}
        yield
        saved = vars(request).get("saved_service")
        if saved is not None and saved.enabled:
            self.ask(request, saved)

    def get_form(self, request: HttpRequest, obj: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Tell the form where the posted host leads, and :meth:`form_values`."""
        values = {"resolved": vars(request).get("resolved", {}), **self.form_values(request, obj)}
        kwargs["form"] = type("ServiceForm", (self.form,), values)
        return super().get_form(request, obj, *args, **kwargs)

    def form_values(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """Return more attributes of the form's class."""
        return {}

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: Any) -> None:
        """Encrypt a given key; an empty field keeps the one that is set."""
        obj.secrets, happened = form.sealed()
        super().save_model(request, obj, form, change)
        if happened:
            self.record(request, happened, obj, {})
        if happened or self.asked_again_for & set(form.changed_data):
            vars(request)["saved_service"] = obj

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Stay on the page, where it is tested next, or its models are chosen."""
        super().response_add(request, obj, post_url_continue)
        return HttpResponseRedirect(page_of(obj))

    def may_decide(self, request: HttpRequest) -> bool:
        """Return whether the user tests services, also those that cannot be changed here."""
        name = f"{self.opts.app_label}.change_{self.opts.model_name}"
        return decides(request) and request.user.has_perm(name)

    def row_of(self, request: HttpRequest, pk: int) -> Any:
        """Return a service. Raises PermissionDenied for those who do not decide."""
        if not self.may_decide(request):
            raise PermissionDenied
        return get_object_or_404(self.model, pk=pk)

    @method_decorator(require_POST)
    def test_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        row = self.row_of(request, pk)
        self.test(request, row)
        return HttpResponseRedirect(page_of(row))


class KindAdmin(ServiceAdmin[M], Generic[M]):
    """Services of several kinds: the kind is chosen first, and stays. ``kinds``: the texts about
    each; ``choosing``: the texts of the page of the choice.
    """

    kinds: Mapping[str, Any] = {}
    choosing: Mapping[str, str] = {}

    def text_of(self, request: HttpRequest, obj: Any) -> Any:
        """Return the texts about the kind of a page that is a form for the user; else None."""
        return self.kinds.get(kind_of(request, obj)) if self.may_edit(request, obj) else None

    def form_values(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """Give the form the texts about its kind."""
        return {"text": self.text_of(request, obj)}

    def prefilled(self, text: Any, number: int) -> dict[str, Any]:
        """Return the first values of a new service, the one with this number."""
        raise NotImplementedError

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Prefill the form by kind: a name that is free, and :meth:`prefilled`."""
        text, rows = self.kinds.get(kind_of(request, None)), self.model._default_manager
        if text is None:
            return {}
        number, is_taken = rows.count() + 1, rows.filter(name=text.label).exists()
        name = f"{text.label} {number}" if is_taken else text.label
        return {"name": name, **self.prefilled(text, number)}

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Fix the kind, on which the needs of a service depend."""
        return ("kind", "key_state", "state", "created_at") if obj is not None else ()

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Ask for the kind first, then show the form."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        text = self.kinds.get(kind_of(request, None))
        if text is not None:
            extra = {"title": f"Add {text.label}", **(extra_context or {})}
            return super().add_view(request, form_url, extra)
        context = self.admin_site.each_context(request) | {
            "opts": self.model._meta,
            "kinds": self.kinds.values(),
            **self.choosing,
        }
        return TemplateResponse(request, "dashboard/choose_kind.html", context)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: Any) -> None:
        """Store the kind with a new service."""
        if not change:
            obj.kind = kind_of(request, None)
        super().save_model(request, obj, form, change)


def kind_of(request: HttpRequest, row: Any) -> str:
    """Return the kind of a page; empty when none has been chosen yet."""
    return row.kind if row is not None else str(request.GET.get("kind") or "")


def page_of(row: Model) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])
