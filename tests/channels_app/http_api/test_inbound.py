"""[D1] [D2] ``POST /inbound`` and the event stream of a run, through a real gateway."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import psutil
import pytest

from tests.channels_app.client import Client, Event, counts, events, people, query, when_free
from tests.channels_app.conftest import INJECTION
from tests.gateways import Gateway
from tests.servers import wait_until

pytestmark = pytest.mark.slow
PAIR = """
from core.models import ChannelIdentity
for name in ("pair-a", "pair-b"):
    user = User.objects.create(username=name, only_listed=True)
    ChannelIdentity.objects.create(user=user, kind="im", channel="bridge", value=name)
"""
PROGRESS = {"event": "progress", "message": "Processing your request…", "tool": ""}


def events_of(gateway: Gateway, run: str) -> int:
    """Return how many events the log of a run has."""
    rows = query(
        gateway,
        "SELECT count(*) FROM core_runevent e JOIN core_run r ON r.id = e.run_id "
        f"WHERE r.public_id = '{run}'",
    )
    return int(rows[0][0])


def ended(client: Client, run_id: str) -> bool:
    """Return whether the run has its answer."""
    return client.result(run_id).status != 202


def test_d1_a_message_is_answered(ada: Client) -> None:
    answer = ada.say("hello **you**")
    assert answer.status == 200
    body = answer.body
    assert (body["ok"], body["status"], body["text"], body["format"]) == (
        True, 200, "hello **you**", "markdown",
    )  # fmt: skip
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert ada.result(body["run_id"]).raw == answer.raw


def test_d1_a_session_goes_on_and_is_remembered(ada: Client, gateway: Gateway) -> None:
    first = ada.say("my name is Ada", user_id="a label").body
    second = ada.say("and now?", session_id=first["session_id"]).body
    assert second["session_id"] == first["session_id"]
    rows = query(
        gateway,
        "SELECT m.role, m.text FROM core_message m JOIN core_chatsession s ON s.id = m.session_id "
        f"WHERE s.public_id = '{first['session_id']}' ORDER BY m.id",
    )
    assert [row[0] for row in rows] == ["user", "assistant", "user", "assistant"]


def test_d1_a_tool_is_used(ada: Client) -> None:
    answer = ada.say("time please").body
    assert answer["text"] == "Wait.\n\nIt is what it is."


@pytest.mark.parametrize(
    ("asked", "text", "error"),
    [
        ("fail", "", "The key is wrong."),
        ("half", "half an answer", "Gone."),
        ("busy", "", "Busy."),
    ],
)
def test_d1_a_failing_model_is_reported_and_the_partial_answer_stays(
    asked: str, text: str, error: str, ada: Client
) -> None:
    answer = ada.say(asked)
    assert answer.status == 502
    assert (answer.body["ok"], answer.body["text"]) == (False, text)
    assert error in answer.body["error"]


def test_rw13_an_answer_that_no_database_holds_arrives_clean(ada: Client) -> None:
    assert ada.say("nul").body["text"] == "ab"


def test_d1_async_answers_at_once_and_the_result_is_fetched_later(ada: Client) -> None:
    run = ada.start("slow one")
    pending = ada.result(run)
    assert (pending.status, pending.body["state"], pending.body["run_id"]) == (202, "pending", run)
    wait_until(lambda: ended(ada, run), seconds=20)
    assert ada.result(run).body["text"].count("word") == 60


def test_c9_cancel_keeps_the_part_that_was_said(ada: Client) -> None:
    run = ada.start("hang")
    wait_until(lambda: events_of(ada.gateway, run) > 2, seconds=10)
    assert ada.post("/inbound/cancel", {"run_id": run}).body["cancelled"] is True
    wait_until(lambda: ended(ada, run), seconds=5)
    result = ada.result(run)
    assert (result.status, result.body["ok"]) == (409, False)
    assert result.body["text"].strip() == "before"
    assert ada.post("/inbound/cancel", {"run_id": run}).body["cancelled"] is False


def test_c9_a_queued_run_is_cancelled_without_waiting_for_its_turn(ada: Client) -> None:
    session = ada.say("hi").body["session_id"]
    running = ada.start("hang", session_id=session)
    queued = ada.start("hi", session_id=session)
    ada.post("/inbound/cancel", {"run_id": queued})
    wait_until(lambda: ended(ada, queued), seconds=5)
    assert ada.result(queued).status == 409
    assert ada.result(running).status == 202
    kinds = [event.data["event"] for event in ada.follow(queued)]
    assert kinds == ["done"]
    ada.post("/inbound/cancel", {"run_id": running})
    wait_until(lambda: ended(ada, running), seconds=5)


def test_d1_an_idempotency_key_makes_a_repeated_request_the_same_run(
    ada: Client, bob: Client
) -> None:
    with ThreadPoolExecutor(10) as pool:
        answers = list(
            pool.map(
                lambda _: ada.post("/inbound", {"text": "once"}, Idempotency_Key="k1"), range(20)
            )
        )
    assert {answer.status for answer in answers} == {200}
    assert len({answer.body["run_id"] for answer in answers}) == 1
    other = bob.post("/inbound", {"text": "once"}, Idempotency_Key="k1").body
    assert other["run_id"] != answers[0].body["run_id"]


def test_d1_an_idempotency_key_that_is_too_long_is_refused(ada: Client) -> None:
    answer = ada.post("/inbound", {"text": "x"}, Idempotency_Key="k" * 200)
    assert (answer.status, answer.body["field"]) == (400, "Idempotency-Key")


def test_d2_a_stream_begins_at_once_and_ends_with_one_done(ada: Client) -> None:
    found = ada.stream("POST", "/inbound", {"text": "hello", "stream": True})
    ids = {name: found[-1].data[name] for name in ("run_id", "session_id")}
    assert (found[0].id, found[0].data) == ("", {**PROGRESS, **ids})
    done = [event for event in found if event.data["event"] == "done"]
    assert [event.id for event in done] == [found[-1].id]
    body = {name: value for name, value in done[0].data.items() if name != "event"}
    assert body == ada.result(body["run_id"]).body


def test_d2_the_headers_of_a_stream_are_those_of_the_contract(ada: Client) -> None:
    with ada.request("POST", "/inbound", b'{"text": "a", "stream": true}') as response:
        assert response.getheader("Content-Type") == "text/event-stream; charset=utf-8"
        assert response.getheader("Cache-Control") == "no-cache"
        assert response.getheader("X-Accel-Buffering") == "no"
        response.read()


def test_d2_a_client_that_was_cut_off_resumes_by_the_first_event(ada: Client) -> None:
    """[D1] The first event and the headers name the run; so does the list of one's runs."""
    body = json.dumps({"text": "slow cut", "stream": True}).encode()
    with ada.request("POST", "/inbound", body) as response:
        header = response.getheader("X-Run-Id")
        first = next(events(response)).data
    assert first["run_id"] == header
    listed = ada.get(f"/api/runs?session_id={first['session_id']}").body["results"]
    assert [row["id"] for row in listed][:1] == [header]
    rest = ada.stream("GET", f"/runs/{header}/events", Last_Event_ID="0")
    assert rest[-1].data["text"].count("word") == 60
    assert rest[-1].data["session_id"] == first["session_id"]


