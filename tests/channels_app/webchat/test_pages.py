"""The pages and their JSON: sign-in, chats, transcript, headers ([A10] [D3] [M1] [T4], RQ17)."""

import re
from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt, AccessLog
from django.test import Client
from django.utils import timezone

from allowlist import sign_in as links
from channels_app.webchat import transcript, views
from core.conversations.sessions import delete
from core.files import storage
from core.messages import to_dict, tool_call_message, tool_end
from core.models import ChatSession, Message, Run, RunEvent, StoredFile, User
from core.signals import pubsub
from tests.channels_app.webchat.conftest import HOST, event, said, take, text

pytestmark = pytest.mark.django_db(transaction=True)
JSON = "application/json"


@pytest.fixture
def page(ada: User) -> Client:
    """Return a browser in which Ada is signed in."""
    client = Client(HTTP_HOST=HOST)
    client.force_login(ada)
    return client


def answered(user: User, words: str, answer: str, *, session_id: str = "") -> Run:
    """Store a message that was answered with ``answer`` in Markdown."""
    pen = take(said(user, words, session_id=session_id).public_id)
    pen.write(event("stream_start"), text(answer))
    pen.end(text=answer, format="markdown")
    return pen.run


# Signing in


def test_without_a_session_the_page_redirects_to_sign_in_and_back(db: None) -> None:
    answer = Client(HTTP_HOST=HOST).get("/c/abc")
    assert answer.status_code == 302
    assert answer["Location"] == "/sign-in?next=/c/abc"


@pytest.mark.parametrize("path", ["/", "/reminders"])
def test_a_monitor_may_ask_for_the_head_of_a_page(db: None, path: str) -> None:
    """Those that watch web sites do, and so does ``curl -I``."""
    assert Client(HTTP_HOST=HOST).head(path).status_code == 302


def test_a_password_signs_in_and_leads_back(ada: User) -> None:
    client = Client(HTTP_HOST=HOST, enforce_csrf_checks=True)
    form = client.get("/sign-in?next=/c/abc")
    token = form.cookies["csrftoken"].value
    fields = {"username": "ada", "password": "correct horse", "next": "/c/abc"}
    assert client.post("/sign-in", fields).status_code == 403
    answer = client.post("/sign-in", {**fields, "csrfmiddlewaretoken": token})
    assert answer["Location"] == "/c/abc"
    assert client.get("/").status_code == 200


def test_after_a_wrong_password_it_is_the_password_that_is_typed_again(ada: User) -> None:
    client = Client(HTTP_HOST=HOST)
    fields = {"username": "ada", "password": "wrong"}
    first, again = client.get("/sign-in"), client.post("/sign-in", fields)
    for found, name in ((first, "username"), (again, "password")):
        (field,) = re.findall(r'<input name="(\w+)"[^>]* autofocus', found.content.decode())
        assert field == name


@pytest.mark.parametrize(
    "target", ["https://evil.example", "//evil.example", "javascript:alert(1)"]
)
def test_sign_in_leads_to_no_foreign_address(ada: User, target: str) -> None:
    fields = {"username": "ada", "password": "correct horse", "next": target}
    assert Client(HTTP_HOST=HOST).post("/sign-in", fields)["Location"] == "/"


def test_rq17_a_wrong_password_and_an_unknown_user_are_answered_alike(ada: User) -> None:
    def answer(name: str) -> tuple[int, bytes]:
        fields = {"username": name, "password": "wrong"}
        found = Client(HTTP_HOST=HOST).post("/sign-in", fields)
        return found.status_code, found.content.replace(name.encode(), b"")

    first, second = answer("ada"), answer("zed")
    assert first[0] == second[0] == 401
    assert b"password is wrong" in first[1]
    assert len(first[1]) == len(second[1])


