"""Failed sign-ins, as django-axes stores them: a row for every attempted user name."""

from datetime import datetime, timedelta

from axes.models import AccessAttempt

KEPT = timedelta(days=1)


def delete_expired(*, now: datetime) -> None:
    """Delete expired rows: a lockout ends after an hour, and clients choose the names."""
    AccessAttempt.objects.filter(attempt_time__lt=now - KEPT).delete()
