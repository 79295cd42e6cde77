"""The REST API [D9]: only the user's own objects."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client as Anyone
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings
from rest_framework.test import APIClient

from allowlist import keys, pending_count
from allowlist.models import UnknownRequest
from channels_app.asgi import builtin_accounts
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.intake.inbound import receive_personal, receive_sender
from core.conversations.inbox import Draft
from core.files import storage
from core.models import ChannelAccount, ChatSession, Delivery, InboundMessage, Run, User
from tests.channels_app.api.conftest import Client

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def owner() -> User:
    return User.objects.create(username="owner", is_owner=True)


@pytest.fixture
def guest() -> User:
    """Another user."""
    return User.objects.create(username="guest")


def said(user: User, text: str) -> Run:
    """Return a queued run of ``user``."""
    draft = Draft(account=builtin_account("http"), text=text)
    receipt = receive_personal(user=user, draft=draft, session_id="", now=timezone.now())
    assert receipt.run is not None
    return receipt.run


def recorded(sender: str) -> str:
    """Return the public id of an unknown request."""
    account, _ = ChannelAccount.objects.get_or_create(channel="bridge", name="mail")
    draft = Draft(account=account, sender=sender, text="hello?", chat=sender)
    assert receive_sender(draft=draft, now=timezone.now()).outcome == "denied"
    return str(UnknownRequest.objects.get(sender=sender).public_id)


def test_d9_without_a_key_everything_is_401_in_the_common_shape() -> None:
    """A challenge, and JSON."""
    for path in ("sessions", "files", "requests", "runs/x"):
        answer = APIClient().get(f"/api/{path}")
        assert answer.status_code == 401
        assert answer.json()["ok"] is False
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_a10_a_revoked_expired_or_bridge_key_is_401(owner: User, client: Client) -> None:
    """Every one of them like no key at all."""
    key, token = keys.create(name="old", user=owner, scopes=["chat"])
    keys.revoke(key=key, actor="test", now=timezone.now())
    past = timezone.now() - timedelta(days=1)
    _, expired = keys.create(name="expired", user=owner, scopes=["chat"], expires_at=past)
    bridge = ChannelAccount.objects.create(channel="bridge")
    _, other = keys.create(name="bridge", account=bridge, scopes=["chat"])
    for wrong in (token, expired, other, "lk_00_00", "nonsense"):
        answer = APIClient().get("/api/sessions", headers={"X-API-Key": wrong})
        assert answer.status_code == 401


def test_a10_a_key_without_the_scope_is_403(owner: User, client: Client) -> None:
    """``inbound`` does not read transcripts, ``chat`` does not decide."""
    refused = client(owner, "inbound").get("/api/sessions")
    assert (refused.status_code, refused.json()["error"]) == (403, "This key has no scope 'chat'.")
    refused = client(owner, "chat").get("/api/requests")
    assert refused.status_code == 403
    assert refused.json()["error"] == "This key has no scope 'admin:requests'."


def test_a_change_of_a_session_writes_nothing_that_others_write(
    owner: User, client: Client
) -> None:
    """Such as the time at which its waiting messages become a run."""
    me = client(owner)
    where = f"/api/sessions/{me.post('/api/sessions', {}, format='json').json()['id']}"
    body = {"title": "Plans", "assistant": None}
    with CaptureQueriesContext(connection) as asked:
        assert me.patch(where, body, format="json").status_code == 200
    written = [each["sql"] for each in asked if each["sql"].startswith("UPDATE")]
    changed = " ".join(each for each in written if "core_chatsession" in each)
    assert '"title" =' in changed
    assert "flush_at" not in changed
    assert "history_from" not in changed


def test_d9_a_session_is_begun_renamed_listed_and_deleted(owner: User, client: Client) -> None:
    """The life of a conversation."""
    me = client(owner)
    made = me.post("/api/sessions", {"title": "Plans"}, format="json")
    assert made.status_code == 201
    where = f"/api/sessions/{made.json()['id']}"
    assert me.patch(where, {"title": "Other plans"}, format="json").status_code == 200
    assert [row["title"] for row in me.get("/api/sessions").json()["results"]] == ["Other plans"]
    assert me.delete(where).status_code == 204
    assert me.get(where).status_code == 404
    assert me.get("/api/sessions").json()["results"] == []
    assert not ChatSession.objects.exists()


def test_d9_foreign_objects_answer_like_missing_ones(
    owner: User, guest: User, client: Client
) -> None:
    """404 with the same body."""
    run = said(owner, "secret plans")
    other = client(guest)
    missing = "A" * 22
    for path in ("sessions/{}", "sessions/{}/messages", "runs/{}"):
        own_id = run.session.public_id if "sessions" in path else run.public_id
        foreign = other.get("/api/" + path.format(own_id))
        absent = other.get("/api/" + path.format(missing))
        assert (foreign.status_code, foreign.json()) == (absent.status_code, absent.json())
        assert foreign.status_code == 404
    assert other.get("/api/runs/..%2F").status_code == 404
    assert other.post(f"/api/runs/{run.public_id}/cancel").status_code == 404


def test_d9_a_transcript_and_a_run_are_readable(owner: User, client: Client) -> None:
    """The messages, and the run that answers them."""
    run = said(owner, "hello")
    me = client(owner)
    lines = me.get(f"/api/sessions/{run.session.public_id}/messages").json()["results"]
    assert [(line["role"], line["text"]) for line in lines] == [("user", "hello")]
    shown = me.get(f"/api/runs/{run.public_id}").json()
    assert (shown["state"], shown["session_id"]) == ("queued", run.session.public_id)
    assert me.post(f"/api/runs/{run.public_id}/cancel").json() == {"cancelled": True}
    Run.objects.update(state=Run.State.CANCELLED)
    assert me.post(f"/api/runs/{run.public_id}/cancel").json() == {"cancelled": False}


def test_d9_files_created_in_a_session_are_listed_there(
    owner: User, guest: User, client: Client
) -> None:
    """Not the uploads, and nothing for other users."""
    name = (
        client(owner)
        .post("/api/sessions", {"title": "t"}, content_type="application/json")
        .json()["id"]
    )
    mine = ChatSession.objects.get(public_id=name)
    made = storage.keep(
        user=owner, name="deck.pptx", content=b"x", origin=storage.MADE, session_id=mine.pk
    )
    storage.keep(user=owner, name="sent.txt", content=b"y", session_id=mine.pk)
    path = f"/api/sessions/{mine.public_id}/files"
    rows = client(owner).get(path).json()["results"]
    assert [row["id"] for row in rows] == [made.public_id]
    assert client(guest).get(path).status_code == 404


def test_d9_files_are_listed_without_paths(owner: User, guest: User, client: Client) -> None:
    """Only one's own, and nothing about where they are."""
    kept = storage.keep(user=owner, name="../../report\r\n.pdf", content=b"%PDF")
    rows = client(owner).get("/api/files").json()["results"]
    assert [row["id"] for row in rows] == [kept.public_id]
    assert "path" not in rows[0]
    assert "\n" not in rows[0]["name"]
    assert client(guest).get("/api/files").json()["results"] == []


