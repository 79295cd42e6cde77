"""How long a browser stays signed in."""

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import OperationalError, connection
from django.test import Client
from django.utils import timezone

from channels_app.asgi.session_store import SessionStore
from core.models import User

pytestmark = pytest.mark.django_db(transaction=True)
FULL = timedelta(seconds=settings.SESSION_COOKIE_AGE)


@pytest.fixture
def browser() -> Client:
    """Return a browser that is signed in."""
    made = Client()
    made.force_login(User.objects.create(username="ada"))
    return made


def opened(browser: Client, *, ends_in: timedelta, path: str = "/") -> tuple[timedelta, bool]:
    """Open a page with a session that ends then; return its time afterwards, and whether the
    browser got its cookie.
    """
    Session.objects.update(expire_date=timezone.now() + ends_in)
    answer = browser.get(path)
    row = Session.objects.first()
    left = row.expire_date - timezone.now() if row is not None else timedelta()
    cookie = answer.cookies.get(settings.SESSION_COOKIE_NAME)
    return left, cookie is not None and cookie["max-age"] == settings.SESSION_COOKIE_AGE


def test_a_session_in_use_does_not_end(browser: Client) -> None:
    """Its thirty days begin anew: people were signed out after them, and needed a new link."""
    for path in ("/", "/settings", "/chat/assistants", "/chat/sessions"):
        left, has_cookie = opened(browser, ends_in=timedelta(minutes=5), path=path)
        assert left > FULL - timedelta(minutes=1)
        assert has_cookie


def test_a_session_is_stored_at_most_once_a_day(browser: Client) -> None:
    ends_in = FULL - timedelta(hours=23)
    left, has_cookie = opened(browser, ends_in=ends_in)
    assert left < ends_in
    assert not has_cookie


def test_a_session_that_is_over_stays_so(browser: Client) -> None:
    ends_in = -timedelta(seconds=1)
    left, has_cookie = opened(browser, ends_in=ends_in)
    assert left < timedelta()
    assert not has_cookie
    assert browser.get("/").status_code in {302, 401}


def test_a_page_opens_where_the_database_takes_no_writes(browser: Client) -> None:
    """As on a full disk: it was 400, of a session that another tab had ended."""

    def refuse(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith('UPDATE "django_session"'):
            raise OperationalError("database or disk is full")
        return execute(sql, *rest)

    Session.objects.update(expire_date=timezone.now() + timedelta(days=1))
    with connection.execute_wrapper(refuse):
        assert browser.get("/").status_code == 200
    left, has_cookie = opened(browser, ends_in=timedelta(days=1))
    assert left > timedelta(days=29)
    assert has_cookie


@pytest.mark.parametrize("is_over", [True, False])
def test_a_renewal_takes_nothing_back_that_another_request_did(
    browser: Client, *, is_over: bool
) -> None:
    """It stored the whole session, as it had been read."""
    Session.objects.update(expire_date=timezone.now() + timedelta(days=1))
    key = browser.cookies[settings.SESSION_COOKIE_NAME].value
    renewed, other = SessionStore(key), SessionStore(key)
    assert not renewed.is_empty()
    assert renewed.get("_auth_user_id")
    if is_over:
        other.flush()
    else:
        other["colour"] = "dark"
        other.save()
    renewed.save()
    assert SessionStore(key).get("colour") == (None if is_over else "dark")
    assert Session.objects.count() == (0 if is_over else 1)


def test_changes_of_a_page_are_stored_with_the_renewal(browser: Client) -> None:
    Session.objects.update(expire_date=timezone.now() + timedelta(days=1))
    key = browser.cookies[settings.SESSION_COOKIE_NAME].value
    renewed = SessionStore(key)
    renewed["colour"] = "dark"
    renewed.cycle_key()
    renewed.save()
    assert SessionStore(renewed.session_key).get("colour") == "dark"
    assert not Session.objects.filter(pk=key).exists()
