"""The person of a Django session."""

from importlib import import_module
from types import SimpleNamespace
from typing import cast

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest

from core.models import User


def user_of_session(session_key: str) -> User | None:
    """Return the active user of a Django session; None without one."""
    store = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = get_user(cast("HttpRequest", SimpleNamespace(session=store)))
    return user if user.is_authenticated and user.is_active else None
