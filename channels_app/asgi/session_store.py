"""Browser sessions in the database, as Django keeps them; SESSION_ENGINE names this module."""

import logging
from datetime import timedelta

from django.conf import settings
from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session
from django.db import Error
from django.utils import timezone

logger = logging.getLogger(__name__)
RENEWED_AFTER = timedelta(days=1)


class SessionStore(db.SessionStore):
    """A session whose time begins anew when a page is opened, at most once a day."""

    renewed: Session | None = None

    def _get_session_from_db(self) -> Session | None:
        row: Session | None = super()._get_session_from_db()  # type: ignore[misc]  # not in stubs
        full = timedelta(seconds=settings.SESSION_COOKIE_AGE)
        if row is not None and row.expire_date < timezone.now() + full - RENEWED_AFTER:
            self.renewed = row
            self.modified = True  # Django's middleware saves it, and sends its cookie
        return row

    def save(self, must_create: bool = False) -> None:  # noqa: FBT001, FBT002 - as Django's
        """Save a session; of one with the same data as before only the time, so that what another
        request has changed stays. Where the database refuses that, a later page does it.
        """
        row = self.renewed
        is_same = row is not None and row.session_key == self.session_key and not must_create
        if row is None or not is_same or self.decode(row.session_data) != dict(self.items()):
            super().save(must_create)
            return
        try:
            Session.objects.filter(pk=row.pk).update(expire_date=self.get_expiry_date())
        except Error as error:
            logger.warning("a browser's session could not be renewed: %r", error)
