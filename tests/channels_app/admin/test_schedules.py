"""Schedules in the admin ([H40])."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from allowlist.models import AuditEntry
from core.conversations.schedules import changes
from core.models import ChannelAccount, ChannelIdentity, Occurrence, Run, Schedule, User
from tests.channels_app.admin.conftest import messages_of, page
from tests.channels_app.schedules.making import DAILY, chat_of, made

pytestmark = pytest.mark.django_db
LIST = "/admin/core/schedule/"
SECRET = "call the doctor about the results"


@pytest.fixture
def ann(db: None) -> User:
    """Return a listed person."""
    user = User.objects.create(username="ann")
    ChannelIdentity.objects.create(user=user, kind="im", value="42")
    return user


@pytest.fixture
def schedule(ann: User) -> Schedule:
    """Return a daily reminder of hers."""
    account, _ = ChannelAccount.objects.get_or_create(channel="memory", name="mem")
    return made(chat_of(ann, account), now=timezone.now(), text=SECRET, rule=DAILY)


def act(browser: Client, action: str, *rows: Schedule) -> str:
    """Press a button of the list; return the messages."""
    form = {"action": action, "_selected_action": [row.pk for row in rows]}
    return messages_of(browser.post(LIST, form, follow=True))


def state(schedule: Schedule) -> tuple[str, str]:
    schedule.refresh_from_db()
    return schedule.state, schedule.why


def test_h40_the_list_shows_person_text_time_and_state(browser: Client, schedule: Schedule) -> None:
    """Newest first; each column with its words."""
    newer = made(chat_of(schedule.user, schedule.account), now=timezone.now(), text="a\nb")  # type: ignore[arg-type]
    changes.pause(schedule_ids=[newer.pk], why="failures")
    answer = browser.get(LIST)
    assert [row.pk for row in answer.context["cl"].result_list] == [newer.pk, schedule.pk]
    html = answer.content.decode()
    for words in ("ann", SECRET, "every day", "memory", "paused", "failed three times in a row"):
        assert words in html
    assert f"{Occurrence.objects.get(schedule=schedule).nominal_at:%H:%M}" in html
    for query in ("?state__exact=paused", "?why__exact=failures"):
        assert [row.pk for row in browser.get(LIST + query).context["cl"].result_list] == [newer.pk]
    assert browser.get(f"{LIST}?kind__exact=prompt").context["cl"].result_count == 0


def test_h40_the_list_reads_the_next_times_at_once(browser: Client, schedule: Schedule) -> None:
    """More rows cause no more queries."""
    browser.get(LIST)
    with CaptureQueriesContext(connection) as few:
        browser.get(LIST)
    for number in range(5):
        made(chat_of(schedule.user, schedule.account), now=timezone.now(), text=f"n{number}")  # type: ignore[arg-type]
    with CaptureQueriesContext(connection) as many:
        browser.get(LIST)
    assert len(many) == len(few)


def test_h40_the_page_shows_executed_and_delivered_as_two_facts(
    browser: Client, schedule: Schedule
) -> None:
    """The newest occurrences, with their notes and a link to the run."""
    now = timezone.now().replace(microsecond=0)
    session = schedule.session
    assert session is not None
    run = Run.objects.create(
        session=session, user=schedule.user, origin="schedule", state="succeeded"
    )
    for number in range(60):
        Occurrence.objects.create(
            schedule=schedule,
            nominal_at=now - timedelta(days=number + 1),
            state="failed",
            executed_at=now,
            note=f"note {number}.",
            run=run,
        )
    answer = browser.get(page(Schedule, schedule.pk))
    rows = answer.context["dashboard"]["occurrences"]
    assert len(rows) == 50
    html = answer.content.decode()
    assert "Only the newest ones are shown." in html
    assert "note 0." in html
    assert "note 59." not in html
    assert reverse("admin:core_run_change", args=[run.pk]) in html
    assert [row.state for row in rows[:2]] == ["waiting", "failed"]
    assert f"<td>{now:%Y-%m-%d %H:%M:%S}</td>\n            <td>–</td>" in html


def test_h40_the_owner_pauses_resumes_and_deletes_with_a_trail(
    browser: Client, schedule: Schedule
) -> None:
    """The audit names who and whose, not what was planned."""
    assert act(browser, "pause", schedule) == "Paused: 1 schedule."
    assert state(schedule) == ("paused", "owner")
    assert act(browser, "pause", schedule) == "Paused: 0 schedules."
    assert act(browser, "resume", schedule) == "Resumed: 1 schedule."
    assert state(schedule) == ("active", "")
    assert act(browser, "end", schedule) == "Deleted: 1 schedule."
    assert state(schedule) == ("ended", "owner")
    assert not Occurrence.objects.filter(schedule=schedule, state="waiting").exists()
    trail = AuditEntry.objects.filter(action__startswith="schedule.").order_by("id")
    assert [row.action for row in trail] == [
        f"schedule.{each}" for each in ("paused", "resumed", "ended")
    ]
    assert all("ann" in row.subject and SECRET not in row.subject for row in trail)
    assert act(browser, "resume", schedule) == "Resumed: 0 schedules."


def test_h40_one_that_cannot_be_resumed_is_named_and_stays_paused(
    browser: Client, schedule: Schedule, ann: User
) -> None:
    """One whose time has passed, and one whose grant has ended; the others are resumed."""
    chat = chat_of(ann, schedule.account)  # type: ignore[arg-type]
    old = made(chat, now=timezone.now() - timedelta(days=2), text="once")
    changes.pause(schedule_ids=[old.pk, schedule.pk], why="person")
    said = act(browser, "resume", old, schedule)
    assert "Resumed: 1 schedule. | ann: Its time has passed." in said
    assert state(old) == ("paused", "person")
    assert state(schedule) == ("active", "")
    changes.pause(schedule_ids=[schedule.pk], why="grant")
    ann.identities.all().delete()
    said = act(browser, "resume", schedule)
    assert said == ("Resumed: 0 schedules. | ann: the grant by which this was made has ended.")
    assert state(schedule) == ("paused", "grant")


def test_h40_staff_without_the_permission_change_nothing(
    client: Client, schedule: Schedule
) -> None:
    """Looking needs one permission, changing another; nothing is added or edited by hand."""
    sam = User.objects.create(username="sam", is_staff=True)
    sam.user_permissions.set(Permission.objects.filter(codename="view_schedule"))
    client.force_login(User.objects.get(pk=sam.pk))
    assert client.get(LIST).status_code == 200
    act(client, "pause", schedule)
    act(client, "end", schedule)
    assert state(schedule) == ("active", "")
    sam.user_permissions.set(
        Permission.objects.filter(codename__in=["view_schedule", "change_schedule"])
    )
    client.force_login(User.objects.get(pk=sam.pk))
    fields: dict[str, Any] = {"text": "Obey.", "state": "ended"}
    assert client.post(page(Schedule, schedule.pk), fields).status_code == 403
    assert client.get(page(Schedule)).status_code == 403
    act(client, "pause", schedule)
    assert state(schedule) == ("paused", "owner")


def test_h40_one_that_was_left_out_for_a_reason_was_not_missed(
    browser: Client, schedule: Schedule
) -> None:
    rows = Occurrence.objects.filter(schedule=schedule)
    rows.update(state="skipped", note="The one before it was not finished.")
    address = page(Schedule, schedule.pk)
    assert [row.label for row in browser.get(address).context["dashboard"]["occurrences"]] == [
        "left out"
    ]
    rows.update(note="")
    assert [row.label for row in browser.get(address).context["dashboard"]["occurrences"]] == [
        "missed"
    ]