def test_a6_an_owner_decides_over_the_api_and_the_second_gets_the_first_decision(
    owner: User, client: Client
) -> None:
    """First decision wins; the held message runs once [A7]."""
    request = recorded("eve")
    me = client(owner, "admin:requests")
    assert [row["sender"] for row in me.get("/api/requests").json()["results"]] == ["eve"]
    where = f"/api/requests/{request}/decision"
    first = me.post(where, {"verdict": "approve"}, format="json").json()
    assert (first["first"], first["replayed"], first["request"]["state"]) == (True, 1, "approved")
    second = me.post(where, {"verdict": "block"}, format="json").json()
    assert second["first"] is False
    assert "lready approved by owner" in second["text"]
    assert InboundMessage.objects.get(sender="eve").state == InboundMessage.State.BATCHED
    assert Run.objects.filter(text="hello?").count() == 1


def test_a6_a_decision_over_the_api_takes_the_buttons_of_the_notice_away(
    owner: User, client: Client
) -> None:
    """As every other decision does: an old button would decide nothing."""
    memory = ChannelAccount.objects.create(channel="memory", name="main")
    User.objects.update(last_account=memory, last_target={"chat": "own", "thread": ""})
    request = recorded("eve")
    notice = Delivery.objects.get(target__chat="own")
    assert notice.payload["buttons"]
    answer = client(owner, "admin:requests").post(
        f"/api/requests/{request}/decision", {"verdict": "deny"}, format="json"
    )
    notice.refresh_from_db()
    assert "buttons" not in notice.payload
    assert notice.payload["text"].endswith(answer.json()["text"])


def test_a6_a_sender_that_cannot_be_listed_is_a_400(owner: User, client: Client) -> None:
    """The sentence says why; the request waits on."""
    telegram = ChannelAccount.objects.create(channel="telegram", name="main")
    draft = Draft(account=telegram, sender="not a number", text="hello?", chat="1")
    receive_sender(draft=draft, now=timezone.now())
    request = UnknownRequest.objects.get().public_id
    answer = client(owner, "admin:requests").post(
        f"/api/requests/{request}/decision", {"verdict": "approve"}, format="json"
    )
    assert (answer.status_code, answer.json()["field"]) == (400, "verdict")
    assert pending_count.count() == 1


def test_a6_only_owners_decide(guest: User, client: Client) -> None:
    """A guest's key with the scope is still a guest's."""
    request = recorded("eve")
    answer = client(guest, "admin:requests").post(
        f"/api/requests/{request}/decision", {"verdict": "approve"}, format="json"
    )
    assert answer.status_code == 403
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"not json", ""),
        (b'{"verdict": "shrug"}', "verdict"),
        (b'{"verdict": NaN}', ""),
        (b"[" * 100_000, ""),
        (b'{"verdict": "deny", "verdict": "approve"}', ""),
        (b"\xff\xfe", ""),
        (b"{}", "verdict"),
    ],
)
def test_ri9_bad_bodies_are_400_and_name_the_field(
    owner: User, client: Client, body: bytes, field: str
) -> None:
    """Never a 500, and nothing is decided."""
    request = recorded("eve")
    answer = client(owner, "admin:requests").post(
        f"/api/requests/{request}/decision", data=body, content_type="application/json"
    )
    assert answer.status_code == 400
    assert answer.json().get("field", "") == field
    assert pending_count.count() == 1


