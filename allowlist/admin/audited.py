"""Admin pages whose changes are audited, and the page of a secret that is shown once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from allowlist import audit
from core.admin.base import ThemedAdmin, visible_line
from core.database import counting, dependents
from core.database.transactions import atomic_write
from core.models import Assistant, User
from core.tools.mcp import servers

M = TypeVar("M", bound=Model)
COUNTED_STEPS = 2
# The attribute of a request with what is to be written to the audit at the end.
WAITING = "_audit_rows"


class AuditedAdmin(ThemedAdmin[M], Generic[M]):
    """Write additions, changes and deletions to the audit, with before and after.

    Secrets stay out of it: they are no attributes of the row under their form's names. The rows of
    a form are written last in its transaction, however early they are recorded: the audit has one
    lock, which others take after those of what they change. ``recorded_sets``: fields with rows of
    other tables, which are recorded too.
    """

    recorded_sets: tuple[str, ...] = ()

    @contextmanager
    def changing(self, request: HttpRequest) -> Iterator[None]:
        """Write what is recorded meanwhile behind the other changes."""
        with super().changing(request):
            waiting: list[Callable[[], object]] = []
            setattr(request, WAITING, waiting)
            try:
                yield
            finally:
                delattr(request, WAITING)
            for write in waiting:
                write()

    def save_model(self, request: HttpRequest, obj: M, form: Any, change: Any) -> None:
        """Save and record the changed fields. The signature is Django's."""
        before = type(obj)._default_manager.filter(pk=obj.pk).first() if change else None
        super().save_model(request, obj, form, change)
        changed: dict[str, object] = {
            name: [getattr(each, name, None) for each in (before, obj)]
            for name in form.changed_data
            if hasattr(obj, name) and not hasattr(getattr(obj, name), "all")
        }
        self.record(request, "changed" if change else "added", obj, changed)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: Any) -> None:
        """Record changes of what is in other tables: ``assistants_set``, ``people_set``."""
        super().save_related(request, form, formsets, change)
        for name in self.recorded_sets:
            if name in form.changed_data:
                chosen = sorted(str(each) for each in form.cleaned_data[name])
                self.record(request, f"{name}_set", form.instance, {name: chosen})

    def delete_model(self, request: HttpRequest, obj: M) -> None:
        self.record(request, "deleted", obj, {})
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[M]) -> None:
        """Delete row by row, so that each is recorded and its effects are carried out."""
        for obj in queryset.order_by("pk"):
            with self.changing(request):
                self.delete_model(request, obj)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Count what is deleted with ``objs``, and name what of it the user may not delete. Rows
        more than COUNTED_STEPS away, as the events of an account's runs, go uncounted: there may be
        millions.

        Django's own reads every row. No foreign key of ours is protected: see :meth:`protected`.
        """
        names = [f"{obj._meta.verbose_name}: {obj}" for obj in objs]
        counts = {self.opts.verbose_name_plural: len(names)}
        counted = [each for each in dependents.of(self.model) if each.steps <= COUNTED_STEPS]
        numbers = counting.numbers([each.rows(list(objs)) for each in counted])
        for each, number in zip(counted, numbers, strict=True):
            if number:
                counts[each.model._meta.verbose_name_plural] = number
        return names, counts, self.forbidden(objs, request), self.protected(list(objs))

    def protected(self, rows: list[M]) -> list[str]:
        """Return what would be lost with ``rows`` and must stay, as texts."""
        return []

    def forbidden(self, objs: Any, request: HttpRequest) -> set[str]:
        """Return what the user may not delete of ``objs`` and their dependents, by kind."""
        if is_superuser(request):
            return set()
        found = {
            str(each.model._meta.verbose_name)
            for each in dependents.of(self.model)
            if not self.may_delete_all_of(each.model, request) and each.rows(list(objs)).exists()
        }
        if not all(self.has_delete_permission(request, obj) for obj in objs):
            found.add(str(self.opts.verbose_name))
        return found

    def may_delete_all_of(self, model: type[Model], request: HttpRequest) -> bool:
        """Return whether the user may delete rows of a table; of one without a page all may."""
        if not self.admin_site.is_registered(model):
            return True
        return bool(self.admin_site.get_model_admin(model).has_delete_permission(request))

    def record(
        self, request: HttpRequest, action: str, obj: Model, data: dict[str, object]
    ) -> None:
        """Write an audit row about ``obj``, in the transaction of the admin's view."""
        write = audit.about(obj, action, by=request.user, data=data, now=timezone.now())
        waiting: list[Callable[[], object]] | None = getattr(request, WAITING, None)
        if waiting is None:
            write()
        else:
            waiting.append(write)


