"""Reminders in the web chat: page, buttons, the time zone of the browser ([H30] to [H33])."""

import re
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.utils import timezone

from channels_app.agent_sessions import results
from channels_app.ops import restored
from channels_app.schedules import buttons, firing, outcomes, places
from channels_app.webchat import transcript
from core.conversations.schedules import changes
from core.conversations.schedules.changes import Grant, Wish
from core.models import Message, Occurrence, Run, Schedule, User
from tests.channels_app.webchat.conftest import HOST

pytestmark = pytest.mark.django_db(transaction=True)
FORM = {
    "text": "water the plants",
    "kind": "text",
    "at": "2099-06-01T08:00",
    "repeat": "once",
    "every": "30",
    "missed": "once",
    "zone": "Europe/Berlin",
}


def browser(user: User, **options: Any) -> Client:
    """Return a browser in which ``user`` is signed in."""
    client = Client(HTTP_HOST=HOST, **options)
    client.force_login(user)
    return client


def made(user: User, **wish: Any) -> Schedule:
    """Return a schedule of ``user`` in their web chat."""
    given = {"text": "water the plants", "time_zone": "Europe/Berlin", **wish}
    if not given.keys() & {"at", "minutes"}:
        given["at"] = datetime(2099, 6, 1, 8, 0)  # noqa: DTZ001 - local
    return changes.create(
        user=user,
        session=places.web_chat(user),
        wish=Wish(**given),
        grant=Grant(),
        now=timezone.now(),
    )


def fired(user: User, **wish: Any) -> tuple[Schedule, Run]:
    """Return a reminder of ``user`` that was due, and the run that showed it."""
    schedule = made(user, **{"minutes": 5, **wish})
    firing.look(now=timezone.now() + timedelta(minutes=5, seconds=2))
    run = Occurrence.objects.get(schedule=schedule, run__isnull=False).run
    assert run is not None
    schedule.refresh_from_db()
    return schedule, run


def shown(user: User) -> str:
    """Return the page of ``user``."""
    return browser(user).get("/reminders").content.decode()


def answers(user: User) -> list[dict[str, Any]]:
    """Return the turns of the latest web chat of ``user``."""
    turns: list[dict[str, Any]] = transcript.page(session=places.web_chat(user))["turns"]
    return turns


# The list


def test_h30_a_person_sees_their_own_reminders_only(ada: User, bob: User) -> None:
    made(ada, rule="FREQ=DAILY")
    page = shown(ada)
    assert "water the plants" in page
    assert "Every day" in page
    assert "water the plants" not in shown(bob)


def test_h30_times_are_in_the_time_zone_of_the_person(ada: User) -> None:
    made(ada)
    User.objects.filter(pk=ada.pk).update(time_zone="America/New_York")
    page = shown(ada)
    assert "Monday, 1 June 2099 at 02:00" in page
    assert "set in Europe/Berlin time" in page
    User.objects.filter(pk=ada.pk).update(time_zone="Europe/Berlin")
    page = shown(ada)
    assert "Monday, 1 June 2099 at 08:00" in page
    assert "set in" not in page


@pytest.mark.parametrize("path", ["", "/pause", "/resume", "/delete"])
def test_h30_another_persons_reminder_is_not_found(ada: User, bob: User, path: str) -> None:
    schedule = made(ada)
    client = browser(bob)
    assert client.post(f"/reminders/{schedule.public_id}{path}", FORM).status_code == 404
    assert client.get(f"/reminders/{schedule.public_id}").status_code == 404
    schedule.refresh_from_db()
    assert (schedule.state, schedule.text) == ("active", "water the plants")


def test_h30_signed_out_it_leads_to_sign_in_and_back(ada: User) -> None:
    schedule = made(ada)
    answer = Client(HTTP_HOST=HOST).get("/reminders")
    assert answer["Location"] == "/sign-in?next=/reminders"
    answer = Client(HTTP_HOST=HOST).post(f"/reminders/{schedule.public_id}/delete")
    assert answer["Location"] == "/sign-in?next=/reminders"
    assert Schedule.objects.get().state == "active"


def test_h30_a_form_of_another_site_changes_nothing(ada: User) -> None:
    schedule = made(ada)
    client = browser(ada, enforce_csrf_checks=True)
    for path in (f"/reminders/{schedule.public_id}/delete", "/reminders/new"):
        assert client.post(path, FORM).status_code == 403
    assert Schedule.objects.get().state == "active"