def test_c9_a_client_that_was_cut_off_cancels_by_the_first_event(ada: Client) -> None:
    """[D1] Nothing but the first event is known of the run."""
    found = ada.stream("POST", "/inbound", {"text": "hang cut", "stream": True}, stop_after=1)
    run = found[0].data["run_id"]
    assert ada.post("/inbound/cancel", {"run_id": run}).body["cancelled"] is True
    wait_until(lambda: ended(ada, run), seconds=20)
    assert ada.result(run).status == 409


def test_d2_a_client_without_the_first_event_resumes_by_its_key(ada: Client) -> None:
    """[D1] The same request with the same Idempotency-Key is the same stream."""
    body = {"text": "slow keyed", "stream": True}
    cut = ada.stream("POST", "/inbound", body, stop_after=1, Idempotency_Key="cut")
    whole = ada.stream("POST", "/inbound", body, Idempotency_Key="cut")
    assert whole[0].data == cut[0].data
    assert whole[-1].data["text"].count("word") == 60
    assert ada.post("/inbound", {**body, "text": "x"}, Idempotency_Key="cut").status == 422


def test_d1_two_senders_of_a_bridge_with_one_key_get_their_own_answers(gateway: Gateway) -> None:
    """[A3] [A10] An unlisted one gets none, and their message is held."""
    bridge = people(gateway, number=0, name="pair", more=PAIR)[0]
    said = {"text": "hello", "user_id": "pair-a"}
    first = bridge.post("/inbound", said, Idempotency_Key="shared")
    other = bridge.post("/inbound", {**said, "user_id": "pair-b"}, Idempotency_Key="shared")
    assert (first.status, other.status) == (200, 200)
    for name in ("run_id", "session_id"):
        assert first.body[name] != other.body[name]
    stranger = bridge.post("/inbound", {**said, "user_id": "pair-c"}, Idempotency_Key="shared")
    assert stranger.status == 401
    assert not {first.body["run_id"], first.body["session_id"]} & set(stranger.headers.values())
    assert stranger.body["text"] == ""
    held = "SELECT state, text FROM core_inboundmessage WHERE sender = 'pair-c'"
    assert query(gateway, held) == [("held", "hello")]
    again = bridge.post("/inbound", said, Idempotency_Key="shared")
    assert again.raw == first.raw
    changed = bridge.post("/inbound", {**said, "text": "bye"}, Idempotency_Key="shared")
    assert (changed.status, changed.body["field"]) == (422, "Idempotency-Key")
    name = first.body["run_id"]
    assert bridge.get(f"/inbound/result?run_id={name}&user_id=pair-a").raw == first.raw
    assert bridge.get(f"/inbound/result?run_id={name}&user_id=pair-b").status == 404


