"""The trace page and the ratings of sources: for the run's user and for owners only."""

import json
import re

import pytest
from django.templatetags.static import static
from django.test import Client
from django.utils import timezone

from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.intake.inbound import receive_personal
from channels_app.models import SourceFeedback
from core.conversations.inbox import Draft
from core.messages import (
    Message,
    custom_message,
    image_message,
    message_end,
    message_start,
    retrieval_message,
    stream_end,
    stream_start,
    text_delta,
    to_dict,
)
from core.models import Run, RunEvent, User
from tests.people import PIXEL

pytestmark = pytest.mark.django_db(transaction=True)

LOG: list[Message] = [
    stream_start(request_id="r", chat_id="c", trace_id="t", timestamp_ms=0),
    message_start(message_id="text-1", message_type="text"),
    text_delta("Hello <script>alert(1)</script>", message_id="text-1"),
    text_delta(" \u202eworld", message_id="text-1"),
    message_end(message_id="text-1", message_type="text"),
    image_message(PIXEL, "A pixel", message_id="image-1"),
    image_message("https://example.org/x.png", message_id="image-2"),
    custom_message(
        "chart", {"title": "Growth", "url": "javascript:alert(1)"}, message_id="chart/1"
    ),
    retrieval_message(
        "capital",
        [{"id": "s1", "type": "web", "title": "Paris", "url": "https://p.example", "content": "…"}],
        message_id="found-1",
    ),
    retrieval_message(
        "river", [{"id": "s1", "type": "file", "content": "…"}], message_id="found-2"
    ),
    stream_end(status="completed"),
]


@pytest.fixture
def people() -> dict[str, User]:
    """Create an owner and two members."""
    return {
        name: User.objects.create(username=name, is_owner=name == "owner")
        for name in ("owner", "ann", "ben")
    }


@pytest.fixture
def run(people: dict[str, User]) -> Run:
    """Create a run of Ann's."""
    draft = Draft(account=builtin_account("web"), text="Tell me")
    made = receive_personal(user=people["ann"], draft=draft, session_id="", now=timezone.now()).run
    assert made is not None
    for seq, message in enumerate(LOG, 1):
        RunEvent.objects.create(run=made, seq=seq, data=json.dumps(to_dict(message)))
    return made


def browser(user: User | None) -> Client:
    """Return a browser where ``user`` is signed in."""
    made = Client()
    if user:
        made.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return made


def test_the_page_shows_messages_and_events_of_the_run(people: dict[str, User], run: Run) -> None:
    """[M3] Merged messages with anchors, pictures that came as data, every event."""
    answer = browser(people["ann"]).get(f"/trace/{run.public_id}/view")
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "Hello &lt;script&gt;alert(1)&lt;/script&gt; ⟨U+202E⟩world" in page
    assert f'<img src="{PIXEL}"' in page
    assert 'href="https://example.org/x.png"' in page
    assert 'href="javascript' not in page
    assert 'id="chart-chart%2F1"' in page
    assert f"{len(LOG)} events" in page


def test_the_page_allows_one_script_of_ours_and_nothing_inline(
    people: dict[str, User], run: Run
) -> None:
    """A strict policy, and a page that keeps it; the script sets the theme that was chosen."""
    answer = browser(people["ann"]).get(f"/trace/{run.public_id}/view")
    policy = answer.headers["Content-Security-Policy"]
    theme = f"http://testserver{static('latchkey/theme-early.js')}"
    assert f"; script-src {theme};" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    page = answer.content.decode()
    assert re.findall("<script.*", page) == [
        '<script src="/static/latchkey/theme-early.js"></script>'
    ]
    assert "style=" not in page
    assert "<style" not in page


def test_only_its_person_and_owners_see_a_run(people: dict[str, User], run: Run) -> None:
    """[M3] Other users get the answer for a missing run; anonymous clients sign in."""
    where = f"/trace/{run.public_id}/view"
    message = f"/agent/view/chart/chart-1?run={run.public_id}"
    assert browser(people["owner"]).get(where).status_code == 200
    assert browser(people["ben"]).get(where).status_code == 404
    assert browser(people["ben"]).get(message).status_code == 404
    assert browser(people["ann"]).get("/trace/AAAAAAAAAAAAAAAAAAAAAA/view").status_code == 404
    assert browser(people["ann"]).get("/trace/x/view").status_code == 404
    for address in (where, message, "/trace/AAAAAAAAAAAAAAAAAAAAAA/view"):
        answer = browser(None).get(address)
        assert answer.status_code == 302
        assert answer.headers["Location"].startswith("/sign-in?next=")


