"""Browser sessions in the database, as Django keeps them; SESSION_ENGINE names this module."""

from datetime import timedelta

from django.conf import settings
from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session
from django.utils import timezone

RENEWED_AFTER = timedelta(days=1)


class SessionStore(db.SessionStore):
    """A session whose time begins anew when a page is opened, at most once a day."""

    def _get_session_from_db(self) -> Session | None:
        row: Session | None = super()._get_session_from_db()  # type: ignore[misc]  # not in stubs
        full = timedelta(seconds=settings.SESSION_COOKIE_AGE)
        if row is not None and row.expire_date < timezone.now() + full - RENEWED_AFTER:
            self.modified = True  # Django's middleware stores it, and sends its cookie
        return row
