"""Shared parts of the admin's pages: typed bases, and the display of untrusted texts.

Texts reach a page through templates only, which escape them; no HTML is built in Python.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from django.contrib.admin import display
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.db.models.expressions import Combinable
from django.forms import Form
from django.forms.utils import pretty_name
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import URLPattern, path
from django.utils.safestring import SafeString
from django.utils.text import capfirst

from core.admin.bounded import BoundedChangeList, ListedChangeList
from core.database import transactions
from core.lib.text import is_number
from core.lib.text import visible as visible
from core.lib.text import visible_line as visible_line

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin as _ModelAdmin
    from django.contrib.admin import TabularInline as _TabularInline
    from django.forms import BaseInlineFormSet
    from django.forms import ModelForm as ModelForm

    _FormSet = BaseInlineFormSet[Any, Any, Any]
else:
    from django.forms import BaseInlineFormSet as _FormSet
    from django.forms import ModelForm as _DjangoForm
    from unfold.admin import ModelAdmin as _UnfoldAdmin
    from unfold.admin import TabularInline as _UnfoldInline

    class _Typed:
        """Accepts the type parameter of the stubs, which Django's classes do not at run time."""

        def __class_getitem__(cls, _: object) -> type:
            """Return the class itself."""
            return cls

    class _ModelAdmin(_Typed, _UnfoldAdmin):
        """unfold's class with a type parameter."""

    class _TabularInline(_Typed, _UnfoldInline):
        """unfold's inline with a type parameter."""

    class ModelForm(_Typed, _DjangoForm):
        """A model form with a type parameter."""


M = TypeVar("M", bound=Model)
P = TypeVar("P", bound=Model)
CHANGED_ELSEWHERE = (
    "These rows were changed elsewhere since this page was opened. Open it again to change them."
)
# A number that no other advisory lock uses: "forms" in ASCII.
FORMS_LOCK = 0x666F726D73


class ThemedAdmin(_ModelAdmin[M], Generic[M]):
    """An admin page that stays fast on large tables.

    ``newest_by``: the column or expression, with an index, by which the list is cut into windows;
    None for a table that stays small. ``public_ids``: where a public id that is searched for may
    stand; rows with it are found in any window. ``searches_all``: whether a search reads all rows.
    ``pages``: more pages, each with its address; ``test`` is the view ``test_view``.
    """

    list_per_page = 50
    show_full_result_count = False
    list_filter_submit = False
    empty_value_display = "–"
    list_after_template = "dashboard/older_rows.html"
    newest_by: Combinable | None = None
    public_ids: tuple[str, ...] = ()
    searches_all = False
    pages: Mapping[str, str] = {}

    def get_urls(self) -> list[URLPattern]:
        """Add :attr:`pages`; their names begin as those of Django's own pages of the table."""
        wrap, prefix = self.admin_site.admin_view, f"{self.opts.app_label}_{self.opts.model_name}"
        found = [
            path(address, wrap(getattr(self, f"{name}_view")), name=f"{prefix}_{name}")
            for name, address in self.pages.items()
        ]
        return [*found, *super().get_urls()]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        """Return the class of the list."""
        return BoundedChangeList if self.newest_by else ListedChangeList

    def listed(self, rows: list[M]) -> list[M]:
        """Return the rows of one page of the list, with what else it shows."""
        return rows

    def changeform_view(self, request: HttpRequest, *rest: Any, **named: Any) -> HttpResponse:
        """Show a row's form, or store it within :meth:`around_form` and :meth:`changing`."""
        if request.method != "POST":
            return super().changeform_view(request, *rest, **named)
        with self.around_form(request), self.changing(request):
            return super().changeform_view(request, *rest, **named)

    def delete_view(self, request: HttpRequest, *rest: Any, **named: Any) -> HttpResponse:
        """Ask about a deletion, or delete within :meth:`changing`."""
        with self.changing(request) if request.method == "POST" else nullcontext():
            return super().delete_view(request, *rest, **named)

    @contextmanager
    def around_form(self, request: HttpRequest) -> Iterator[None]:
        """Do what takes long, as asking another server, before a posted form has the write lock,
        and after it was given back: no writer waits for it.
        """
        yield

    @contextmanager
    def changing(self, request: HttpRequest) -> Iterator[None]:
        """Begin a write of the gateway around Django's transaction, so that on SQLite it waits in
        the queue of writers, and take the lock of all forms: of one that is posted twice at once
        the second is checked when the first is stored.
        """
        with transactions.atomic_write():
            transactions.lock_until_commit(FORMS_LOCK)
            yield


