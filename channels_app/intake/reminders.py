"""``/timezone``, and who may use ``/reminders``: listed people, for their own schedules."""

from datetime import datetime

from django.utils.translation import gettext_noop

from channels_app.schedules import lists
from core.conversations.schedules import rules, zones
from core.models import Schedule, User
from core.tools import phrases

NOT_LISTED = gettext_noop("Reminders are for listed people: ask the owner to add this address.")
ZONE = "Your time zone is {0}."
NO_ZONE = "Your time zone is not known yet."
HOW = "To change it, write /timezone and a city or a name such as Europe/Berlin."
KEPT = "Reminders that exist keep their time zone."
WHICH = "Which one? {0}"
LIKE = "I do not know this time zone. Did you mean {0}?"
UNKNOWN = "I do not know this time zone."


def time_zone(user: User, wanted: str, *, now: datetime) -> str:
    """Return the person's time zone with the time there, or set it to ``wanted``."""
    if not wanted:
        here = ZONE.format(with_time(user.time_zone, now)) if user.time_zone else NO_ZONE
        return said(user, here, HOW)
    found = rules.find_zones(wanted)
    if len(found) > 1:
        return said(user, WHICH.format(", ".join(found)))
    try:
        name = rules.zone_named(found[0] if found else wanted).key
    except rules.RuleError:
        close = zones.close_to(wanted)
        return said(user, *([LIKE.format(", ".join(close))] if close else [UNKNOWN, HOW]))
    User.objects.filter(pk=user.pk).update(time_zone=name)
    others = Schedule.objects.filter(user=user).exclude(state=Schedule.State.ENDED)
    kept = [KEPT] if others.exclude(time_zone=name).exists() else []
    return said(user, ZONE.format(with_time(name, now)), *kept)


def with_time(name: str, now: datetime) -> str:
    """Return a time zone with its present time, if this machine knows the zone."""
    try:
        return f"{name} ({now.astimezone(rules.zone_named(name)):%H:%M})"
    except rules.RuleError:
        return name


def said(user: User, *sentences: str) -> str:
    """Return sentences in the person's language."""
    language = lists.language_of(user)
    return " ".join(phrases.in_language(each, language) for each in sentences)