def test_h30_pause_resume_and_delete(ada: User) -> None:
    schedule, client = made(ada), browser(ada)

    def act(name: str) -> str:
        answer = client.post(f"/reminders/{schedule.public_id}/{name}", follow=True)
        schedule.refresh_from_db()
        page: str = answer.content.decode()
        return page

    assert "Paused." in act("pause")
    assert (schedule.state, schedule.why) == ("paused", "person")
    assert "Resumed." in act("resume")
    assert schedule.state == "active"
    assert Occurrence.objects.filter(schedule=schedule, state="waiting").count() == 1
    page = act("delete")
    assert "Deleted." in page
    assert "water the plants" not in page
    assert (schedule.state, schedule.why) == ("ended", "person")
    assert client.post(f"/reminders/{schedule.public_id}/unknown").status_code == 404


def test_h30_the_reason_of_a_pause_is_shown_and_the_owners_pause_stays(ada: User) -> None:
    schedule = made(ada)
    changes.pause(schedule_ids=[schedule.pk], why="failures")
    assert "Paused after three failures" in shown(ada)
    Schedule.objects.update(why="owner")
    page = shown(ada)
    assert "Paused by the owner" in page
    assert "Resume" not in page
    answer = browser(ada).post(f"/reminders/{schedule.public_id}/resume")
    assert b"The owner of this gateway paused" in answer.content
    assert Schedule.objects.get().state == "paused"


def test_h30_a_time_that_has_passed_is_not_resumed_and_the_page_says_so(ada: User) -> None:
    schedule = made(ada)
    changes.pause(schedule_ids=[schedule.pk], why="person")
    Schedule.objects.update(start="2020-01-01T08:00:00")
    answer = browser(ada).post(f"/reminders/{schedule.public_id}/resume")
    assert answer.status_code == 422
    assert "Its time has passed" in answer.content.decode()


def test_h30_a_next_time_to_which_it_was_put_off_is_marked(ada: User) -> None:
    schedule, run = fired(ada, rule="FREQ=DAILY")
    assert "put off" not in shown(ada)
    buttons.press(user=ada, choice="later", run_id=run.public_id, now=timezone.now())
    assert "put off" in shown(ada)
    changes.pause(schedule_ids=[schedule.pk], why="person")
    assert "put off" not in shown(ada)


# The form


def test_h31_a_new_reminder_goes_to_the_latest_web_chat(ada: User) -> None:
    answer = browser(ada).post("/reminders/new", {**FORM, "repeat": "weekdays"}, follow=True)
    page = answer.content.decode()
    schedule = Schedule.objects.get()
    assert (schedule.user, schedule.kind, schedule.time_zone) == (ada, "text", "Europe/Berlin")
    assert schedule.rule == "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"
    assert schedule.session == places.web_chat(ada)
    assert "Saved. The next times:" in page
    _, run = fired(ada)
    assert run.session == schedule.session


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"text": " "}, "The text is missing"),
        ({"at": "soon"}, "Give a date and a time."),
        ({"at": "2020-01-01T08:00"}, "That time has passed"),
        ({"zone": "Atlantis"}, "is not the IANA name"),
        ({"repeat": "minutes", "every": "0"}, "Give a number of minutes"),
        (
            {"repeat": "minutes", "every": "5", "kind": "prompt"},
            "Tasks for the assistant may come every 15",
        ),
    ],
)
def test_h31_an_error_is_said_in_words_and_nothing_is_lost(
    ada: User, given: dict[str, str], reason: str
) -> None:
    answer = browser(ada).post("/reminders/new", {**FORM, **given})
    page = answer.content.decode()
    assert answer.status_code == 422
    assert reason in page
    assert "water the plants" in page or given == {"text": " "}
    assert not Schedule.objects.exists()


