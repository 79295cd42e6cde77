"""Acts between the statements of code: another process, or a failure of the database."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection


@contextmanager
def before_each(part: str, act: Callable[[], object]) -> Iterator[list[str]]:
    """Act before each statement with this part; yields these statements."""
    found: list[str] = []
    is_acting = False

    def wrapper(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        nonlocal is_acting
        if part in sql and not is_acting:
            found.append(sql)
            is_acting = True
            try:
                act()
            finally:
                is_acting = False
        return execute(sql, params, many, context)

    with connection.execute_wrapper(wrapper):
        yield found