def test_rq17_twenty_wrong_passwords_lock_that_name_out_there(ada: User, settings: Any) -> None:
    settings.AXES_FAILURE_LIMIT = 3
    client = Client(HTTP_HOST=HOST)
    for _ in range(3):
        answer = client.post("/sign-in", {"username": "ada", "password": "wrong"})
    fields = {"username": "ada", "password": "correct horse", "next": "/c/abc"}
    answer = client.post("/sign-in", fields)
    assert answer.status_code == 429
    assert b"Too many wrong passwords" in answer.content
    assert b'name="next" value="/c/abc"' in answer.content


@pytest.mark.parametrize("address", ["203.0.113.7", "2001:db8::{:x}"])
def test_rq17_one_password_is_not_tried_on_every_name(
    ada: User, settings: Any, address: str
) -> None:
    """An address is counted before the password costs its hash, an IPv6 customer by the /64; a
    lockout of one name alone would let a guess a name through."""
    settings.WRONG_KEYS_PER_MINUTE = 5

    def attempt(number: int) -> Any:
        fields = {"username": f"user{number}", "password": "Summer2026"}
        client = Client(HTTP_HOST=HOST, REMOTE_ADDR=address.format(number))
        return client.post("/sign-in", fields)

    assert [attempt(number).status_code for number in range(5)] == [401] * 5
    refused = attempt(6)
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) in range(1, 61)
    assert AccessAttempt.objects.count() == 5
    right = {"username": "ada", "password": "correct horse"}
    assert Client(HTTP_HOST=HOST).post("/sign-in", right).status_code == 302


def test_rq17_attempted_user_names_are_deleted(ada: User) -> None:
    """One row per name: they would fill the table."""

    def fail(name: str) -> None:
        Client(HTTP_HOST=HOST).post("/sign-in", {"username": name, "password": "wrong"})

    fail("one")
    fail("two")
    AccessAttempt.objects.filter(username="one").update(
        attempt_time=timezone.now() - timedelta(days=1, seconds=1)
    )
    fail("three")
    assert {row.username for row in AccessAttempt.objects.all()} == {"two", "three"}
    assert not AccessLog.objects.exists()


def test_a_one_time_link_signs_in_once(ada: User) -> None:
    token = links.create(user=ada, now=timezone.now())
    first = Client(HTTP_HOST=HOST)
    assert first.post(f"/sign-in/{token}")["Location"] == "/"
    assert first.get("/").status_code == 200
    for again in (Client(HTTP_HOST=HOST).get, Client(HTTP_HOST=HOST).post):
        second = again(f"/sign-in/{token}")
        assert second.status_code == 403
        assert b"already been used" in second.content


def test_looking_at_a_link_changes_nothing_however_often(ada: User) -> None:
    """A link preview, a prefetch, a second opening: the page names the new user."""
    token = links.create(user=ada, now=timezone.now())
    client = Client(HTTP_HOST=HOST)
    for _ in range(3):
        assert client.head(f"/sign-in/{token}").status_code == 200
        shown = client.get(f"/sign-in/{token}")
        assert b"Sign in as Ada" in shown.content
        assert b"In this browser you are signed in" not in shown.content
        assert client.get("/").status_code == 302
    assert client.post(f"/sign-in/{token}").status_code == 302


def test_a_sign_in_link_on_a_foreign_page_switches_no_user_without_confirmation(
    ada: User, bob: User
) -> None:
    """GET names both people; the button's POST needs the token of the page."""
    token = links.create(user=bob, now=timezone.now())
    client = Client(HTTP_HOST=HOST, enforce_csrf_checks=True)
    client.force_login(ada)
    shown = client.get(f"/sign-in/{token}").content.decode()
    assert "In this browser you are signed in as Ada" in shown
    assert "Sign in as Bob" in shown
    foreign = client.post(f"/sign-in/{token}", headers={"Origin": "https://evil.example"})
    assert foreign.status_code == 403
    assert client.session["_auth_user_id"] == str(ada.pk)
    form = {"csrfmiddlewaretoken": client.cookies["csrftoken"].value}
    assert client.post(f"/sign-in/{token}", form).status_code == 302
    assert client.session["_auth_user_id"] == str(bob.pk)