@pytest.mark.parametrize(
    ("rule", "repeat"),
    [
        ("", "once"),
        ("FREQ=DAILY", "daily"),
        ("FREQ=DAILY;BYHOUR=8;BYMINUTE=0", "daily"),
        ("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "weekdays"),
        ("FREQ=DAILY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=8", "weekdays"),
        ("FREQ=WEEKLY", "weekly"),
        ("FREQ=WEEKLY;BYDAY=MO", "weekly"),
        ("FREQ=MONTHLY;BYMONTHDAY=1", "monthly"),
        ("FREQ=YEARLY;BYMONTH=6;BYMONTHDAY=1", "yearly"),
        ("FREQ=MINUTELY;INTERVAL=45", "minutes"),
        ("FREQ=MONTHLY;BYDAY=-1FR", "kept"),
        ("FREQ=DAILY;BYHOUR=8,20", "kept"),
        ("FREQ=DAILY;COUNT=3", "kept"),
        ("FREQ=WEEKLY;INTERVAL=2", "kept"),
    ],
)
def test_h31_a_stored_rule_is_a_choice_and_stays_as_it_is_unless_it_is_changed(
    ada: User, rule: str, repeat: str
) -> None:
    schedule = made(ada, rule=rule)
    client, path = browser(ada), f"/reminders/{schedule.public_id}"
    fields = client.get(path).context["fields"]
    assert fields.repeat == repeat
    assert fields.kept_words.endswith(f"({rule})") == (repeat == "kept")
    form = {**FORM, "at": fields.at, "at_before": fields.at, "repeat": repeat}
    answer = client.post(path, {**form, "every": fields.every, "text": "feed the cat"})
    assert answer.status_code == 302, answer.content.decode()
    changed = Schedule.objects.get()
    assert changed.text == "feed the cat"
    assert (changed.rule, changed.start) == (schedule.rule, schedule.start)


def test_h31_a_changed_time_holds_for_a_rule_with_its_own_time_of_day(ada: User) -> None:
    """A rule of 8:00 that the form does not cover would stay at 8:00 otherwise."""
    schedule = made(ada, rule="FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=8;BYMINUTE=0")
    path = f"/reminders/{schedule.public_id}"
    fields = browser(ada).get(path).context["fields"]
    day = fields.at.partition("T")[0]
    form = {**FORM, "at": f"{day}T09:30", "at_before": fields.at, "repeat": "kept"}
    assert browser(ada).post(path, form).status_code == 302
    changed = Schedule.objects.get()
    assert changed.rule == "FREQ=MONTHLY;BYDAY=-1FR"
    again = browser(ada).get(path).context["fields"]
    assert again.at == f"{day}T09:30"


@pytest.mark.parametrize(("typed", "zone"), [("utc", "UTC"), ("singapore", "Singapore")])
def test_h31_a_name_that_is_one_of_a_zone_and_the_end_of_another_is_the_first(
    ada: User, typed: str, zone: str
) -> None:
    """As for `/timezone`. In small letters the form asked "Which one: Etc/UTC, UTC?"."""
    assert browser(ada).post("/reminders/new", {**FORM, "zone": typed}).status_code == 302
    assert Schedule.objects.get().time_zone == zone


def test_h31_a_changed_time_leaves_the_number_of_times_that_are_to_come(ada: User) -> None:
    """Pills for five days, moved by an hour on the fourth, would come eight times."""
    schedule = made(ada, rule="FREQ=DAILY;COUNT=5")
    begun = timezone.now().replace(microsecond=0) - timedelta(days=2, hours=1)
    start = begun.astimezone(ZoneInfo(schedule.time_zone)).replace(tzinfo=None)
    Schedule.objects.update(start=start.isoformat())
    path = f"/reminders/{schedule.public_id}"
    fields = browser(ada).get(path).context["fields"]
    later = datetime.fromisoformat(fields.at) + timedelta(hours=1)
    form = {**FORM, "at": later.isoformat(), "at_before": fields.at, "repeat": "kept"}
    assert browser(ada).post(path, form).status_code == 302
    changed = Schedule.objects.get()
    assert changed.rule == "FREQ=DAILY;COUNT=2"
    assert len(changes.next_times(changed, now=timezone.now(), most=9)) == 2


def test_h31_a_changed_time_outlives_an_error_of_another_field(ada: User) -> None:
    schedule = made(ada)
    client, path = browser(ada), f"/reminders/{schedule.public_id}"
    form = {**FORM, "at": "2099-07-02T09:30", "at_before": "2099-06-01T08:00", "text": ""}
    answer = client.post(path, form)
    assert answer.status_code == 422
    shown_again = {
        "at": answer.context["fields"].at,
        "at_before": answer.context["at_before"],
        "text": "feed the cat",
    }
    assert client.post(path, {**FORM, **shown_again}).status_code == 302
    assert Schedule.objects.get().start == "2099-07-02T09:30:00"


def test_h31_a_change_that_was_made_elsewhere_is_replaced_only_knowingly(ada: User) -> None:
    schedule = made(ada)
    client, path = browser(ada), f"/reminders/{schedule.public_id}"
    opened = client.get(path).context
    form = {**FORM, "at": opened["fields"].at, "at_before": opened["at_before"]}
    wish = Wish(text="water the herbs", rule="FREQ=WEEKLY;BYHOUR=8;BYMINUTE=0")
    changes.change(schedule=schedule, wish=wish, now=timezone.now())
    answer = client.post(path, {**form, "version": opened["version"], "text": "feed the cat"})
    assert answer.status_code == 422
    assert "was changed elsewhere" in answer.content.decode()
    assert answer.context["fields"].text == "feed the cat"
    assert Schedule.objects.get().text == "water the herbs"
    again = client.post(path, {**form, "version": answer.context["version"], "text": "feed"})
    assert again.status_code == 302
    assert Schedule.objects.get().text == "feed"


def test_h31_text_runs_as_its_own_letters_do(ada: User) -> None:
    schedule = made(ada, text="להשקות")
    assert '<span dir="auto">להשקות</span>' in shown(ada)
    form = browser(ada).get(f"/reminders/{schedule.public_id}").content.decode()
    assert re.search(r'<textarea [^>]*dir="auto"[^>]*>להשקות<', form)


def test_h31_text_is_escaped(ada: User) -> None:
    made(ada, text="<script>alert(1)</script>")
    assert "<script>alert" not in shown(ada)
    assert "&lt;script&gt;" in shown(ada)


# Past occurrences


def test_h30_the_two_facts_of_the_last_times(ada: User) -> None:
    schedule, _ = fired(ada, rule="FREQ=DAILY")
    assert "Is being carried out" in shown(ada)
    assert "Not delivered yet" in shown(ada)
    firing.look(now=timezone.now() + timedelta(minutes=6))
    page = shown(ada)
    assert "Carried out at" in page
    assert "Delivered at" in page
    rows = Occurrence.objects.filter(schedule=schedule, state="done")
    rows.update(state="failed", delivered_at=None, note="It was not delivered: the bot is blocked")
    assert "Not delivered: the bot is blocked" in shown(ada)
    rows = Occurrence.objects.filter(schedule=schedule, state="failed")
    rows.update(executed_at=None, note="The model is gone.")
    assert "Not carried out: The model is gone." in shown(ada)
    rows.update(state="skipped", note="")
    assert "Left out: the gateway was off or busy" in shown(ada)


@pytest.mark.parametrize("note", [restored.MISSED, firing.STILL_BUSY])
def test_h30_one_that_was_left_out_for_another_reason_says_which(ada: User, note: str) -> None:
    """The gateway was not off: between a backup and its restore, or while a task lasted."""
    schedule, _ = fired(ada, rule="FREQ=DAILY")
    rows = Occurrence.objects.filter(schedule=schedule, run__isnull=False)
    rows.update(state="skipped", note=note)
    page = shown(ada)
    assert "</span>Left out</li>" in page
    assert note in page
    assert "the gateway was off or busy at that time" not in page
    User.objects.filter(pk=ada.pk).update(language="de")
    assert note not in shown(ada)


def test_h30_a_message_of_an_unknown_outcome_is_said_to_be_so_once(ada: User) -> None:
    schedule, _ = fired(ada, rule="FREQ=DAILY")
    rows = Occurrence.objects.filter(schedule=schedule, run__isnull=False)
    rows.update(state="done", executed_at=timezone.now(), delivered_at=None, note=outcomes.UNSURE)
    page = shown(ada)
    assert page.count(outcomes.UNSURE) == 1
    assert "Not delivered" not in page


def test_h30_a_single_reminder_stays_among_the_past_ones(ada: User, bob: User) -> None:
    schedule, _ = fired(ada)
    assert schedule.state == "ended"
    assert "What became of it" in shown(ada)
    assert "water the plants" not in shown(bob)


def test_h30_the_page_asks_the_database_as_often_for_many_as_for_one(
    ada: User, django_assert_max_num_queries: Any
) -> None:
    for _ in range(12):
        fired(ada, rule="FREQ=DAILY")
    client = browser(ada)
    with django_assert_max_num_queries(10):
        client.get("/reminders")


# The conversation


def test_h32_a_reminder_has_buttons_until_one_is_pressed(ada: User) -> None:
    schedule, run = fired(ada, rule="FREQ=DAILY")
    reminder = answers(ada)[-1]["answer"]["reminder"]
    names = [name for name, _ in reminder["buttons"]]
    assert (names, reminder["said"]) == (["done", "later", "tomorrow"], "")
    final = transcript.final(user_id=ada.pk, run_id=run.public_id, seq=run.last_seq)
    assert final is not None
    assert final["reminder"] == reminder
    path = f"/chat/reminders/{run.public_id}"
    answer = browser(ada).post(path, {"choice": "later"}, "application/json")
    assert answer.json() == {"ok": True, "said": "I will remind you in 10 minutes."}
    assert answers(ada)[-1]["answer"]["reminder"]["said"] == "I will remind you in 10 minutes."
    waiting = Occurrence.objects.get(schedule=schedule, state="waiting", snoozed=True)
    assert timedelta(minutes=9) < waiting.nominal_at - timezone.now() < timedelta(minutes=11)


def test_h32_buttons_speak_the_language_of_the_person(ada: User) -> None:
    User.objects.filter(pk=ada.pk).update(language="de")
    ada.refresh_from_db()
    fired(ada)
    labels = [label for _, label in answers(ada)[-1]["answer"]["reminder"]["buttons"]]
    assert labels == ["Erledigt", "In 10 Minuten", "Morgen"]


def test_h32_another_person_presses_nothing(ada: User, bob: User) -> None:
    _, run = fired(ada)
    path = f"/chat/reminders/{run.public_id}"
    assert browser(bob).post(path, {"choice": "done"}, "application/json").status_code == 404
    assert Occurrence.objects.get(run=run).acknowledged_at is None
    assert "pressed" not in Message.objects.get(run=run).data
    odds: tuple[Any, ...] = ("x", [], {}, None, 1)
    for odd in odds:
        answer = browser(ada).post(path, {"choice": odd}, "application/json")
        assert answer.status_code == 400, odd
    client = browser(ada, enforce_csrf_checks=True)
    assert client.post(path, {"choice": "done"}, "application/json").status_code == 403


def test_h32_one_that_is_paused_keeps_its_buttons(ada: User) -> None:
    schedule, run = fired(ada, rule="FREQ=DAILY")
    changes.pause(schedule_ids=[schedule.pk], why="person")
    path = f"/chat/reminders/{run.public_id}"
    answer = browser(ada).post(path, {"choice": "later"}, "application/json")
    assert answer.json()["said"] == buttons.STOPPED
    assert answers(ada)[-1]["answer"]["reminder"]["said"] == ""
    browser(ada).post(path, {"choice": "done"}, "application/json")
    assert answers(ada)[-1]["answer"]["reminder"]["said"] == "Done."


def test_h32_other_messages_have_no_buttons(ada: User) -> None:
    results.put_text(session=places.web_chat(ada), content="a result")
    assert answers(ada)[-1]["answer"]["reminder"] is None


def test_h32_a_prompt_is_marked_as_asked_by_the_schedule(ada: User) -> None:
    fired(ada, kind="prompt")
    said = answers(ada)[-1]["said"]
    assert (said["text"], said["is_scheduled"]) == ("water the plants", True)


# The time zone


def test_h31_a_form_that_is_sent_twice_makes_one_reminder(ada: User) -> None:
    client = browser(ada)
    page = client.get("/reminders/new").content.decode()
    form = page.partition('name="form" value="')[2].partition('"')[0]
    assert (
        f'value="{form}"'
        in client.post("/reminders/new", {**FORM, "form": form, "text": ""}).content.decode()
    )
    for _ in range(2):
        answer = client.post("/reminders/new", {**FORM, "form": form}, follow=True)
        assert "Saved." in answer.content.decode()
    assert Schedule.objects.count() == 1
    client.post("/reminders/new", FORM)
    client.post("/reminders/new", {**FORM, "form": "\0" * 300})
    assert Schedule.objects.count() == 3


def test_h33_the_browsers_time_zone_becomes_the_persons_while_there_is_none(ada: User) -> None:
    client = browser(ada)

    def send(name: Any) -> int:
        answer = client.post("/chat/time-zone", {"time_zone": name}, "application/json")
        ada.refresh_from_db()
        return answer.status_code

    assert b"data-wants-time-zone" in client.get("/").content
    assert send("Mars/Olympus") == 400
    assert send(7) == 400
    assert ada.time_zone == ""
    assert send("Europe/Berlin") == 200
    assert ada.time_zone == "Europe/Berlin"
    assert send("Asia/Tokyo") == 200
    assert ada.time_zone == "Europe/Berlin"
    assert b"data-wants-time-zone" not in client.get("/").content


@pytest.mark.parametrize("hidden", ["UTC", "Etc/GMT", "Atlantic/Reykjavik"])
def test_h33_a_browser_that_hides_its_time_zone_stores_none_and_the_form_asks(
    ada: User, hidden: str
) -> None:
    User.objects.filter(pk=ada.pk).update(time_zone="")
    client = browser(ada)
    answer = client.post("/chat/time-zone", {"time_zone": hidden}, "application/json")
    assert answer.json() == {"ok": True, "stored": False}
    assert 'name="zone" list="zones" value=""' in client.get("/reminders/new").content.decode()
    refused = client.post("/reminders/new", {**FORM, "zone": " "})
    assert "Give your time zone" in refused.content.decode()
    client.post("/reminders/new", {**FORM, "zone": "Tokyo"})
    ada.refresh_from_db()
    assert (ada.time_zone, Schedule.objects.get().time_zone) == ("Asia/Tokyo", "Asia/Tokyo")


@pytest.mark.parametrize(
    ("typed", "zone"), [("Asia/Tokyo", "Asia/Tokyo"), ("são paulo", "America/Sao_Paulo")]
)
def test_h33_the_person_changes_it_on_the_page(ada: User, typed: str, zone: str) -> None:
    made(ada)
    answer = browser(ada).post("/reminders/time-zone", {"zone": typed}, follow=True)
    ada.refresh_from_db()
    assert ada.time_zone == zone
    assert f'value="{zone}"' in answer.content.decode()
    assert Schedule.objects.get().time_zone == "Europe/Berlin"


def test_h33_a_wrong_time_zone_is_said_beside_it(ada: User) -> None:
    answer = browser(ada).post("/reminders/time-zone", {"zone": "Europe/Berlim"})
    assert answer.status_code == 422
    assert "Did you mean Europe/Berlin" in answer.content.decode()
    ada.refresh_from_db()
    assert ada.time_zone == ""


def test_h33_a_time_zone_that_does_not_exist_is_shown_and_can_be_changed(ada: User) -> None:
    """As the admin's form stores it: "Berlin"."""
    made(ada)
    User.objects.filter(pk=ada.pk).update(time_zone="Berlin")
    me = browser(ada)
    page = me.get("/reminders")
    assert page.status_code == 200
    assert "Monday, 1 June 2099 at 06:00" in page.content.decode()  # in UTC
    form = me.get("/reminders/new")
    assert form.status_code == 200
    assert 'value="Berlin"' in form.content.decode()
    assert me.post("/reminders/time-zone", {"zone": "Berlin"}).status_code == 302
    assert User.objects.get(pk=ada.pk).time_zone == "Europe/Berlin"


def test_h31_one_in_a_time_zone_that_this_machine_lacks_can_be_changed(ada: User) -> None:
    schedule = made(ada)
    Schedule.objects.update(time_zone="Nowhere/Town")
    me = browser(ada)
    form = me.get(f"/reminders/{schedule.public_id}").content.decode()
    assert 'value="2099-06-01T08:00"' in form
    assert 'value="Nowhere/Town"' in form
    fields = {**FORM, "zone": "Asia/Tokyo", "at_before": FORM["at"]}
    said = me.post(f"/reminders/{schedule.public_id}", fields, follow=True).content.decode()
    assert "Saved. Its time" in said
    schedule.refresh_from_db()
    assert (schedule.time_zone, schedule.start) == ("Asia/Tokyo", "2099-06-01T08:00:00")
