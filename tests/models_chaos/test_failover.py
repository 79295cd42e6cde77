"""A provider's bad day: every turn is answered, once and whole, whichever channel asks."""

import json
import os
from collections import Counter
from typing import Any

import pytest

from channels_app.rendering.translations import ENGLISH
from tests.models_chaos.aimock import answer_to
from tests.models_chaos.conftest import CHANNELS, Arena, MakeArena
from tests.models_chaos.turns import Person, Turn, ask_all, without_note
from tests.servers import Process

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
TURNS = int(os.environ.get("MODEL_TURNS", "40"))
FIRST_SECONDS = 2.0
# Three of ten calls fail; the kinds follow each other, at other places of the ten.
DAY = [
    *("429", "", "", "500", "", "", "cut", "", "", ""),
    *("", "garbage", "", "", "silence", "", "", "pause", "", ""),
    *("", "", "malformed", "", "", "cut", "", "", "500", ""),
]


def test_a_day_of_failures_costs_no_turn(arena: MakeArena) -> None:
    """Equality is checked: a text twice or half is another one."""
    it = arena(each=2)
    calm = ask_all(it.people, each=1, name="qcold")  # work that a process does once
    calm = calm + ask_all(it.people, each=1, name="qcalm")
    it.provider.fail(main=DAY)
    turns = ask_all(it.people, each=-(-TURNS // len(it.people)))
    print(report(turns))
    asked = it.provider.asked(model="main")
    openings, _ = it.circuit()
    print(f"main was asked {len(asked)} times, its circuit was opened {openings} times")
    failed = sum(each.fault != "" for each in asked)
    assert failed > 0
    assert openings <= failed / 3
    assert [turn for turn in turns if not turn.is_whole] == []
    assert {turn.channel for turn in turns} == set(CHANNELS)
    check_chats(it, calm + turns)
    # Beyond the time-out: the time of a calm turn on this machine, and a second.
    most = FIRST_SECONDS + 1 + max(turn.first for turn in calm if "calm" in turn.question)
    assert [turn for turn in turns if turn.first > most] == []


def test_a_circuit_opens_after_three_failures_and_one_request_at_a_time_tries_it(
    arena: MakeArena,
) -> None:
    """Two workers, and each opening is counted once."""
    it = arena(each=2)
    talkers = [each for each in it.people if each.channel != "telegram"]
    second = second_worker(it)
    try:
        it.provider.fail(main=["500"])
        for number in range(3):
            assert talkers[0].ask(f"qa{number}").is_whole
        assert it.circuit() == (1, True)
        assert len(it.provider.asked(model="main")) == 3
        # Skipped: it is not asked while it is open.
        assert all(turn.is_whole for turn in ask_all(talkers, each=2, name="qb"))
        assert len(it.provider.asked(model="main")) == 3
        # Due: one of many tries it, and it stays open.
        make_due(it)
        assert all(turn.is_whole for turn in ask_all(talkers, each=2, name="qc"))
        assert len(it.provider.asked(model="main")) == 4
        assert it.circuit() == (1, True)
        # It answers again: closed, in both workers.
        it.provider.fail(main=[""])
        make_due(it)
        turns = ask_all(talkers, each=4, name="qd")
        assert all(turn.is_whole for turn in turns)
        assert turns[-1].text.startswith("main")
        assert it.circuit() == (1, False)
        it.provider.fail(main=["429"])
        for number in range(3):
            assert talkers[0].ask(f"qe{number}").is_whole
        assert it.circuit() == (2, True)
    finally:
        second.stop()


def test_a_refused_key_opens_the_circuit_at_once(arena: MakeArena) -> None:
    it = arena(each=2)
    it.provider.fail(main=["401"])
    turns = ask_all(it.people[:1], each=3, name="qkey")
    assert [turn.text.startswith("spare") and turn.is_whole for turn in turns] == [True] * 3
    assert len(it.provider.asked(model="main")) == 1
    assert it.circuit() == (1, True)


def test_when_every_circuit_is_open_the_first_model_is_asked_all_the_same(arena: MakeArena) -> None:
    it = arena(each=2)
    it.provider.fail(main=["401", ""], spare=["401", ""])
    person = it.people[0]
    assert person.ask("qall1").text == ""
    assert it.circuit("main") == it.circuit("spare") == (1, True)
    assert person.ask("qall2").is_whole
    assert it.circuit("main") == (1, False)


SCHEMA = {"type": "object", "properties": {}}
# Path -> what asks for JSON, and the code of the error after which nothing comes.
PROTOCOLS: dict[str, tuple[dict[str, Any], str]] = {
    "/v1/chat/completions": ({"response_format": {"type": "json_object"}}, "model_cut_off"),
    "/v1/responses": ({"text": {"format": {"type": "json_object"}}}, "server_error"),
    "/v1/messages": (
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        "api_error",
    ),
}


@pytest.mark.parametrize("path", PROTOCOLS)
def test_w77_a_stream_whose_text_cannot_be_taken_back_says_that_it_begins_anew(
    arena: MakeArena, path: str
) -> None:
    """[W77] The whole answer follows, once; one that is not streamed has no trace of the first
    attempt. A program that asked for JSON gets an error, and no other text."""
    it = arena(each=2)
    person = next(each for each in it.people if each.channel == "v1")
    it.provider.fail(main=["cut"])
    text, error = streamed(person, path, "qanew1")
    first, *last = text.split(f"\n\n{ENGLISH.restarted}\n\n")
    assert (last, error) == ([answer_to("qanew1", model="spare")], "")
    main = answer_to("qanew1", model="main")
    assert main.startswith(first)
    assert "" != first != main
    wants_json, code = PROTOCOLS[path]
    text, error = streamed(person, path, "qanew2", **wants_json)
    assert answer_to("qanew2", model="main").startswith(text)
    assert (text != "", error) == (True, code)
    whole = person.client.post(path, {**asked_of(path, "qanew3"), **wants_json})
    assert whole.status == 200
    assert answer_to("qanew3", model="spare") in whole.raw.decode()
    assert "main0" not in whole.raw.decode()


def asked_of(path: str, question: str) -> dict[str, Any]:
    """Return a request of a protocol."""
    messages = [{"role": "user", "content": f"Tell me about {question}"}]
    if path == "/v1/responses":
        return {"model": "default", "input": messages}
    more = {"max_tokens": 1000} if path == "/v1/messages" else {}
    return {"model": "default", "messages": messages, **more}


def streamed(person: Person, path: str, question: str, **more: Any) -> tuple[str, str]:
    """Return the text of a stream, and the code of the error with which it ends; else none."""
    body = json.dumps({**asked_of(path, question), "stream": True, **more}).encode()
    text, error = "", ""
    with person.client.request("POST", path, body, X_Session_Id=question) as response:
        assert response.status == 200, response.read()
        lines = [line.removeprefix(b"data: ") for line in response if line.startswith(b"data: ")]
    for line in lines:
        if line.strip() != b"[DONE]":
            assert error == "", line
            said, error = read(json.loads(line))
            text += said
    return text, error


def read(data: dict[str, Any]) -> tuple[str, str]:
    """Return the text, and the code of the error, that an event of any of the protocols has."""
    match data:
        case {"error": {"code": str(code)}} | {"error": {"type": str(code)}}:
            return "", code
        case {"type": "response.failed", "response": {"error": {"code": str(code)}}}:
            return "", code
        case {"type": "response.output_text.delta", "delta": str(text)}:
            return text, ""
        case {"delta": {"text": str(text)}} | {"choices": [{"delta": {"content": str(text)}}]}:
            return text, ""
    return "", ""


def test_w76_two_workers_make_no_more_calls_at_once_than_the_provider_takes(
    arena: MakeArena,
) -> None:
    """[W76] Both are at work, and the provider counts."""
    it = arena(each=2)
    talkers = [each for each in it.people if each.channel != "telegram"]
    set_calls_at_once(it, 2)
    second = second_worker(it)
    try:
        it.provider.fail()
        turns = ask_all(talkers, each=3, name="qmost")
    finally:
        second.stop()
        set_calls_at_once(it, 0)
    assert all(turn.is_whole for turn in turns)
    assert max(each.open for each in it.provider.asked()) == 2


def set_calls_at_once(arena: Arena, number: int) -> None:
    """Change the provider's row."""
    code = f"""
from core.models import ModelProvider
from core.providers import catalogue
ModelProvider.objects.filter(name="aimock").update(concurrency={number})
catalogue.changed()
"""
    arena.gateway.manage("shell", "-v0", "--no-imports", "-c", code)


def second_worker(arena: Arena) -> Process:
    """Start another ``runs`` worker."""
    first = arena.gateway.processes["runs"]
    second = Process(
        command=first.command, log=arena.gateway.folder / "second.log", env=arena.gateway.env
    )
    second.start(reports_ready=True)
    second.wait_ready(second.said_ready)
    return second


def make_due(arena: Arena) -> None:
    """Let the time pass until an open circuit is tried again."""
    code = """
from django.utils import timezone
from core.models import ModelCircuit
from core.providers import catalogue
ModelCircuit.objects.update(probe_at=timezone.now())
catalogue.changed()
"""
    arena.gateway.manage("shell", "-v0", "--no-imports", "-c", code)


def check_chats(arena: Arena, turns: list[Turn]) -> None:
    """Check that Telegram shows nothing but the answers, and names a substitute once in a row."""
    for person in arena.people:
        if person.channel == "telegram":
            said = [without_note(each) for each in arena.bots.texts(person.chat)]
            asked = [turn.text for turn in turns if turn.text in [text for text, _ in said]]
            assert [text for text, _ in said] == asked
            by_spare = [text.startswith("spare") for text in asked]
            before = [False, *by_spare]
            named = [now and not last for now, last in zip(by_spare, before, strict=False)]
            assert [noted for _, noted in said] == named


def report(turns: list[Turn]) -> str:
    """Return what happened, for the reader of the output."""
    first = sorted(turn.first for turn in turns if turn.first >= 0)
    by_channel = Counter(turn.channel for turn in turns)
    restarts = sum(turn.restarts for turn in turns)
    return f"{dict(by_channel)}, first token: {first[-1]:.2f} s at most, {restarts} restarts at /v1"
