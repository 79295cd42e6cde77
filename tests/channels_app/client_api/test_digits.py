"""Numbers in addresses and headers, which may be any text."""

from collections.abc import Callable
from functools import partial

import pytest

from channels_app.asgi.http import RefusedError
from channels_app.client_api.anthropic.endpoints import limit_of
from channels_app.client_api.run_endpoint import number_of

EVENT = partial(number_of, field="starting_after")


@pytest.mark.parametrize("given", ["9" * 5000, "0" * 9 + "9" * 5000, "-1", "\u0661", "1.5", "x"])
@pytest.mark.parametrize(("read", "field"), [(EVENT, "starting_after"), (limit_of, "limit")])
def test_a_value_that_is_no_number_is_refused_by_name(
    read: Callable[[str], int], field: str, given: str
) -> None:
    """However many digits it has: Python converts at most 4300."""
    with pytest.raises(RefusedError) as caught:
        read(given)
    assert (caught.value.status, caught.value.field) == (400, field)


def test_the_largest_numbers_are_read() -> None:
    """The usual ones where there is none."""
    assert [EVENT(""), EVENT("7"), EVENT(str(2**53 - 1))] == [0, 7, 2**53 - 1]
    assert [limit_of(""), limit_of("1"), limit_of("1000")] == [20, 1, 1000]
