"""How long a browser stays signed in."""

from datetime import timedelta

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

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
    for path in ("/", "/settings"):
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
