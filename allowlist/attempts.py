"""Sign-ins that failed, as django-axes keeps them: a row for every name that somebody tries."""

from datetime import datetime, timedelta

from axes.models import AccessAttempt

KEPT = timedelta(days=1)


def forget(*, now: datetime) -> None:
    """Drop what counts no more: a lockout ends after an hour, and strangers choose the names."""
    AccessAttempt.objects.filter(attempt_time__lt=now - KEPT).delete()
