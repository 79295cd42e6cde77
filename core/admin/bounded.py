"""Lists of the admin that read a bounded number of rows, however many the table has.

A list shows the newest WINDOW rows; its filters, search, order and count are about those. A link
below it leads to the rows before them.
"""

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import F, Q, QuerySet
from django.http import HttpRequest
from django.utils.dateparse import parse_datetime
from django.utils.timezone import is_naive

from core.lib.ids import is_public_id
from core.lib.read_once import read_once
from core.lib.text import is_number

if TYPE_CHECKING:
    from django.contrib.admin.views.main import ChangeList as _ChangeList
else:
    from unfold.views import ChangeList as _ChangeList

WINDOW = 5000
UNTIL = "until"


class ListedChangeList(_ChangeList):
    """A list whose page adds to the rows that are shown.

    Its head has "3 results (Show all)" where ``full_result_count`` is another number: only where
    something is filtered, since all rows are never counted.
    """

    def get_query_string(self, new_params: Any = None, remove: Any = None) -> str:
        """Return the query string of a link, made once: unfold asks for those of the head of the
        table again for each row."""
        make = partial(super().get_query_string, new_params, remove)
        return read_once(self, f"?{new_params} {remove}", make)

    def get_results(self, request: HttpRequest) -> None:
        """Let the page add to the rows."""
        super().get_results(request)
        if not (self.query or self.has_active_filters):
            self.full_result_count = self.result_count
        self.result_list = self.model_admin.listed(list(self.result_list))  # type: ignore[attr-defined]


class BoundedChangeList(ListedChangeList):
    """A list of the newest rows by ``newest_by`` of its page; ``?until=`` begins it further back.

    ``older``: the query string of the rows before; empty when there are none.
    """

    older = ""
    _is_bounded = False

    def get_filters_params(self, params: Any = None) -> Any:
        """Leave ``until`` to this class."""
        found = super().get_filters_params(params)
        found.pop(UNTIL, None)
        return found

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        """Filter the rows of the window; rows with the public id searched for may be older."""
        page: Any = self.model_admin
        if not self._is_bounded:
            self._is_bounded = True
            named = with_public_id(self.root_queryset, self.query, page.public_ids)
            if named is not None:
                self.root_queryset = named
            elif not (self.query and page.searches_all):
                # Rows may have come since the page of an action was shown.
                most = WINDOW * 2 if request.method == "POST" else WINDOW
                self.root_queryset = self._newest(request.GET.get(UNTIL, ""), page.newest_by, most)
        return super().get_queryset(request, exclude_parameters)

    def _newest(self, until: str, by: Any, most: int) -> QuerySet[Any]:
        """Return the newest rows up to ``until``, and note where the older ones begin."""
        rows: QuerySet[Any] = self.root_queryset.alias(moment=by)
        last = parsed(until, by)
        if last is not None:
            rows = rows.filter(moment__lte=last)
        before = rows.order_by(by.desc()).values_list(by, flat=True)
        edge = next(iter(before[most : most + 1]), None)
        if edge is None:
            return rows
        shown = edge.isoformat() if isinstance(edge, datetime) else str(edge)
        self.older = self.get_query_string({UNTIL: shown})
        return rows.filter(moment__gt=edge)


def parsed(until: str, by: Any) -> int | datetime | None:
    """Return ``until`` as a value of the column or expression ``by``; None for anything else."""
    if by == F("pk"):
        return int(until) if is_number(until) else None
    try:
        found = parse_datetime(until)
        # In UTC the year may be below 1 or above 9999, where no database finds rows.
        return None if found is None or is_naive(found) else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def with_public_id(rows: QuerySet[Any], words: str, paths: tuple[str, ...]) -> QuerySet[Any] | None:
    """Return the rows with this public id at one of ``paths``, or None when there are none."""
    if not (paths and is_public_id(words)):
        return None
    either = Q()
    for path in paths:
        relation, _, name = path.rpartition("__")
        if relation:
            related = rows.model._meta.get_field(relation).related_model
            ids = related._default_manager.filter(**{name: words}).values_list("pk", flat=True)
            either |= Q(**{f"{relation}__in": list(ids)})
        else:
            either |= Q(**{name: words})
    found = rows.filter(either)
    return found if found.exists() else None


class NewestValuesFilter(admin.AllValuesFieldListFilter):
    """Filter by a value of a column that one of the newest WINDOW rows has."""

    def __init__(
        self, field: Any, request: HttpRequest, params: Any, model: Any, *rest: Any, **path: Any
    ) -> None:
        """Take what Django gives a filter of a field."""
        super().__init__(field, request, params, model, *rest, **path)
        newest = model._default_manager.order_by("-pk").values_list(field.name, flat=True)
        self.lookup_choices: Any = sorted(set(newest[:WINDOW]))
