"""The first owner in a browser, on an installation in which nothing is set up."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from channels_app.asgi import builtin_accounts
from core.database import transactions
from core.models import User
from core.providers import listing

HOST = "testserver"


@pytest.fixture(autouse=True)
def new_installation(
    settings: Any, monkeypatch: pytest.MonkeyPatch, transactional_db: None
) -> Iterator[None]:
    """The embedded model answers, and no Ollama runs on this machine."""
    settings.LLM_PROVIDER = "openai-compatible"
    settings.LLM_BASE_URL = "http://127.0.0.1:9/v1"
    settings.LLM_IS_EMBEDDED = True
    monkeypatch.setattr(listing, "OWN_MACHINE", "127.0.0.1:9")
    monkeypatch.delenv("OLLAMA_HOST", raising=False)
    builtin_accounts.accounts.clear()
    yield
    builtin_accounts.accounts.clear()
    transactions.close_pool()


def person(name: str, **fields: Any) -> User:
    """Create a user who may sign in."""
    user = User(username=name, **fields)
    user.set_password("correct horse")
    user.save()
    return user


@pytest.fixture
def owner(new_installation: None) -> User:
    """Return the owner as ``manage.py up`` makes one."""
    return person("owner", is_owner=True, is_staff=True, is_superuser=True)


@pytest.fixture
def page(owner: User) -> Client:
    """Return a browser in which the owner is signed in."""
    client = Client(HTTP_HOST=HOST)
    client.force_login(owner)
    return client