def test_an_expired_or_invented_link_opens_nothing(ada: User) -> None:
    token = links.create(user=ada, now=timezone.now() - timedelta(days=2))
    for each in (token, "x", "%00", "a" * 5000):
        client = Client(HTTP_HOST=HOST)
        assert client.get(f"/sign-in/{each}").status_code == 403
        assert client.post(f"/sign-in/{each}").status_code == 403
        assert client.get("/").status_code == 302


def test_signing_out_needs_a_post_with_its_token_and_ends_the_session(
    page: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    monkeypatch.setattr(pubsub, "publish", told.extend)
    assert page.get("/sign-out").status_code == 405
    strict = Client(HTTP_HOST=HOST, enforce_csrf_checks=True)
    assert strict.post("/sign-out").status_code == 403
    assert page.post("/sign-out")["Location"] == "/sign-in"
    assert page.get("/").status_code == 302
    assert [frame["kind"] for frame in told] == ["revoked"]
    assert page.post("/sign-out")["Location"] == "/sign-in"


# The page


def test_the_page_shows_the_user_and_the_demo_model(page: Client, settings: Any) -> None:
    shown = page.get("/").content.decode()
    assert "Ada" in shown
    assert "demo model" not in shown
    assert "/admin/" in shown
    settings.LLM_IS_EMBEDDED = True
    shown = page.get("/").content.decode()
    assert "demo model" in shown
    assert "GATEWAY_MODEL_URL" in shown


def test_a_guest_is_not_shown_the_admin(bob: User) -> None:
    client = Client(HTTP_HOST=HOST)
    client.force_login(bob)
    assert "/admin/" not in client.get("/").content.decode()


def test_a_name_is_text(page: Client, ada: User) -> None:
    User.objects.filter(id=ada.id).update(display_name='"><script>alert(1)</script>')
    assert b"<script>alert" not in page.get("/").content


@pytest.mark.parametrize("path", ["/", "/sign-in", "/nothing-here", "/static/latchkey/chat.js"])
def test_rx3_rq17_every_answer_has_a_strict_policy(page: Client, path: str) -> None:
    answer = page.get(path)
    answer.close()
    policy = answer["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert "img-src 'self' data: blob:;" in policy
    assert "frame-ancestors 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy


def test_every_answer_has_the_other_headers(page: Client) -> None:
    answer = page.get("/")
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["Cross-Origin-Opener-Policy"] == "same-origin"
    assert answer["Cross-Origin-Resource-Policy"] == "same-origin"
    assert answer["Referrer-Policy"] == "same-origin"
    assert "camera=()" in answer["Permissions-Policy"]
    assert "no-store" in answer["Cache-Control"]


async def test_every_answer_has_them_under_asgi_too(async_client: Any, db: None) -> None:
    answer = await async_client.get("/sign-in", headers={"host": HOST})
    assert "default-src 'self'" in answer["Content-Security-Policy"]


def test_the_page_has_no_inline_script_or_style(page: Client) -> None:
    for path in ("/", "/sign-in"):
        shown = page.get(path).content.decode()
        assert "style=" not in shown
        assert "<style" not in shown
        assert "onclick" not in shown
        assert "<script>" not in shown


# The list of chats


def test_the_list_has_the_users_own_web_chats_latest_first(
    page: Client, ada: User, bob: User
) -> None:
    old = answered(ada, "First question", "Yes.")
    new = said(ada, "Second question")
    said(bob, "Not mine")
    said(ada, "Over HTTP", channel="http")
    found = page.get("/chat/sessions").json()["sessions"]
    assert [(each["title"], each["busy"]) for each in found] == [
        ("Second question", True),
        ("First question", False),
    ]
    assert [each["id"] for each in found] == [new.session.public_id, old.session.public_id]


def test_the_list_of_chats_says_that_there_are_older_ones(
    page: Client, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "SHOWN_CHATS", 1)
    for has_older, words in ((False, "first"), (True, "second")):
        answered(ada, words, "answer")
        found = page.get("/chat/sessions").json()
        assert [each["title"] for each in found["sessions"]] == [words]
        assert found["has_older"] is has_older


def test_signed_out_calls_get_a_401_in_json(db: None) -> None:
    answer = Client(HTTP_HOST=HOST).get("/chat/sessions")
    assert answer.status_code == 401
    assert answer.json()["error"] == "Sign in again."


def test_a_chat_is_renamed(page: Client, ada: User) -> None:
    session = said(ada, "Old title").session
    address = f"/chat/sessions/{session.public_id}"
    body = {"action": "rename", "title": " New\ntitle \x07"}
    assert page.post(address, body, content_type=JSON).json()["title"] == "New title"
    body = {"action": "rename", "title": "  "}
    assert page.post(address, body, content_type=JSON).json()["title"] == "New title"
    assert page.get("/chat/sessions").json()["sessions"][0]["title"] == "New title"


def test_rf2_a_deleted_chat_is_gone_with_its_runs_and_files(page: Client, ada: User) -> None:
    run = said(ada, "Delete me")
    file = storage.keep(user=ada, name="a.txt", content=b"secret", session_id=run.session_id)
    path = storage.folder() / file.path
    assert path.exists()
    address = f"/chat/sessions/{run.session.public_id}"
    assert page.post(address, {"action": "delete"}, content_type=JSON).json() == {"ok": True}
    assert not path.exists()
    for model in (ChatSession, Run, Message, RunEvent, StoredFile):
        assert not model.objects.exists()
    assert page.get(f"{address}/messages").status_code == 404


def test_a_deleted_chat_refuses_its_worker(ada: User) -> None:
    pen = take(said(ada, "Working").public_id)
    pen.write(event("stream_start"))
    delete(session=pen.run.session)
    pen.write(text("too late"))
    assert pen.log.lost


@pytest.mark.parametrize(
    "body",
    [
        "{",
        "[]",
        '{"action": "explode"}',
        '{"action": "rename"}',
        '{"action": "rename", "title": 5}',
        '{"a":1,"a":2}',
        "[" * 100_000,
    ],
)
def test_a_wrong_change_is_a_400_in_words(page: Client, ada: User, body: str) -> None:
    session = said(ada, "Mine").session
    answer = page.post(f"/chat/sessions/{session.public_id}", body, content_type=JSON)
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_another_persons_chat_answers_like_one_that_does_not_exist(page: Client, bob: User) -> None:
    session = said(bob, "Private").session
    for name in (session.public_id, "x" * 22, "x", "%00"):
        there = page.get(f"/chat/sessions/{name}/messages")
        gone = page.post(f"/chat/sessions/{name}", {"action": "delete"}, content_type=JSON)
        assert (there.status_code, gone.status_code) == (404, 404)
        assert there.json() == gone.json()
    assert ChatSession.objects.count() == 1


def test_rq17_a_change_without_its_token_is_refused(ada: User) -> None:
    client = Client(HTTP_HOST=HOST, enforce_csrf_checks=True)
    client.force_login(ada)
    session = said(ada, "Mine").session
    for address in (f"/chat/sessions/{session.public_id}", "/chat/settings"):
        answer = client.post(address, {"action": "delete"}, content_type=JSON)
        assert answer.status_code == 403
    assert ChatSession.objects.exists()


def test_the_switch_for_progress_is_stored(page: Client, ada: User) -> None:
    assert page.post("/chat/settings", {"show_progress": False}, content_type=JSON).json()["ok"]
    ada.refresh_from_db()
    assert ada.show_progress is False
    assert 'role="switch" checked' not in page.get("/").content.decode()
    wrong = page.post("/chat/settings", {"show_progress": "no"}, content_type=JSON)
    assert wrong.status_code == 400


# The transcript


def turns(page: Client, run: Run, query: str = "") -> dict[str, Any]:
    """Return the page's turns of the chat of ``run``."""
    answer = page.get(f"/chat/sessions/{run.session.public_id}/messages{query}")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def all_turns(page: Client, run: Run) -> list[dict[str, Any]]:
    """Return all turns of the chat of ``run``, page by page, the oldest first."""
    shown: list[dict[str, Any]] = []
    query = ""
    while True:
        found = turns(page, run, query)
        shown = found["turns"] + shown
        if found["earlier"] is None:
            return shown
        query = f"?before={found['earlier']}"


def test_m1_a_turn_comes_back_with_every_message_it_was_made_of(page: Client, ada: User) -> None:
    pen = take(said(ada, "Look it up").public_id)
    sources = [{"id": "s1", "type": "web", "content": "…", "url": "https://example.org"}]
    pen.write(
        event("stream_start"),
        {"type": "loading", "message_id": "l", "props": {"message": "Searching…"}},
        {"type": "retrieval", "message_id": "r", "props": {"query": "q", "sources": sources}},
        {"type": "action", "message_id": "a", "props": {"name": "navigate"}},
        text("Found **it**"),
    )
    pen.end(text="Found **it**", format="markdown", images=["data:image/png;base64,aGk="])
    found = turns(page, pen.run)
    (turn,) = found["turns"]
    assert turn["said"]["text"] == "Look it up"
    assert [part["type"] for part in turn["answer"]["parts"]] == ["retrieval", "text"]
    assert turn["answer"]["parts"][1]["html"] == "<p>Found <strong>it</strong></p>\n"
    assert turn["answer"]["images"] == ["data:image/png;base64,aGk="]
    assert (found["earlier"], found["session"]["title"]) == (None, "Look it up")


def test_m1_a_thumb_on_a_source_is_stored_shown_again_and_taken_back(
    page: Client, ada: User
) -> None:
    pen = take(said(ada, "Look it up").public_id)
    props = {"query": "q", "sources": [{"id": "s1", "type": "kb", "content": "…"}]}
    pen.write({"type": "retrieval", "message_id": "r", "props": props})
    pen.end(text="Found")
    thumb = {"run_id": pen.run.public_id, "message_id": "r", "source_id": "s1"}
    for verdict, shown in (("up", {"r": {"s1": "up"}}), ("down", {"r": {"s1": "down"}}), ("", {})):
        answer = page.post("/chat/feedback", {**thumb, "verdict": verdict}, content_type=JSON)
        assert answer.json() == {"ok": True, "verdict": verdict}
        assert turns(page, pen.run)["turns"][0]["answer"]["thumbs"] == shown
    for wrong in ({"verdict": "sideways"}, {"verdict": 1}, {"message_id": None}):
        body = {**thumb, "verdict": "up", **wrong}
        assert page.post("/chat/feedback", body, content_type=JSON).status_code == 400


def test_an_open_turn_has_no_answer_yet(page: Client, ada: User) -> None:
    run = said(ada, "Still thinking")
    (turn,) = turns(page, run)["turns"]
    assert (turn["run_id"], turn["state"], turn["answer"]) == (run.public_id, "queued", None)


def test_an_answer_whose_log_is_gone_is_its_text(page: Client, ada: User) -> None:
    run = answered(ada, "Old", "**kept**")
    RunEvent.objects.all().delete()
    (turn,) = turns(page, run)["turns"]
    (part,) = turn["answer"]["parts"]
    assert part["html"] == "<p><strong>kept</strong></p>\n"


def test_texts_retracted_after_a_worker_crash_are_not_shown(page: Client, ada: User) -> None:
    pen = take(said(ada, "Again").public_id)
    reset: Any = {**text(""), "delta_action": "set"}
    pen.write(text("half a tho"), reset, text("the answer", "text-2"))
    pen.end(text="the answer")
    (turn,) = turns(page, pen.run)["turns"]
    assert [part["props"]["content"] for part in turn["answer"]["parts"]] == ["the answer"]


def test_a_tool_that_failed_is_shown_so_after_a_reload(page: Client, ada: User) -> None:
    pen = take(said(ada, "Use both").public_id)
    for name, ok in (("good", True), ("bad", False)):
        call = tool_call_message(name, name, "{}", message_id=f"tool-{name}")
        pen.write(to_dict(call), to_dict(tool_end(call_id=name, name=name, ok=ok)))
    pen.end(text="done")
    (turn,) = turns(page, pen.run)["turns"]
    calls = [part for part in turn["answer"]["parts"] if part["type"] == "tool_call"]
    assert [(each["props"]["name"], each.get("failed")) for each in calls] == [
        ("good", None),
        ("bad", True),
    ]


def test_a_stopped_answer_keeps_its_part_and_says_so(page: Client, ada: User) -> None:
    pen = take(said(ada, "Stop").public_id)
    pen.write(text("half"))
    pen.end(state=Run.State.CANCELLED, text="half", error="Stopped.")
    (turn,) = turns(page, pen.run)["turns"]
    assert turn["answer"]["interrupted"] is True
    assert turn["answer"]["parts"][0]["props"]["content"] == "half"


def test_a_result_that_came_by_itself_is_a_turn_of_its_own(page: Client, ada: User) -> None:
    run = answered(ada, "Ask", "Answer")
    for words in ("One result", "Another"):
        Message.objects.create(session=run.session, role="assistant", text=words, format="plain")
    shown = turns(page, run)["turns"]
    assert [turn["said"] is None for turn in shown] == [False, True, True]
    assert shown[2]["answer"]["parts"][0]["html"] == '<p class="plain">Another</p>'


def test_long_chats_come_in_pages_and_no_turn_is_cut_or_lost(
    page: Client, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript, "PAGE_MESSAGES", 3)
    run = answered(ada, "q0", "a0")
    for number in range(1, 4):
        answered(ada, f"q{number}", f"a{number}", session_id=run.session.public_id)
    shown = all_turns(page, run)
    assert all(turn["said"] and turn["answer"] for turn in shown)
    assert [turn["said"]["text"] for turn in shown] == ["q0", "q1", "q2", "q3"]


@pytest.mark.parametrize("rows", range(1, 9))
def test_questions_asked_before_an_answer_are_each_shown_with_their_own(
    page: Client, ada: User, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """Wherever a page begins; an answer may be stored after the next questions."""
    first = answered(ada, "q0", "a0")
    chat = first.session.public_id
    several = [said(ada, f"q{number}", session_id=chat) for number in (1, 2, 3)]
    for number, run in enumerate(several[:2], 1):
        take(run.public_id).end(text=f"a{number}")
    Message.objects.create(session=first.session, role="assistant", text="By itself")
    monkeypatch.setattr(transcript, "PAGE_MESSAGES", rows)
    shown = [
        ((turn["said"] or {}).get("text", ""), (turn["answer"] or {}).get("text", ""))
        for turn in all_turns(page, first)
    ]
    assert shown == [("q0", "a0"), ("q1", "a1"), ("q2", "a2"), ("q3", ""), ("", "By itself")]


@pytest.mark.parametrize("before", ["-1", "abc", "1_0", "１", "9" * 30])
def test_a_wrong_page_number_is_a_400(page: Client, ada: User, before: str) -> None:
    run = said(ada, "Hello")
    path = f"/chat/sessions/{run.session.public_id}/messages"
    assert page.get(path, {"before": before}).status_code == 400


def test_the_icon_that_browsers_guess_is_there(client: Client) -> None:
    answer = client.get("/favicon.ico")
    assert answer.status_code == 302
    assert answer["Location"].endswith("/latchkey/mark.svg")
