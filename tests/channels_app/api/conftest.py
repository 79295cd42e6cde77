"""Clients of the REST API."""

from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from allowlist import keys
from core.models import User

Client = Callable[..., APIClient]


@pytest.fixture
def client() -> Client:
    """Return a client with a key of ``user``."""

    def make(user: User, *scopes: str) -> APIClient:
        _, token = keys.create(name="test", user=user, scopes=scopes or ("chat",))
        made = APIClient()
        made.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
        return made

    return make
