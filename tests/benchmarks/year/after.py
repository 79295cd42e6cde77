"""A year in a gateway: made, looked at, cut by retention, and a second one after it.

``python -m tests.benchmarks.year.after STEP …`` in the environment of a gateway does one step and
prints what it found as JSON: ``begin SCALE`` or ``fill SCALE``, ``pages TIMES``, ``second SCALE``.
"""

import json
import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

if __name__ == "__main__":
    import django

    os.environ["DJANGO_SETTINGS_MODULE"] = "gateway_project.settings"
    django.setup()

from django.apps import apps
from django.conf import settings
from django.db import connection
from django.db.models import Count
from django.test import Client
from django.test.utils import setup_test_environment, teardown_test_environment
from django.utils import timezone

from allowlist import keys
from allowlist.models import ApiKey
from channels_app.worker import retention
from core.conversations import usage_reports
from core.conversations.schedules import retention as occurrences
from core.files import cleanup, storage
from core.models import (
    Assistant,
    ChannelAccount,
    ChatSession,
    Delivery,
    Message,
    RetentionRule,
    Run,
    User,
)
from tests.benchmarks.year import installation, pages, rows
from tests.benchmarks.year.installation import Installed
from tests.benchmarks.year.rows import DAYS, Scale, Year

Kind = RetentionRule.Kind
# Half of a year's messages are old at its end.
RULES = {
    Kind.MESSAGES: 180,
    Kind.EVENTS: 30,
    Kind.FILES: 180,
    Kind.DELIVERIES: 90,
    Kind.AUDIT: 180,
    Kind.CALLS: 90,
    Kind.USAGE: 180,
    Kind.CONVERSATIONS: 180,
}
MOST_SET_UP = 20


def fill(scale: Scale, *, now: datetime) -> None:
    """Fill an empty gateway with a year that ends now; its workers have kept up with it."""
    add(installation.install(), scale, now=now)
    remove_old(now=now)


def add(installed: Installed, scale: Scale, *, now: datetime) -> None:
    """Add people, what the owner sets up for them, and a year that ends now."""
    people = begin(installed, scale, now=now)
    rows.fill(Year(scale, now, installed.accounts, [installed.owner, *people], dice(now)))