def test_d1_without_a_session_the_conversation_of_a_label_goes_on(
    crowd: list[Client], gateway: Gateway
) -> None:
    """``user_id`` with a personal key is a label, never the sender [A10]."""
    eve, fay = crowd[40:42]
    first = eve.say("my name is Eve", user_id="phone").body
    second = eve.say("and now?", user_id="phone").body
    other = eve.say("hello", user_id="laptop").body
    foreign = fay.say("hello", user_id="phone").body
    assert second["session_id"] == first["session_id"]
    assert len({first["session_id"], other["session_id"], foreign["session_id"]}) == 3
    messages = eve.get(f"/api/sessions/{first['session_id']}/messages").body["results"]
    assert [row["text"] for row in messages][::-1][::2] == ["my name is Eve", "and now?"]


def test_c8_commands_are_obeyed_at_inbound(crowd: list[Client]) -> None:
    """[C8] The gateway answers them; they are not sent to the model."""
    gil = crowd[42]
    helped = gil.say("/help").body
    assert (helped["ok"], "/status" in helped["text"]) == (True, True)
    gil.say("the word is heron")
    assert gil.say("/whoami").body["text"].startswith("You are ")
    assert gil.say("/status").body["text"].startswith("Answers being written: 0.")
    done = gil.stream("POST", "/inbound", {"text": "/new", "stream": True})[-1].data
    assert (done["event"], done["text"]) == ("done", "A new conversation begins.")
    assert gil.say("/requests").body["text"] == "Only the owner can do that."
    rows = gil.get(f"/api/sessions/{helped['session_id']}/messages").body["results"]
    assert "/help" in [row["text"] for row in rows]


def test_d1_a_body_that_does_not_say_that_it_is_json_is_refused(ada: Client) -> None:
    """415 names the header; a form of another site's page could send the others."""
    kinds = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
    for kind in (*kinds, "", "application/json; charset=latin-1"):
        answer = ada.call("POST", "/inbound", b'{"text": "x"}', Content_Type=kind)
        assert (answer.status, answer.body["field"]) == (415, "Content-Type"), kind
    for kind in ("application/json", "Application/JSON; charset=UTF-8", "application/x+json"):
        body = b'{"text": "x", "async": true}'
        assert ada.call("POST", "/inbound", body, Content_Type=kind).status == 202, kind


def test_a10_a_key_without_the_scope_is_told_its_name(gateway: Gateway) -> None:
    """In the form that the admin and the documents use."""
    code = "from allowlist import keys; from core.models import User; print('KEY', keys.create("
    code += "name='c', user=User.objects.first(), scopes=['chat'])[1])"
    output = gateway.manage("shell", "-v0", "-c", code)
    token = next(line for line in output.splitlines() if line.startswith("KEY"))[4:]
    answer = Client(gateway, token).say("x")
    assert (answer.status, answer.body["error"]) == (403, "This key has no scope 'inbound'.")


def test_d9_an_unknown_address_of_the_rest_interface_is_json(ada: Client) -> None:
    for method in ("GET", "POST"):
        answer = ada.call(method, "/api/nothing/here")
        assert (answer.status, answer.body["ok"]) == (404, False)


