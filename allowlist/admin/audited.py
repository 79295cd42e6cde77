"""Pages whose changes are audited, and the page of a secret that is shown once."""

from typing import Any, Generic, TypeVar

from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from allowlist import audit
from core.admin.base import ThemedAdmin

M = TypeVar("M", bound=Model)


def actor(request: HttpRequest) -> str:
    """Who acts, as the audit writes it."""
    return f"user:{request.user.pk} {request.user}"


class AuditedAdmin(ThemedAdmin[M], Generic[M]):
    """Writes what was added, changed or deleted to the audit, with before and after.

    Secrets stay out of it because they are no attributes of the row under their form's names.
    """

    def save_model(self, request: HttpRequest, obj: M, form: Any, change: Any) -> None:
        """Save, then record the changed fields. The signature is Django's."""
        before = type(obj)._default_manager.filter(pk=obj.pk).first() if change else None
        super().save_model(request, obj, form, change)
        changed: dict[str, object] = {
            name: [getattr(each, name, None) for each in (before, obj)]
            for name in form.changed_data
            if hasattr(obj, name) and not _is_many(obj, name)
        }
        self.record(request, "changed" if change else "added", obj, changed)

    def delete_model(self, request: HttpRequest, obj: M) -> None:
        """Delete and record it."""
        self.record(request, "deleted", obj, {})
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[M]) -> None:
        """One by one, so that each is recorded and ends what it must end."""
        for obj in queryset.order_by("pk"):
            self.delete_model(request, obj)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """How much goes with ``objs``; pages that are read-only forbid a superuser nothing here."""
        _, counts, forbidden, protected = super().get_deleted_objects(objs, request)
        names = [f"{obj._meta.verbose_name}: {obj}" for obj in objs]
        return names, counts, set() if is_superuser(request) else forbidden, protected

    def record(
        self, request: HttpRequest, action: str, obj: Model, data: dict[str, object]
    ) -> None:
        """An audit row about ``obj``, in the transaction of the admin's view."""
        audit.record(
            actor=actor(request),
            action=f"{obj._meta.model_name}.{action}",
            subject=f"{obj._meta.model_name}:{obj.pk} {obj}",
            data=data,
            now=timezone.now(),
        )


def _is_many(obj: Model, name: str) -> bool:
    return hasattr(getattr(obj, name, None), "all")


def shown_once(
    page: ThemedAdmin[Any], request: HttpRequest, title: str, secret: str, obj: Model
) -> HttpResponse:
    """The page of a secret that is never shown again."""
    context = page.admin_site.each_context(request) | {
        "title": title,
        "secret": secret,
        "back": reverse(f"admin:{obj._meta.label_lower.replace('.', '_')}_changelist"),
    }
    response = TemplateResponse(request, "dashboard/secret_once.html", context)
    response.headers["Cache-Control"] = "no-store"
    return response


def decides(request: HttpRequest) -> bool:
    """Whether the visitor decides who may speak: an owner, or a superuser ([A6]).

    A right to change people or accounts is not enough: by an open list, another address or another
    secret of a webhook one would speak as anybody (decision 176).
    """
    return is_superuser(request) or bool(getattr(request.user, "is_owner", False))


def is_superuser(request: HttpRequest) -> bool:
    """Whether the visitor may give rights."""
    return request.user.is_active and bool(getattr(request.user, "is_superuser", False))
