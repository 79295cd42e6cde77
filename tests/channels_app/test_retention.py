"""Retention through a real gateway: conversations over HTTP, aged, and the chore of its worker."""

import pytest

from tests.channels_app.client import Client, people, query
from tests.gateways import Gateway
from tests.servers import wait_until

pytestmark = pytest.mark.slow
AGE = """
from datetime import timedelta
from core.models import *
for model, names in (
    (Run, ("created_at", "started_at", "finished_at")),
    (Message, ("created_at",)),
    (InboundMessage, ("received_at",)),
    (StoredFile, ("created_at",)),
):
    rows = model.objects.filter(user__username="retained-0") if hasattr(model, "user") else (
        model.objects.filter(session__user__username="retained-0")
    )
    for row in rows:
        for name in names:
            setattr(row, name, getattr(row, name) - timedelta(days=40))
        row.save()
person = User.objects.get(username="retained-0")
"""
RULE = "RetentionRule.objects.create(kind='{kind}', user=person, days=30)"


@pytest.fixture
def ann(gateway: Gateway) -> Client:
    """Return the key of a person of whom old things are removed."""
    return people(gateway, number=1, name="retained")[0]


def shell(gateway: Gateway, *code: str) -> None:
    gateway.manage("shell", "-v0", "-c", "\n".join((AGE, *code)))


def test_x5_x3_old_answers_are_repeated_until_their_messages_go(
    gateway: Gateway, ann: Client
) -> None:
    """[D1] [D2] With a condensed log: the same answer for the key, and for a stream that is resumed
    anywhere; then the turn is gone, and its usage is still counted.
    """
    said = {"text": "time, please", "stream": True}
    whole = ann.stream("POST", "/inbound", said, Idempotency_Key="old")
    answer, run = whole[-1].data, whole[0].data["run_id"]
    assert "It is what it is." in answer["text"]
    used = query(gateway, "SELECT count(*), sum(prompt_tokens) FROM core_modelcall")
    shell(gateway, RULE.format(kind="events"))
    assert "event logs: 1" in gateway.manage("retention", "--dry-run")
    assert "event logs: 1" in gateway.manage("retention")
    assert not query(gateway, "SELECT 1 FROM core_runevent WHERE data LIKE '%tool_call%'")
    assert ann.stream("POST", "/inbound", said, Idempotency_Key="old")[-1].data == answer
    for event in whole:
        last = event.id or "0"
        rest = ann.stream("GET", f"/runs/{run}/events", Last_Event_ID=last)
        assert rest == [] if event is whole[-1] else rest[-1].data == answer
    once = {"text": "time, please", "session_id": answer["session_id"]}
    assert ann.post("/inbound", once, Idempotency_Key="old").body["text"] == answer["text"]

    shell(gateway, RULE.format(kind="messages"))
    assert "runs: 1" in gateway.manage("retention")
    assert ann.result(run).status == 404
    assert ann.get(f"/api/sessions/{answer['session_id']}/messages").body["results"] == []
    assert query(gateway, "SELECT count(*), sum(prompt_tokens) FROM core_modelcall") == used
    again = ann.stream("POST", "/inbound", said, Idempotency_Key="old")
    assert again[0].data["run_id"] != run


def test_x11_a_worker_removes_due_rows_by_itself(gateway: Gateway) -> None:
    """[X29] Also after it was killed; bytes and link of a file go with the row. It folds first."""
    bob = people(gateway, number=1, name="retained")[0]
    found = bob.call("POST", "/files?name=a.txt", b"words", Content_Type="text/plain")
    assert found.status == 201
    file = found.body["id"]
    bob.say("look", files=[file])
    shell(
        gateway,
        "RetentionRule.objects.filter(kind='files').delete()",
        RULE.format(kind="files"),
    )
    gateway.kill("runs")
    gateway.restart("runs")
    row = f"SELECT 1 FROM core_storedfile WHERE public_id = '{file}'"
    wait_until(lambda: not query(gateway, row), seconds=60)
    assert bob.get(f"/files/{file}").status == 404
    assert query(gateway, "SELECT 1 FROM core_installation WHERE folded_until IS NOT NULL")