def test_ri14_an_answer_cannot_forge_events(ada: Client) -> None:
    found = ada.stream("POST", "/inbound", {"text": "inject", "stream": True})
    assert [event.data["event"] for event in found].count("done") == 1
    assert found[-1].data["text"] == INJECTION


@pytest.mark.parametrize("text", ["time please", "busy", "half", "slow"])
def test_d2_a_stream_cut_after_every_event_and_resumed_is_the_same_bytes(
    text: str, ada: Client
) -> None:
    whole = ada.stream("POST", "/inbound", {"text": text, "stream": True})
    run = whole[-1].data["run_id"]
    uncut = b"".join(event.raw for event in whole[1:])
    assert b"".join(event.raw for event in ada.follow(run)) == uncut
    for number in range(1, len(whole) + 1):
        first = whole[:number]
        last = next((event.id for event in reversed(first) if event.id), "0")
        rest = ada.stream("GET", f"/runs/{run}/events", Last_Event_ID=last)
        assert [event.raw for event in [*first, *rest]] == [event.raw for event in whole]
        again = ada.stream("GET", f"/runs/{run}/events?after={last}")
        assert again == rest


def test_d2_a_live_stream_that_is_cut_and_resumed_over_and_over_is_whole(ada: Client) -> None:
    run = ada.start("busy")
    found: list[Event] = []
    last = "0"
    while not found or found[-1].data["event"] != "done":
        part = ada.stream("GET", f"/runs/{run}/events", stop_after=1, Last_Event_ID=last)
        assert part
        found += part
        last = part[-1].id
    assert [event.raw for event in found] == [event.raw for event in ada.follow(run)]


def test_ri12_a_run_goes_on_when_its_client_leaves(ada: Client) -> None:
    found = ada.stream("POST", "/inbound", {"text": "slow", "stream": True}, stop_after=1)
    run = found[0].data["run_id"]
    wait_until(lambda: ended(ada, run), seconds=20)
    assert ada.follow(run)[-1].data["text"].count("word") == 60


def test_ri13_a_reader_that_stalls_is_cut_off_and_can_resume(ada: Client, gateway: Gateway) -> None:
    """The rest of a huge answer waits in the database, not in the memory of the web process."""
    run = ada.start("huge")
    wait_until(lambda: ended(ada, run), seconds=30)
    sizes = []
    for stalled in range(16, 16 * 7, 16):
        with ExitStack() as readers:
            for _ in range(16):
                readers.enter_context(ada.request("GET", f"/runs/{run}/events"))
            wait_until(partial(is_cut_off, gateway, stalled), seconds=20)
            sizes.append(memory(gateway))
    # The first sixteen set the baseline; if answers were kept, four more rounds would add
    # 400 MB to it. The allocator's own share varies by a quarter of that.
    assert sizes[-1] - sizes[1] < 250_000, sizes
    done = ada.follow(run)[-1]
    assert len(done.data["text"]) > 6_000_000


def is_cut_off(gateway: Gateway, readers: int) -> bool:
    """Return whether so many readers were cut off."""
    return gateway.log("web").count("without completing") >= readers