def test_a_link_of_a_message_leads_to_its_place(people: dict[str, User], run: Run) -> None:
    """[M3] The links of custom types."""
    address = f"/agent/view/chart/chart%2F1?run={run.public_id}"
    answer = browser(people["ann"]).get(address)
    assert answer.status_code == 302
    assert answer.headers["Location"] == f"/trace/{run.public_id}/view#chart-chart%2F1"
    assert browser(people["ann"]).get("/agent/view/chart/chart-1").status_code == 404


def test_a_thumb_is_stored_changed_and_taken_back(people: dict[str, User], run: Run) -> None:
    """One thumb a person and source; two retrievals may use the same id."""
    address = f"/api/runs/{run.public_id}/sources/s1/feedback"
    ann = browser(people["ann"])

    def thumb(**body: str) -> int:
        return ann.post(address, body, content_type="application/json").status_code

    assert thumb(verdict="up") == 200
    stored = SourceFeedback.objects.get()
    assert (stored.verdict, stored.title, stored.query) == ("up", "Paris", "capital")
    assert thumb(verdict="down") == 200
    assert thumb(verdict="up", message_id="found-2") == 200
    assert set(SourceFeedback.objects.values_list("message_id", "verdict")) == {
        ("found-1", "down"),
        ("found-2", "up"),
    }
    assert thumb(verdict="") == 200
    assert SourceFeedback.objects.count() == 1


def test_only_own_existing_sources_can_be_rated(people: dict[str, User], run: Run) -> None:
    """404 for another's run and for a source that the run does not have; 400 for another word."""
    body = {"verdict": "up"}
    here = f"/api/runs/{run.public_id}/sources"
    for user, address, status in [
        ("ben", f"{here}/s1/feedback", 404),
        ("owner", f"{here}/s1/feedback", 404),
        ("ann", f"{here}/s9/feedback", 404),
        ("ann", "/api/runs/x/sources/s1/feedback", 404),
    ]:
        answer = browser(people[user]).post(address, body, content_type="application/json")
        assert answer.status_code == status
    wrong = browser(people["ann"]).post(
        f"{here}/s1/feedback", {"verdict": "meh"}, content_type="application/json"
    )
    assert wrong.status_code == 400
    assert browser(None).post(f"{here}/s1/feedback", body).status_code in (401, 403)
    assert SourceFeedback.objects.count() == 0


def test_the_web_chat_rates_sources(people: dict[str, User], run: Run) -> None:
    """The address that the page's source cards use."""
    ann = browser(people["ann"])
    body = {"run_id": run.public_id, "source_id": "s1", "verdict": "down"}
    answer = ann.post("/chat/feedback", body, content_type="application/json")
    assert answer.json() == {"ok": True, "verdict": "down"}
    assert SourceFeedback.objects.get().verdict == "down"
    for wrong, status in [
        ({**body, "verdict": "meh"}, 400),
        ({**body, "verdict": 1}, 400),
        ({**body, "run_id": "x"}, 404),
    ]:
        answer = ann.post("/chat/feedback", wrong, content_type="application/json")
        assert answer.status_code == status
    assert "data-feedback" in ann.get("/").content.decode()


def test_the_owner_sees_the_thumbs(people: dict[str, User], run: Run) -> None:
    """In the admin, as text."""
    body = {"run_id": run.public_id, "source_id": "s1", "verdict": "down"}
    browser(people["ann"]).post("/chat/feedback", body, content_type="application/json")
    User.objects.filter(username="owner").update(is_staff=True, is_superuser=True)
    admin = browser(User.objects.get(username="owner"))
    page = admin.get("/admin/channels_app/sourcefeedback/").content.decode()
    assert "👎 not useful" in page
    assert "https://p.example" in page
    assert 'href="https://p.example"' not in page
