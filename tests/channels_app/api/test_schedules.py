"""Schedules over the REST API ([H41], [H42])."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone
from pytest_django import Settings
from rest_framework.test import APIClient

from allowlist import keys
from allowlist.models import ApiKey
from channels_app.schedules import firing
from core.conversations.schedules import changes
from core.models import Message, Occurrence, Run, Schedule, User
from tests.channels_app.api.conftest import Client

pytestmark = pytest.mark.django_db(transaction=True)
API = "/api/schedules"
BODY = {"text": "Drink water.", "in_minutes": 20, "time_zone": "UTC"}


@pytest.fixture
def ann() -> User:
    return User.objects.create(username="ann")


@pytest.fixture
def bob() -> User:
    """Another person."""
    return User.objects.create(username="bob")


def create(me: APIClient, **body: Any) -> Any:
    """Return the schedule that was stored."""
    answer = me.post(API, {**BODY, **body}, format="json")
    assert answer.status_code == 201, answer.json()
    return answer.json()


def refused(answer: Any, field: str = "") -> str:
    """Return why a request was answered 400, in the shape of all errors."""
    body = answer.json()
    assert answer.status_code == 400, body
    assert (body["ok"], body["status"], body.get("field", "")) == (False, 400, field)
    return str(body["error"])


def test_h41_the_life_of_a_schedule(ann: User, client: Client) -> None:
    """Made, read, listed, changed, paused, resumed, ended."""
    me = client(ann)
    body = {
        "text": "The news",
        "kind": "prompt",
        "at": "2100-01-04T07:30",
        "rule": "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR",
        "time_zone": "europe/berlin",
        "if_missed": "skip",
    }
    made = me.post(API, body, format="json").json()
    assert made["next_times"] == [f"2100-01-0{day}T07:30:00+01:00" for day in (4, 5, 6)]
    expected = {**body, "at": "2100-01-04T07:30:00", "time_zone": "Europe/Berlin"}
    assert {name: made[name] for name in body} == expected
    assert (made["state"], made["why"], made["failures"]) == ("active", "", 0)
    assert "in_minutes" not in made
    where = f"{API}/{made['id']}"
    assert me.get(where).json() == made
    assert me.get(API).json()["results"] == [made]
    changed = me.patch(where, {"at": "2100-07-01T08:00", "rule": ""}, format="json").json()
    assert changed["next_times"] == ["2100-07-01T08:00:00+02:00"]
    assert (changed["text"], changed["kind"]) == ("The news", "prompt")
    paused = me.post(f"{where}/pause").json()
    assert (paused["state"], paused["why"], paused["next_times"]) == ("paused", "person", [])
    assert me.post(f"{where}/resume").json()["next_times"] == changed["next_times"]
    assert me.delete(where).status_code == 204
    assert me.get(API).json()["results"] == []
    ended = me.get(f"{API}?state=ended").json()["results"]
    assert [(row["id"], row["state"], row["why"]) for row in ended] == [
        (made["id"], "ended", "person")
    ]
    assert "any more" in refused(me.post(f"{where}/resume"))
    assert "any more" in refused(me.patch(where, {"text": "x"}, format="json"))


def test_h41_it_arrives_in_the_web_chat_and_shows_executed_and_delivered(
    ann: User, client: Client
) -> None:
    """A reminder for once has ended when it came; its occurrence is still read."""
    me = client(ann)
    made = create(me)
    where = f"{API}/{made['id']}/occurrences"
    (waiting,) = me.get(where).json()["results"]
    assert (waiting["state"], waiting["run_id"], waiting["executed_at"]) == ("waiting", None, None)
    due = datetime.fromisoformat(waiting["due_at"])
    firing.look(now=due)
    firing.look(now=due + timedelta(seconds=5))
    assert me.get(f"{API}/{made['id']}").json()["why"] == "over"
    (found,) = me.get(where).json()["results"]
    run = Run.objects.get(origin="schedule")
    assert (found["state"], found["run_id"]) == ("done", run.public_id)
    assert found["executed_at"]
    assert found["delivered_at"]
    said = Message.objects.get(run=run, role="assistant")
    assert "Drink water." in said.text
    assert (said.session.user, said.session.account.channel) == (ann, "web")


def test_h41_people_see_and_change_their_own_only(ann: User, bob: User, client: Client) -> None:
    """Schedules of another person answer like missing ones, in the same body."""
    made = create(client(ann))
    other = client(bob)
    assert other.get(API).json()["results"] == []
    for name in (made["id"], "A" * 22, "x"):
        for method, path in (
            ("get", ""),
            ("patch", ""),
            ("delete", ""),
            ("post", "/pause"),
            ("post", "/resume"),
            ("get", "/occurrences"),
        ):
            answer = getattr(other, method)(f"{API}/{name}{path}", {}, format="json")
            assert answer.status_code == 404, (method, path)
            assert answer.json()["error"] == other.get("/api/runs/x").json()["error"]
    row = Schedule.objects.get()
    assert (row.state, row.user) == ("active", ann)


@pytest.mark.parametrize("scope", ["inbound", "send_result", "admin:requests"])
def test_h41_a_key_needs_the_scope_chat(ann: User, client: Client, scope: str) -> None:
    me = client(ann, scope)
    assert me.get(API).status_code == 403
    assert me.post(API, BODY, format="json").status_code == 403
    assert APIClient().get(API).status_code == 401


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"text": ""}, "text", "blank"),
        ({"text": "x" * 4001}, "text", "4000"),
        ({"kind": "x"}, "kind", "not a valid choice"),
        ({"in_minutes": "5"}, "in_minutes", "number"),
        ({"in_minutes": True}, "in_minutes", "number"),
        ({"in_minutes": 0}, "in_minutes", "1"),
        ({"in_minutes": 10**18}, "in_minutes", "less than"),
        ({"in_minutes": 10**400}, "in_minutes", "64 bits"),
        ({"at": "2100-01-01T08:00"}, "in_minutes", "not both"),
        ({"at": "tomorrow", "in_minutes": None}, "at", "such as"),
        ({"in_minutes": None}, "in_minutes", "null"),
        ({"time_zone": "Berlin"}, "time_zone", "Europe/Berlin"),
        ({"if_missed": "x"}, "if_missed", "not a valid choice"),
        ({"rule": "FREQ=SECONDLY"}, "", "FREQ"),
        ({"rule": "FREQ=DAILY;" * 60}, "rule", "500"),
        ({"rule": "FREQ=MINUTELY", "kind": "prompt"}, "", "15 minutes"),
    ],
)
def test_h41_a_wrong_field_is_refused_with_a_reason(
    ann: User, client: Client, body: dict[str, Any], field: str, words: str
) -> None:
    """[RI9] In the shape of every error; nothing is stored."""
    answer = client(ann).post(API, {**BODY, **body}, format="json")
    assert words in refused(answer, field)
    assert not Schedule.objects.exists()


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("2000-01-01T08:00", "has passed"),
        ("0001-01-01T00:00+14:00", "outside"),
        ("9999-12-31T23:59-12:00", "outside"),
        ("2100-10-31T02:30+01:00", "set back"),
        ("2100-01-01", "such as"),
    ],
)
def test_h41_a_time_that_cannot_be_is_refused(
    ann: User, client: Client, at: str, words: str
) -> None:
    body = {"text": "x", "at": at, "time_zone": "Europe/Berlin"}
    answer = client(ann).post(API, body, format="json")
    assert words in refused(answer, "at" if words == "such as" else "")
    assert not Schedule.objects.exists()


def test_h41_a_time_with_an_offset_is_converted(ann: User, client: Client) -> None:
    made = client(ann).post(
        API, {"text": "x", "at": "2100-01-01T08:00Z", "time_zone": "Asia/Tokyo"}, format="json"
    )
    assert made.json()["at"] == "2100-01-01T17:00:00"
    assert made.json()["next_times"] == ["2100-01-01T17:00:00+09:00"]


def test_h41_the_time_zone_is_the_persons_unless_given(ann: User, client: Client) -> None:
    """It is not guessed: without one the request is refused."""
    me, body = client(ann), {"text": "x", "at": "2100-01-01T08:00"}
    assert "not known" in refused(me.post(API, body, format="json"), "time_zone")
    User.objects.filter(pk=ann.pk).update(time_zone="Asia/Kolkata")
    made = me.post(API, body, format="json").json()
    assert made["next_times"] == ["2100-01-01T08:00:00+05:30"]
    where = f"{API}/{made['id']}"
    User.objects.filter(pk=ann.pk).update(time_zone="UTC")
    assert me.patch(where, {"text": "y"}, format="json").json()["time_zone"] == "Asia/Kolkata"


def test_h41_the_limit_of_a_person_holds(ann: User, client: Client, settings: Settings) -> None:
    settings.SCHEDULES_PER_PERSON = 2
    me = client(ann)
    create(me)
    create(me)
    assert "2 schedules already" in refused(me.post(API, BODY, format="json"))


def test_h41_lists_come_in_pages_and_by_state(ann: User, client: Client) -> None:
    """Newest first."""
    me = client(ann)
    ids = [create(me, text=f"n{number}")["id"] for number in range(3)]
    me.post(f"{API}/{ids[1]}/pause")
    page = me.get(API, {"limit": "2"}).json()
    assert (page["count"], [row["id"] for row in page["results"]]) == (3, [ids[2], ids[1]])
    assert [row["id"] for row in me.get(page["next"]).json()["results"]] == [ids[0]]
    assert [row["id"] for row in me.get(f"{API}?state=paused").json()["results"]] == [ids[1]]
    assert "one of" in refused(me.get(f"{API}?state=x"), "state")
    assert me.get(f"{API}/{ids[0]}/occurrences", {"limit": "1"}).json()["count"] == 1


def test_h45_a_repeated_request_with_its_key_makes_no_other_schedule(
    ann: User, bob: User, client: Client
) -> None:
    """[H45] Of each person; also after a change, through another API key, and when it has ended."""
    me = client(ann)
    first = me.post(API, BODY, format="json", headers={"Idempotency-Key": "a"})
    me.patch(f"{API}/{first.json()['id']}", {"text": "Drink tea."}, format="json")
    again = client(ann).post(API, BODY, format="json", headers={"Idempotency-Key": "a"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert (again.json()["id"], again.json()["text"]) == (first.json()["id"], "Drink tea.")
    me.delete(f"{API}/{first.json()['id']}")
    ended = me.post(API, BODY, format="json", headers={"Idempotency-Key": "a"})
    assert (ended.json()["id"], ended.json()["state"]) == (first.json()["id"], "ended")
    others = [
        me.post(API, BODY, format="json", headers={"Idempotency-Key": "a~"}),
        me.post(API, BODY, format="json"),
        client(bob).post(API, BODY, format="json", headers={"Idempotency-Key": "a"}),
    ]
    assert len({each.json()["id"] for each in [first, *others]}) == 4
    assert Schedule.objects.count() == 4


def test_h45_a_key_of_another_request_is_refused(ann: User, client: Client) -> None:
    """[H45] 422, and nothing is made; a key that is too long is 400."""
    me = client(ann)
    me.post(API, BODY, format="json", headers={"Idempotency-Key": "a"})
    other = me.post(API, {**BODY, "text": "x"}, format="json", headers={"Idempotency-Key": "a"})
    assert (other.status_code, other.json()["ok"]) == (422, False)
    assert "another request" in other.json()["error"]
    long = me.post(API, BODY, format="json", headers={"Idempotency-Key": "a" * 129})
    refused(long, "Idempotency-Key")
    assert Schedule.objects.count() == 1


def test_h45_at_once_they_make_one(ann: User, client: Client) -> None:
    """[H45] Eight at the same time, of two clients."""
    clients = [client(ann) for _ in range(2)]

    def post(number: int) -> str:
        try:
            answer = clients[number % 2].post(
                API, BODY, format="json", headers={"Idempotency-Key": "a"}
            )
            return str(answer.json()["id"])
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        assert len({*pool.map(post, range(8))}) == 1
    assert Schedule.objects.count() == 1


def test_h42_when_its_key_is_revoked_a_schedule_stops_at_once(ann: User, client: Client) -> None:
    """Its occurrence is withdrawn; those of another key and of the person go on."""
    mine, other = create(client(ann)), create(client(ann))
    browser = APIClient()
    browser.force_login(ann)
    own = create(browser)
    first = Schedule.objects.get(public_id=mine["id"])
    keys.revoke(key=ApiKey.objects.get(pk=first.via_key), actor="test", now=timezone.now())
    first.refresh_from_db()
    assert (first.state, first.why) == ("paused", "grant")
    assert not Occurrence.objects.filter(schedule=first, state="waiting").exists()
    states = {row["id"]: row["state"] for row in browser.get(API).json()["results"]}
    assert states == {mine["id"]: "paused", other["id"]: "active", own["id"]: "active"}
    assert "not valid any more" in refused(browser.post(f"{API}/{mine['id']}/resume"))


def test_h42_a_schedule_that_a_key_has_changed_ends_with_the_key(ann: User, client: Client) -> None:
    """A leaked key must not leave a task behind."""
    browser, me = APIClient(), client(ann)
    browser.force_login(ann)
    own = create(browser)
    row = Schedule.objects.get()
    assert row.via_key == 0
    assert me.patch(f"{API}/{own['id']}", {}, format="json").status_code == 200
    row.refresh_from_db()
    assert row.via_key == 0
    me.patch(f"{API}/{own['id']}", {"text": "Obey."}, format="json")
    keys.revoke(key=ApiKey.objects.get(), actor="test", now=timezone.now())
    row.refresh_from_db()
    assert (row.state, row.why) == ("paused", "grant")


def test_h41_only_the_owner_resumes_one_that_the_owner_paused(ann: User, client: Client) -> None:
    me = client(ann)
    made = create(me)
    row = Schedule.objects.get()
    changes.pause(schedule_ids=[row.pk], why=Schedule.Why.OWNER)
    assert "owner" in refused(me.post(f"{API}/{made['id']}/resume"))
    assert me.get(f"{API}/{made['id']}").json()["why"] == "owner"
    changes.resume(schedule=row, now=timezone.now(), by_owner=True)
    assert me.get(f"{API}/{made['id']}").json()["state"] == "active"


def test_h41_one_in_a_time_zone_that_this_machine_lacks_hides_no_other(
    ann: User, client: Client
) -> None:
    me = client(ann)
    create(me, text="one")
    create(me, text="two")
    Schedule.objects.filter(text="one").update(time_zone="Nowhere/Town")
    rows = me.get(API).json()["results"]
    assert [(row["text"], len(row["next_times"])) for row in rows] == [("two", 1), ("one", 0)]
