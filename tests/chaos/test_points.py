"""The points where a worker dies name functions that exist: else nothing dies there."""

from functools import reduce
from importlib import import_module
from typing import Any

import pytest

from tests.chaos import worker_points
from tests.core.jobs_worker import points


@pytest.mark.parametrize(
    ("module", "path"),
    sorted({point[:2] for each in (worker_points, points) for point in each.POINTS.values()}),
)
def test_each_point_is_a_function(module: str, path: str) -> None:
    """A function that is renamed takes its deaths along, five minutes later and without a name."""
    found: Any = reduce(getattr, path.split("."), import_module(module))
    assert callable(found)