class ChangedFieldsOnly:
    """Mixin of a model form that stores the fields of which the page showed another value; changes
    that others have made since then stay. A new row, and a form that was sent without those values,
    store all. ``at_once``: fields that are all stored when one of them is changed.
    """

    at_once: frozenset[str] = frozenset()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        form: Any = self
        told = not form.is_bound or any(
            form.add_initial_prefix(f) in form.data for f in form.fields
        )
        for field in form.fields.values():
            field.show_hidden_initial = told
        if form.is_bound and told:
            # Of an empty choice of several a page tells nothing: shown again with an error, it
            # would tell what was sent.
            form.data = form.data.copy()
            for name in map(form.add_initial_prefix, form.fields):
                form.data.setlistdefault(name)

    def as_stored(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the values that the row will have: the page's, where it changes them."""
        form: Any = self
        if form.instance.pk is None:
            return data
        kept = data.keys() & form.initial.keys() - self._stored()
        return {**data, **{name: form.initial[name] for name in kept}}

    def _stored(self) -> set[str]:
        changed: set[str] = set(self.changed_data)  # type: ignore[attr-defined]  # a form's
        return changed | (self.at_once if changed & self.at_once else set())

    def _post_clean(self) -> None:
        form: Any = self
        unchanged = set(form.cleaned_data) - self._stored()
        for name in unchanged if form.instance.pk is not None else ():
            del form.cleaned_data[name]
        super()._post_clean()  # type: ignore[misc]  # a mixin of ModelForm


class RowsFormSet(_FormSet):
    """Rows of another table. Of a page that was opened a while ago, those stay as they are now that
    it does not change, and a change of rows that are gone is refused.
    """

    def add_fields(self, form: Any, index: int | None) -> None:
        """Let the page tell the values that it showed."""
        is_shown = index is not None and index < self.initial_form_count()
        if is_shown and not isinstance(form, ChangedFieldsOnly):
            for field in form.fields.values():
                field.show_hidden_initial = True
        super().add_fields(form, index)

    def get_queryset(self) -> Any:
        """Return the rows; once the forms of a sent page are made, theirs: the admin shows both
        side by side, and a row that is gone would shift those behind it.
        """
        if self.is_bound and "forms" in vars(self):
            return [form.instance for form in self.initial_forms]
        return super().get_queryset()

    def old_forms(self) -> list[Any]:
        """Return the forms whose rows are no longer those that the page showed."""
        return [form for form in self.initial_forms if form.instance.pk is None]

    def clean(self) -> None:
        super().clean()
        changed = False
        for form in self.old_forms():
            if is_changed(form):
                changed = True
                form.errors.pop("id", None)  # of a field that is not seen
            else:
                form.errors.clear()  # also of what it names, such as an account that is gone, too
        if changed:
            raise ValidationError(CHANGED_ELSEWHERE)


def is_changed(form: Any) -> bool:
    """Return whether the page changes a row. The values are compared as they were sent: Django
    takes a choice that is gone for a change.
    """
    for name in {*form.changed_data} - {"id"}:
        field = form[name]
        hidden = field.field.hidden_widget()
        was = hidden.value_from_datadict(form.data, form.files, field.html_initial_name)
        if field.data != was:
            return True
    return False


class ThemedInline(_TabularInline[M, P], Generic[M, P]):
    """Rows of another table on a page."""

    extra = 0
    formset = RowsFormSet

    def get_formset(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        """Return the class of the rows' forms; each field has its column's name for readers of
        screens, who hear no column."""
        formset = super().get_formset(request, obj, **kwargs)
        for name, field in formset.form.base_fields.items():
            label = capfirst(field.label or pretty_name(name))
            widget = getattr(field.widget, "widget", field.widget)
            if widget is not None:
                widget.attrs.setdefault("aria-label", label)
        return formset


class PlainForm(Form):
    """A form of a page of our own: its inputs have the look of the dashboard."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget.attrs["class"] = "dashboard-input"


class ReadOnlyAdmin(ThemedAdmin[M], Generic[M]):
    actions: Any = ()

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        return False

    def has_act_permission(self, request: HttpRequest) -> bool:
        """Return whether the actions of this list are allowed: as its rows could be changed."""
        return request.user.has_perm(f"{self.opts.app_label}.change_{self.opts.model_name}")


class ExtraContext:
    """Mixin: more template context for the page of one row: ``dashboard``, with the row itself."""

    if TYPE_CHECKING:

        def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
            """Return what the template of this page shows besides the fields."""

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Add that context to Django's view, which answers itself where there is no such row."""
        extra = dict(extra_context or {})
        if object_id is not None and is_number(object_id):
            rows = self.get_queryset(request)  # type: ignore[attr-defined]
            if row := rows.filter(pk=int(object_id)).first():
                extra["dashboard"] = {"row": row, **self.page_context(request, row)}
        view: HttpResponse = super().changeform_view(  # type: ignore[misc]  # a mixin of ModelAdmin
            request, object_id, form_url, extra
        )
        return view


def shown(field: str, *, limit: int = 200) -> Callable[[Any, Any], str]:
    """Return an admin method that shows ``field`` on one line, invisible characters as codes."""

    @display(description=field.replace("_", " "), ordering=field)
    def show(_: Any, row: Any) -> str:
        return visible_line(str(getattr(row, field)), limit)

    return show


def annotated(description: str) -> Callable[[Any, Any], int]:
    """Return an admin method that shows the annotation ``number``."""

    @display(description=description)
    def show(_: Any, row: Any) -> int:
        return int(getattr(row, "number", 0))

    return show


def shown_state(
    field: str = "state", colours: Mapping[Any, str] | None = None
) -> Callable[[Any, Any], SafeString]:
    """Return an admin method that shows a state as a label, coloured like ``colours[state]``."""

    @display(description=field, ordering=field)
    def show(_: Any, row: Any) -> SafeString:
        state = getattr(row, field)
        return state_badge((colours or {}).get(state, state), state)

    return show


def badge(text: str, colour: str = "base") -> SafeString:
    """Return a coloured label. ``colour``: base, info, success, warning, danger."""
    return render_to_string("dashboard/badge.html", {"text": text, "colour": colour})


def state_badge(state: str, label: str = "") -> SafeString:
    """Return the state of a row as a label in the colour of that state."""
    return badge(label or state, STATE_COLOURS.get(state, "base"))


STATE_COLOURS = {
    "pending": "warning",
    "held": "warning",
    "queued": "info",
    "received": "info",
    "batched": "info",
    "running": "info",
    "sending": "info",
    "starting": "info",
    "approved": "success",
    "succeeded": "success",
    "answered": "success",
    "sent": "success",
    "blocked": "danger",
    "failed": "danger",
    "dead": "danger",
    "uncertain": "danger",
    "quarantined": "danger",
    "error": "danger",
}


def chosen(queryset: QuerySet[M]) -> Iterable[int]:
    """Return the primary keys of the rows selected for an action, in order."""
    keys: Iterable[int] = queryset.order_by("pk").values_list("pk", flat=True)
    return keys
