"""Lists, page by page: ``limit`` and ``offset``."""

from rest_framework.pagination import LimitOffsetPagination
from rest_framework.request import Request

MOST_OF_A_PAGE = 1000
MOST_OFFSET = 2**31 - 1  # databases refuse numbers without end


class Pages(LimitOffsetPagination):
    """A page of at most MOST_OF_A_PAGE; who asks for more gets that many, and the next page."""

    max_limit = MOST_OF_A_PAGE

    def get_offset(self, request: Request) -> int:
        """Where the page begins."""
        return min(super().get_offset(request), MOST_OFFSET)