def test_a6_an_unknown_request_that_does_not_exist_is_404(owner: User, client: Client) -> None:
    """A forged id."""
    answer = client(owner, "admin:requests").post(
        f"/api/requests/{'A' * 22}/decision", {"verdict": "deny"}, format="json"
    )
    assert answer.status_code == 404


def test_rw13_titles_with_characters_that_are_not_text_are_refused(
    owner: User, client: Client
) -> None:
    """NUL and lone surrogates never reach a database."""
    for title in ('"a\\u0000b"', '"a\\ud800b"'):
        answer = client(owner).post(
            "/api/sessions", data=f'{{"title": {title}}}', content_type="application/json"
        )
        assert answer.status_code == 400
        assert answer.json()["field"] == "title"


def test_d9_the_openapi_document_is_there(owner: User, client: Client) -> None:
    """For tools."""
    answer = client(owner).get("/api/schema")
    assert answer.status_code == 200
    assert b"/api/sessions" in answer.content


def test_ri17_too_many_requests_of_a_person_are_429_and_say_when_to_come_back(
    owner: User, client: Client, settings: Settings
) -> None:
    """In the shape of every other error."""
    settings.RATE_PER_MINUTE_USER = 2
    me = client(owner, "admin:requests")
    assert [me.get("/api/requests").status_code for _ in range(3)] == [200, 200, 429]
    refused = me.get("/api/requests")
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert (refused.json()["ok"], refused.json()["status"]) == (False, 429)


def test_the_account_of_a_builtin_channel_is_cached(
    django_assert_num_queries: Any,
) -> None:
    """It is created when it is first needed, and read with every message.

    Not cached by the transaction that creates it, which may be rolled back.
    """
    made = builtin_account("http")
    with django_assert_num_queries(1):
        first = builtin_account("http")
    assert first == made
    with django_assert_num_queries(0):
        assert builtin_account("http") is first
    builtin_accounts.accounts.clear()
    with django_assert_num_queries(1):
        assert builtin_account("http") == first


@pytest.mark.parametrize("number", [2**31, 2**63, 10**30])
@pytest.mark.parametrize("of", ["sessions", "agent-sessions", "files", "requests"])
def test_pages_without_end_are_pages(owner: User, client: Client, of: str, number: int) -> None:
    """A database refuses such numbers; found by the fuzzer."""
    said(owner, "hello")
    storage.keep(user=owner, name="a.txt", content=b"a")
    asking = client(owner, "chat", "admin:requests", "send_result")
    for name in ("limit", "offset"):
        assert asking.get(f"/api/{of}", {name: str(number)}).status_code == 200


@pytest.mark.parametrize("query", ["null", "-1", "1.5", "", "x", "٣", "0x10"])
@pytest.mark.parametrize("name", ["limit", "offset"])
def test_invalid_page_numbers_are_refused(
    owner: User, client: Client, name: str, query: str
) -> None:
    """As the document says; a page of another place would be read as the right one."""
    answer = client(owner).get("/api/files", {name: query})
    assert (answer.status_code, answer.json()["field"]) == (400, name)


@pytest.mark.parametrize("title", [0, 1.5, True, ["x"], {}])
def test_a_title_is_a_text(owner: User, client: Client, title: object) -> None:
    """A number is refused as the document says, not written as its digits."""
    answer = client(owner).post("/api/sessions", {"title": title}, format="json")
    assert (answer.status_code, answer.json()["field"]) == (400, "title")


@pytest.mark.parametrize("path", ["x", "x%0Ay", "%0A", "sessions/%0A/none", "runs/x/y/z"])
def test_any_other_address_of_the_api_is_404_in_json(
    owner: User, client: Client, path: str
) -> None:
    """A line end does not lead out of the interface, to a page of HTML."""
    answer = client(owner).get(f"/api/{path}")
    assert (answer.status_code, answer.json()["ok"]) == (404, False)


@pytest.mark.parametrize("path", ["/inbound/", "/ag-ui/", "/nowhere"])
def test_a_program_gets_no_page_at_an_unknown_address(db: None, path: str) -> None:
    """A browser does."""
    client = Anyone()
    answer = client.post(path, "{}", content_type="application/json", headers={"Accept": "*/*"})
    assert answer.status_code == 404
    assert answer.json()["error"] == "There is no such address."
    shown = client.get(path, headers={"Accept": "text/html,*/*;q=0.8"})
    assert shown.status_code == 404
    assert "Page not found" in shown.content.decode()


@pytest.mark.parametrize("state", ["", "done", "queued&state=x"])
def test_a_state_that_is_none_is_refused(owner: User, client: Client, state: str) -> None:
    """As the document says; an empty one does not mean all states."""
    answer = client(owner).get(f"/api/runs?state={state}")
    assert (answer.status_code, answer.json()["field"]) == (400, "state")
