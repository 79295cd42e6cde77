"""Stored responses: how much a request may have them read, and what deleting leaves."""

from dataclasses import replace
from typing import Any

import pytest
from pytest_django import Settings

from channels_app.asgi.chat_messages import MAX_MESSAGES
from channels_app.asgi.http import RefusedError
from channels_app.asgi.principal import Principal
from channels_app.client_api import acceptance
from channels_app.client_api.responses import fields, stored
from channels_app.client_api.responses.items import MOST_REFERENCES, Reader
from channels_app.worker.finish_run import end_queued
from core.conversations import runs
from core.database.transactions import atomic_write
from core.lib.ids import public_id
from core.models import InboundMessage, Run, User
from tests.people import PIXEL

Json = dict[str, Any]


class Outputs:
    """Stands for the responses of the database, and counts how often each is read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
        """Take the place of ``find`` and ``output_of``; each response has two items."""
        self.read: list[str] = []
        self.text = text
        monkeypatch.setattr(stored, "find", self.find)
        monkeypatch.setattr(stored, "output_of", self.output_of)

    def find(self, caller: Principal, name: str, **_: object) -> str:
        """Return the id of the run."""
        return name.removeprefix("resp_")

    def output_of(self, run: str) -> list[Json]:
        """Return the items of a run."""
        self.read.append(run)
        return [{"id": f"msg_{run}_{number}", "text": self.text} for number in (1, 2)]


def asked(*names: str) -> fields.Asked:
    """Return a request that refers to items."""
    given = [{"type": "item_reference", "id": name} for name in names]
    return fields.read({"model": "default", "input": given})


def test_w16_references_are_counted_before_anything_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[W16] More than a request may have are 413."""
    outputs = Outputs(monkeypatch, "x")
    names = [f"msg_{public_id()}_1" for _ in range(MOST_REFERENCES + 1)]
    with pytest.raises(RefusedError) as caught:
        stored.known_items(Principal(), asked(*names))
    assert (caught.value.status, caught.value.field, outputs.read) == (413, "input", [])


def test_w16_a_response_is_read_once_for_all_its_items(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """[W16] Also for an item that it does not have; the sum of references is bounded."""
    outputs = Outputs(monkeypatch, "x" * 1000)
    one, two = public_id(), public_id()
    names = [f"msg_{one}_1", f"msg_{one}_9", f"msg_{one}_8", f"msg_{two}_2", f"msg_{one}_1"]
    known = stored.known_items(Principal(), asked(*names))
    assert set(known) == {f"msg_{one}_1", f"msg_{two}_2"}
    assert outputs.read == [one, two]
    settings.MAX_BODY_BYTES = 2000
    outputs.read.clear()
    with pytest.raises(RefusedError) as caught:
        stored.known_items(Principal(), asked(*names[:1] * 2, *names[3:4]))
    assert (caught.value.status, caught.value.field, outputs.read) == (413, "input", [one])


def test_w13_a_conversation_is_no_longer_than_one_request_may_be(settings: Settings) -> None:
    """[W13] In messages and in bytes, with all that was said before; 413 by name."""
    said = {"role": "user", "content": "x"}
    reader = Reader(messages=[said] * (MAX_MESSAGES - 1))
    reader.read("y")
    stored.check(reader.messages, MAX_MESSAGES - 1)
    reader.read("z")
    settings.MAX_BODY_BYTES = 12_000_000
    long: list[Json] = [{**said, "content": "x" * 900}, {**said, "content": "y"}]
    stored.check(long, 1)
    for messages, most in ((reader.messages, 12_000_000), (long, 900)):
        settings.MAX_BODY_BYTES = most
        with pytest.raises(RefusedError) as caught:
            stored.check(messages, len(messages) - 1)
        assert (caught.value.status, caught.value.field) == (413, "input")


SECRET = "the input that is to be forgotten"


def accepted(user: User) -> Run:
    """Return the queued run of a response."""
    given = fields.read({"model": "default", "input": SECRET, "instructions": SECRET})
    messages = [{"role": "system", "content": SECRET}, {"role": "user", "content": SECRET}]
    ask = replace(given, messages=messages, more=stored.kept_of(given, "en"))
    with atomic_write():
        work = acceptance.work_of(Principal(user=user), ask, "", None, "en")
    assert work is not None
    return work.run


def is_forgotten(run: Run) -> bool:
    """Return whether the input is in the options of neither the run nor its message."""
    run.refresh_from_db()
    kept = [run.options, *InboundMessage.objects.filter(run=run).values_list("options", flat=True)]
    assert len(kept) == 2
    return not any(SECRET in str(each) for each in kept)


@pytest.mark.django_db
def test_w15_deleting_removes_the_input_from_the_run_and_the_inbox(owner: User) -> None:
    """[W15] Of a response that has ended, and of one that has not: it stays so at its end."""
    done, queued, running = accepted(owner), accepted(owner), accepted(owner)
    Run.objects.filter(pk=done.pk).update(state=Run.State.SUCCEEDED)
    with atomic_write():
        (taken,) = runs.claim(run_ids=[running.pk], worker="w").values()
    for run in (done, queued, running):
        assert not is_forgotten(run)
        stored.delete(run)
        assert is_forgotten(run)
        assert not run.options["response"]["store"]
        assert stored.given_items(run) == []
    assert done.cancel_requested_at is None
    end_queued(queued.pk)
    stopped = runs.Outcome(state=Run.State.CANCELLED)
    with atomic_write():
        runs.settle(run=taken, outcome=stopped, last_seq=1)
    for run in (queued, running):
        assert is_forgotten(run)
        assert run.state == Run.State.CANCELLED


def test_w13_a_long_chat_keeps_its_newest_pictures(settings: Settings) -> None:
    """[W13] Also of a client that stores nothing, and sends all of it with each question."""
    settings.MAX_ATTACHMENTS = 2
    reader = Reader()
    seen: list[Json] = [
        {"role": "user", "content": [{"type": "input_image", "image_url": PIXEL}]},
        {"role": "assistant", "content": "A pixel."},
    ]
    reader.read([*seen * 3, seen[0]])
    stored.check(reader.messages, 0)
    kinds = [each["content"][0]["type"] for each in reader.messages if each["role"] == "user"]
    assert kinds == ["text", "text", "image_url", "image_url"]
    with pytest.raises(RefusedError, match="more than 2 pictures"):
        stored.check([*reader.messages, *reader.messages[-1:] * 2], 0)


def test_w12_an_input_of_calls_alone_is_refused_for_the_missing_output() -> None:
    """[W12] Not as empty: a program that sent a call sees the one it must answer."""
    reader = Reader()
    call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    reader.read([call])
    with pytest.raises(RefusedError, match="input has no output for the call 'c1'"):
        stored.check(reader.messages, 0)
    reader.read([{"type": "function_call_output", "call_id": "c1", "output": "7"}])
    stored.check(reader.messages, 0)