def begin(installed: Installed, scale: Scale, *, now: datetime) -> list[User]:
    """Add people, and what the owner sets up for them; return the people."""
    people = rows.people_of(scale, now=now)
    begun = Assistant.objects.filter(slug__startswith="helper-").count()
    numbers = range(begun, min(MOST_SET_UP, begun + len(people) // 2))
    installation.set_up(installed, people, numbers=numbers, now=now)
    return people


def again(scale: Scale, *, now: datetime) -> datetime:
    """Add the year after ``now``, of the same people; return its end."""
    end = now + timedelta(days=DAYS)
    others = User.objects.filter(username__startswith="person-")
    accounts = {each.channel: each for each in ChannelAccount.objects.all()}
    people = [User.objects.get(username="ada"), *others]
    rows.fill(Year(scale, end, accounts, people, dice(end)))
    return end


def dice(end: datetime) -> random.Random:
    """Return the same chances for each run."""
    return random.Random(end.year)


def keep_half() -> None:
    """Make the rules for everyone by which about half of a year's messages goes."""
    for kind, days in RULES.items():
        RetentionRule.objects.create(kind=kind, days=days)


def remove_old(*, now: datetime) -> dict[str, int]:
    """Do what workers do in time: sums of usage, folding, retention, removal of occurrences and
    files.
    """
    while usage_reports.roll_up(now=now):
        pass
    found: Counter[str] = Counter()
    for counts in chain(retention.everything(now=now), retention.remove(now=now)):
        found.update(counts)
    while occurrences.purge(now=now):
        pass
    cleanup.purge(now=now)
    return found


def numbers() -> dict[str, int]:
    """Return the number of rows of each table."""
    found = {
        each._meta.db_table: each._default_manager.count()
        for each in apps.get_models()
        if each._meta.managed
    }
    return {name: number for name, number in found.items() if number}


def size() -> dict[str, int]:
    """Return the bytes of the database, with nothing in its log, and of the files."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            cursor.fetchall()
            cursor.execute("PRAGMA page_count")
            held = int(cursor.fetchone()[0])
            cursor.execute("PRAGMA freelist_count")
            free = int(cursor.fetchone()[0])
            cursor.execute("PRAGMA page_size")
            page = int(cursor.fetchone()[0])
            found = {"database": held * page, "free pages": free * page}
        else:
            cursor.execute("VACUUM ANALYZE")  # autovacuum does so in time
            cursor.execute("SELECT pg_database_size(current_database())")
            found = {"database": int(cursor.fetchone()[0])}
    stored = (each.stat().st_size for each in storage.folder().rglob("*") if each.is_file())
    return found | {"files": sum(stored)}


def place_of_owner() -> tuple[User, ChatSession, Run]:
    """Return the owner with the conversation in which the owner said most."""
    owner = User.objects.get(username="ada")
    mine = Message.objects.filter(session__user=owner, role="assistant").values("session")
    [most] = mine.annotate(number=Count("id")).order_by("-number")[:1]
    session = ChatSession.objects.get(pk=most["session"])
    delivered = Delivery.objects.filter(run__session=session).values("run")
    run = Run.objects.filter(session=session, state="succeeded")
    return owner, session, run.filter(pk__in=delivered).last() or run.latest("pk")


Place = tuple[User, ChatSession, Run]


def walk(client: Client, place: Place | None = None) -> tuple[list[str], str]:
    """Sign the owner in; return the addresses of all pages, and the owner's key. ``place``: see
    :func:`place_of_owner`.
    """
    owner, session, run = place or place_of_owner()
    client.force_login(owner)
    _, token = keys.create(name="look", user=owner, scopes=ApiKey.Scope.values)
    return pages.every(client, session, run), token


def queries_once(client: Client, place: Place) -> dict[str, int]:
    """Return the queries of each page of the owner, asked for once, by its address."""
    addresses, token = walk(client, place)
    found = ((each, pages.asked_once(client, each, token)) for each in addresses)
    return {address: number for address, number in found if number is not None}


def queries(client: Client, place: Place, *, enough: Callable[[str], int]) -> list[pages.Queries]:
    """Return the queries of each page of the owner, at this conversation; ``enough``: how many an
    address may have to be asked for once.
    """
    addresses, token = walk(client, place)
    found = (pages.queries_of(client, each, token, enough=enough(each)) for each in addresses)
    return [each for each in found if each is not None]


def look(client: Client, *, times: int) -> list[pages.Cost]:
    """Return what each page costs the owner."""
    setup_test_environment()  # pages tell what they show
    addresses, token = walk(client)
    teardown_test_environment()  # they copied the context of each of their templates for it
    settings.ALLOWED_HOSTS = ["testserver"]
    found = (pages.cost(client, each, token, times=times) for each in addresses)
    return [each for each in found if each is not None]


def step(name: str, value: float) -> Any:
    """Do one step; return what it found."""
    now = timezone.now()
    if name == "begin":
        begin(installation.install(), Scale(value), now=now)
        return None
    if name == "fill":
        fill(Scale(value), now=now)
        return {"numbers": numbers(), "size": size()}
    if name == "pages":
        plain = "django.contrib.staticfiles.storage.StaticFilesStorage"
        settings.STORAGES["staticfiles"] = {"BACKEND": plain}  # they are not collected here
        return [asdict(each) for each in look(Client(), times=int(value))]
    keep_half()
    found = [once(now)]
    return [*found, once(again(Scale(value), now=now))]


def once(now: datetime) -> dict[str, Any]:
    """Remove what is old at ``now``; return how many rows and bytes there were before and are."""
    before = size()
    return {"before": before, "removed": remove_old(now=now), "after": size(), "numbers": numbers()}


if __name__ == "__main__":
    sys.stdout.write("\nFOUND " + json.dumps(step(sys.argv[1], float(sys.argv[2]))) + "\n")
    sys.stdout.flush()
