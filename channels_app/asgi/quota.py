"""A user's file quota as an HTTP error: 413."""

from collections.abc import Iterator
from contextlib import contextmanager

from channels_app.asgi.http import RefusedError
from core.files import quota


@contextmanager
def needed(*, field: str = "") -> Iterator[None]:
    """Convert an exceeded quota inside the block to RefusedError 413 that names ``field``."""
    try:
        yield
    except quota.QuotaExceededError as error:
        raise RefusedError(413, error.args[0], field=field) from error


def check(*, user_id: int, size: int, number: int = 1, field: str = "") -> None:
    """Check whether the user may store so much more. Raises RefusedError 413."""
    with needed(field=field):
        quota.check(user_id=user_id, size=size, number=number)
