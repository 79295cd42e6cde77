"""The person of a Django session."""

from importlib import import_module

from django.conf import settings
from django.contrib.auth import (
    BACKEND_SESSION_KEY,
    HASH_SESSION_KEY,
    SESSION_KEY,
    load_backend,
)
from django.contrib.sessions.backends.base import SessionBase
from django.core.exceptions import ValidationError
from django.utils.crypto import constant_time_compare

from core.models import User


def stored_session(session_key: str) -> SessionBase:
    """Return a Django session by its key; it is read when it is first used."""
    store: type[SessionBase] = import_module(settings.SESSION_ENGINE).SessionStore
    return store(session_key)


def user_of_session(session_key: str) -> User | None:
    """Return the active user of a Django session; None without one.

    Changes nothing. Django's ``get_user`` gives a session that was signed with an earlier
    SECRET_KEY a new key, and ends one whose signature is wrong; here no response could set the
    cookie of the new key.
    """
    store = stored_session(session_key)
    try:
        user_id = User._meta.pk.to_python(store[SESSION_KEY])
        backend = store[BACKEND_SESSION_KEY]
        signature = store[HASH_SESSION_KEY]
    except (KeyError, ValidationError):
        return None
    if backend not in settings.AUTHENTICATION_BACKENDS:
        return None
    user = load_backend(backend).get_user(user_id)
    if not isinstance(user, User) or not user.is_active:
        return None
    valid = [user.get_session_auth_hash(), *user.get_session_auth_fallback_hash()]
    return user if any(constant_time_compare(signature, each) for each in valid) else None