class DeletedInParts(AuditedAdmin[M], Generic[M]):
    """Rows with which much may go, after years: it goes in short transactions, and then the row.

    A deletion that was cut off is repeated by its user; the row is there, and :meth:`stop` has
    made it unusable.
    """

    def stop(self, obj: M) -> None:
        """End what uses a row that will be deleted."""
        raise NotImplementedError

    def remove_before(self, request: HttpRequest, obj: M) -> None:
        with atomic_write():
            self.stop(obj)
            self.record(request, "deletion_begun", obj, {})
        dependents.remove_before(obj)

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Remove what goes with the row before Django's view, for users who may delete it all."""
        obj = self.get_object(request, unquote(object_id)) if request.POST else None
        if (
            obj is not None
            and self.has_delete_permission(request, obj)
            and not self.forbidden([obj], request)
        ):
            self.remove_before(request, obj)
        return super().delete_view(request, object_id, extra_context)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[M]) -> None:
        for obj in queryset.order_by("pk"):
            self.remove_before(request, obj)
            with self.changing(request):
                self.delete_model(request, obj)


def disable_servers_of(
    page: AuditedAdmin[Any], request: HttpRequest, row: User | Assistant
) -> None:
    """Disable the MCP servers that only a row may use which is to be deleted, and say so."""
    with atomic_write(joins=True):
        disabled = servers.disable_without(row)
        for server in disabled:
            page.record(request, "changed", server, {"enabled": [True, False]})
    for server in disabled:
        words = (
            f"The MCP server {server} was disabled: only {visible_line(str(row), 60)} could use it."
        )
        messages.warning(request, words)


def shown_once(
    page: ThemedAdmin[Any], request: HttpRequest, title: str, secret: str, obj: Model
) -> HttpResponse:
    """Return the page of a secret that is never shown again."""
    context = page.admin_site.each_context(request) | {
        "title": title,
        "secret": secret,
        "back": reverse(f"admin:{obj._meta.label_lower.replace('.', '_')}_changelist"),
    }
    response = TemplateResponse(request, "dashboard/secret_once.html", context)
    response.headers["Cache-Control"] = "no-store"
    return response


def decides(request: HttpRequest) -> bool:
    """Return whether the user decides about access: an owner, or a superuser ([A6]).

    The permission to change users or accounts is not enough: with an open list, another identity or
    another webhook secret its holder could speak as any user (decision 176).
    """
    return is_superuser(request) or bool(getattr(request.user, "is_owner", False))


class OnlyDeciders:
    """Mixin: only users who decide about access add, change or delete rows ([A6])."""

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return super().has_add_permission(request, *args) and decides(request)  # type: ignore[misc]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and decides(request)  # type: ignore[misc]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and decides(request)  # type: ignore[misc]

    def may_edit(self, request: HttpRequest, obj: Any) -> bool:
        """Return whether the page of a row, or of a new one (None), is a form for the user."""
        if obj is None:
            return self.has_add_permission(request)
        return self.has_change_permission(request, obj)


def is_superuser(request: HttpRequest) -> bool:
    """Return whether the user may grant permissions."""
    return request.user.is_active and bool(getattr(request.user, "is_superuser", False))
