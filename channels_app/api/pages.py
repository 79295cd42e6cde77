"""Pagination of lists by ``limit`` and ``offset``."""

from typing import Any

from rest_framework.exceptions import ValidationError
from rest_framework.pagination import LimitOffsetPagination
from rest_framework.request import Request

MOST_OF_A_PAGE = 1000
MOST_DIGITS = 18
MOST_OFFSET = 2**31 - 1  # databases refuse larger numbers


class Pages(LimitOffsetPagination):
    """Return at most MOST_OF_A_PAGE rows; a larger ``limit`` is reduced to that."""

    def get_limit(self, request: Request) -> int:
        asked = number_of(request, self.limit_query_param, least=1)
        return min(asked or self.default_limit or MOST_OF_A_PAGE, MOST_OF_A_PAGE)

    def get_offset(self, request: Request) -> int:
        return min(number_of(request, self.offset_query_param, least=0) or 0, MOST_OFFSET)

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        """Describe ``limit`` and ``offset`` with their ranges in the OpenAPI document."""
        found: list[dict[str, Any]] = super().get_schema_operation_parameters(view)
        for each, least in zip(found, (1, 0), strict=True):
            each["schema"] = {"type": "integer", "minimum": least}
        return found


def number_of(request: Request, name: str, *, least: int) -> int | None:
    """Return a whole number of the query; None when it is missing. Raises ValidationError."""
    given = request.query_params.getlist(name)
    for each in given:
        if not (each.isascii() and each.isdigit() and int(each[:MOST_DIGITS]) >= least):
            raise ValidationError({name: [f"must be a whole number of at least {least}."]})
    return int(given[-1][:MOST_DIGITS]) if given else None