def memory(gateway: Gateway) -> int:
    """Return the resident memory of the web process in kB."""
    return int(psutil.Process(gateway.pid("web")).memory_info().rss // 1024)


def test_a3_an_unknown_sender_of_a_bridge_is_refused_and_recorded(
    bridge: Client, gateway: Gateway
) -> None:
    before = counts(gateway)
    for _ in range(3):
        answer = bridge.say("let me in", user_id="stranger-1", user_name="Eve")
        assert answer.status == 401
        assert answer.body == {
            "ok": False, "status": 401, "error": "Permission denied", "text": "", "format": "plain",
        }  # fmt: skip
    rows = query(
        gateway,
        "SELECT count, sender_name FROM allowlist_unknownrequest WHERE sender = 'stranger-1'",
    )
    assert rows == [(3, "Eve")]
    after = counts(gateway)
    assert after["inboundmessage"] - before["inboundmessage"] == 3
    assert after["run"] == before["run"]


def test_a3_on_a_stream_a_refusal_is_one_done_event(bridge: Client, gateway: Gateway) -> None:
    body = b'{"text": "x", "user_id": "stranger-2", "stream": true}'
    answer = bridge.call("POST", "/inbound", body)
    assert answer.status == 401
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.raw.count(b"data:") == 1
    assert b'"event":"done"' in answer.raw
    nobody = Client(gateway, "lk_000000000000_" + "x" * 43)
    refused = nobody.call("POST", "/inbound", b"{}", Accept="text/event-stream")
    assert (refused.status, refused.raw.count(b"data:")) == (401, 1)


def test_a7_held_messages_are_answered_when_the_owner_approves(
    bridge: Client, gateway: Gateway
) -> None:
    for text in ("first", "second"):
        assert bridge.say(text, user_id="friend").status == 401
    code = """
from django.utils import timezone
from allowlist.models import UnknownRequest
from channels_app.intake import decisions
from core.models import User
owner, _ = User.objects.get_or_create(username="the-owner", defaults={"is_owner": True})
row = UnknownRequest.objects.get(sender="friend")
for _ in range(3):
    now = timezone.now()
    decisions.decide(request=row.public_id, verdict="approve", owner=owner, via="test", now=now)
"""
    gateway.manage("shell", "-v0", "-c", code)

    def answers() -> list[str]:
        rows = query(
            gateway,
            "SELECT m.text FROM core_message m JOIN core_chatsession s ON s.id = m.session_id "
            "WHERE s.chat = 'friend' AND m.role = 'assistant' ORDER BY m.id",
        )
        return [row[0] for row in rows]

    wait_until(lambda: len(answers()) >= 2, seconds=15)
    assert answers() == ["first", "second"]
    assert bridge.say("third", user_id="friend").body["text"] == "third"
    assert bridge.say("x", user_id="Friend").status == 401
    states = query(
        gateway, "SELECT DISTINCT state FROM core_inboundmessage WHERE sender = 'friend'"
    )
    assert states == [("answered",)]


def test_a10_a_very_long_sender_id_is_no_error(bridge: Client) -> None:
    assert bridge.say("x", user_id="u" * 256).status == 401
    assert bridge.say("x", user_id="u" * 257).status == 413


def test_d2_too_many_streams_are_refused_and_leave_nothing_behind(
    ada: Client, gateway: Gateway
) -> None:
    session = ada.say("hi").body["session_id"]
    run = ada.start("hang", session_id=session)
    with ExitStack() as streams:
        for _ in range(32):
            streams.enter_context(ada.request("GET", f"/runs/{run}/events"))
        before = counts(gateway)
        refused = ada.say("hi", stream=True)
    assert refused.status == 429
    assert refused.headers["retry-after"] == "5"
    after = counts(gateway)
    for found in (before, after):  # the run that hangs may still store its first events
        found.pop("runevent")
    assert after == before
    ada.post("/inbound/cancel", {"run_id": run})
    wait_until(lambda: ended(ada, run), seconds=5)
    wait_until(lambda: ada.say("hi", stream=True).status == 200, seconds=10)


def test_fifty_people_at_once_are_each_answered_once_and_in_order(
    crowd: list[Client], gateway: Gateway
) -> None:
    """Five messages each, sent without waiting, half of them as streams."""
    everybody = crowd[:50]
    start = threading.Barrier(50)

    def talk(number: int) -> list[str]:
        client, said = everybody[number], []
        start.wait(timeout=60)
        session = when_free(lambda: client.say(f"{number}: hello")).body["session_id"]
        runs = [client.start(f"{number}: message {each}", session_id=session) for each in range(4)]
        for run in runs:
            if number % 2:
                said.append(client.follow(run)[-1].data["text"])
            else:
                wait_until(partial(ended, client, run), seconds=60)
                said.append(client.result(run).body["text"])
        return said

    with ThreadPoolExecutor(50) as pool:
        for number, said in enumerate(pool.map(talk, range(50))):
            assert said == [f"{number}: message {each}" for each in range(4)]
    rows = query(
        gateway,
        "SELECT s.user_id, m.text "
        "FROM core_message m JOIN core_chatsession s ON s.id = m.session_id "
        "WHERE m.role = 'assistant' AND m.text LIKE '%: message %' ORDER BY m.id",
    )
    by_person: dict[int, list[str]] = {}
    for person, text in rows:
        by_person.setdefault(person, []).append(text)
    assert len(rows) == 200
    assert all(texts == sorted(texts) for texts in by_person.values())
