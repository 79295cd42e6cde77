"""The runner, in this process: claims, cancels, recovers, and always records the result."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from datetime import timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.db import DataError, OperationalError
from django.db.models.functions import Now
from django.utils import timezone
from pytest_django import Settings

from channels_app.asgi.builtin_accounts import PROGRAMS, builtin_account
from channels_app.intake import inbound
from channels_app.memory.channel import PLATFORM
from channels_app.memory.channel import say as say_in_memory
from channels_app.replies import outbound
from channels_app.worker import claim_runs, finish_run, run_turn
from channels_app.worker import runner as runners
from channels_app.worker.runner import Runner
from core.agent.loop import ENDS_HERE, Turn
from core.conversations import events, inbox, outbox, runs
from core.database import transactions
from core.files import storage
from core.messages import (
    MessageDict,
    fold,
    image_message,
    message_start,
    stream_start,
    text_delta,
)
from core.models import Assistant, ChannelAccount, Delivery, InboundMessage, Message, Run, User
from core.providers import catalogue
from core.providers.base import Delta, Finish, ModelRequest, TextDelta, ThinkingDelta
from core.providers.chain import Chain
from core.providers.failures import KINDS
from core.providers.scripted import Scripted
from core.signals import pubsub
from core.tools import registry
from core.tools.base import Tool, ToolContext, ToolResult
from tests.channels_app.running import make_person, memory_account, runner
from tests.core.lib.test_small_functions import PIXEL
from tests.servers import wait_until

__all__ = ["runner"]
pytestmark = pytest.mark.django_db(transaction=True)
SCRIPT: list[dict[str, Any]] = [
    {"match": "", "after_tool": True, "steps": [{"text": "Here it is."}]},
    {"match": "^hang", "steps": [{"text": "before "}, {"hang": True}]},
    {"match": "^draw", "steps": [{"tool": "current_time"}]},
]


@pytest.fixture
def script(tmp_path: Path, settings: Settings, runner: Runner) -> Runner:
    """Start the runner with a script."""
    path = tmp_path / "script.json"
    path.write_text(json.dumps(SCRIPT))
    settings.LLM_SCRIPT = str(path)
    return runner


@pytest.fixture
def http(runner: Runner) -> ChannelAccount:
    """Return an account without an outbound side."""
    return builtin_account("http")


@pytest.fixture
def ada(http: ChannelAccount) -> User:
    return User.objects.create(username="ada")


Say = Callable[..., Run]


@pytest.fixture
def say(ada: User, http: ChannelAccount) -> Say:
    """Send a message over HTTP; return the run."""

    def make(text: str, session: str = "") -> Run:
        receipt = inbound.receive_personal(
            user=ada,
            draft=inbox.Draft(account=http, text=text),
            session_id=session,
            now=timezone.now(),
        )
        assert receipt.run
        return receipt.run

    return make


def ended(run: Run) -> Run:
    """Return ``run`` when it is final."""

    def final() -> bool:
        run.refresh_from_db()
        return run.state in Run.FINAL

    wait_until(final, seconds=20, what="the end of the run")
    return run


def is_answered(number: int) -> bool:
    """Return whether the platform shows the answer to this message."""
    return any(f"message {number}" in each for each in PLATFORM.texts("7"))


def log(run: Run) -> list[MessageDict]:
    """Return the log of ``run``."""
    return [event for _, event in events.after(run_id=run.id, seq=0)]


def kinds(run: Run) -> list[str]:
    """Return its lifecycle events and types, in order."""
    return [str(event["props"].get("event", event["type"])) for event in log(run)]


def texts(run: Run) -> list[str]:
    """Return the texts of its log, without retracted ones."""
    found = [str(each["props"]["content"]) for each in fold(log(run)) if each["type"] == "text"]
    return [text for text in found if text]


def started(run: Run) -> bool:
    """Return whether the run has produced a text."""
    return bool(texts(run))


def test_the_needs_of_a_turn_are_loaded_before_the_first_one(transactional_db: None) -> None:
    """It took half a second of the first person's time, in which no other was answered."""
    registry.own.cache_clear()
    runner = Runner()
    runner.start()
    try:
        wait_until(lambda: registry.own.cache_info().currsize == len(registry.TOOLS), seconds=60)
    finally:
        runner.stop()
        transactions.close_pool()


def test_m2_a_run_begins_and_ends_once(say: Say) -> None:
    run = ended(say("hello"))
    assert (run.state, run.attempt, run.result["text"]) == ("succeeded", 1, "hello")
    assert kinds(run).count("stream_start") == kinds(run).count("stream_end") == 1
    assert (kinds(run)[0], kinds(run)[-1]) == ("stream_start", "stream_end")
    assert run.last_seq == len(log(run))
    assert Message.objects.filter(run=run, role="assistant").count() == 1


def test_c9_messages_of_a_session_are_answered_in_order(say: Say) -> None:
    first = say("0")
    session = first.session.public_id
    rest = [say(str(number), session) for number in range(1, 6)]
    for run in rest:
        ended(run)
    answers = Message.objects.filter(session=first.session, role="assistant").order_by("id")
    assert [line.text for line in answers] == [str(number) for number in range(6)]


def test_c9_cancelling_a_running_run_keeps_the_partial_answer(script: Runner, say: Say) -> None:
    run = say("hang")
    wait_until(lambda: started(run), seconds=10)
    assert runs.request_cancel(run=run)
    ended(run)
    assert (run.state, run.result["text"].strip()) == ("cancelled", "before")
    assert Message.objects.get(run=run, role="assistant").data["interrupted"] is True
    assert kinds(run)[-2:] == ["message_end", "stream_end"]


def test_c9_a_cancellation_that_the_hub_loses_is_read_from_the_database(
    script: Runner, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pubsub, "publish", lambda frames: None)
    run = say("hang")
    wait_until(lambda: started(run), seconds=10)
    runs.request_cancel(run=run)
    ended(run)


def test_c9_a_queued_run_is_cancelled_before_its_turn(script: Runner, say: Say) -> None:
    running = say("hang")
    wait_until(lambda: started(running), what="its turn")
    queued = say("later", running.session.public_id)
    runs.request_cancel(run=queued)
    ended(queued)
    assert kinds(queued) == ["stream_start", "stream_end"]
    running.refresh_from_db()
    assert running.state == Run.State.RUNNING
    runs.request_cancel(run=running)
    ended(running)


def test_a_run_that_was_cancelled_before_it_was_claimed_asks_no_model(
    runner: Runner, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = runs.claim

    def cancelled_meanwhile(*, run_ids: list[int], worker: str) -> dict[int, Run]:
        Run.objects.filter(id__in=run_ids).update(cancel_requested_at=Now())
        return claim(run_ids=run_ids, worker=worker)

    monkeypatch.setattr(runs, "claim", cancelled_meanwhile)
    run = ended(say("hello"))
    assert (run.state, texts(run)) == ("cancelled", [])


def test_a_run_that_died_too_often_ends_with_a_message(
    say: Say, settings: Settings, runner: Runner
) -> None:
    settings.RUN_MAX_ATTEMPTS = 2
    run = dead_attempt(say, attempt=2)
    ended(run)
    assert (run.state, run.attempt) == ("failed", 3)
    assert "please ask again" in run.error
    assert kinds(run).count("stream_start") == kinds(run).count("stream_end") == 1


def dead_attempt(say: Say, *, attempt: int = 1) -> Run:
    """Create a run whose worker died after its first text."""
    stopped = runs.claim

    run: Run | None = None

    def none(*, run_ids: list[int], worker: str) -> dict[int, Run]:
        return {}

    runs.claim = none
    try:
        run = say("hello again")
        Run.objects.filter(id=run.id).update(attempt=attempt - 1)
        (claimed,) = stopped(run_ids=[run.id], worker="dead").values()
        old = events.log_of(run=claimed, seq=0)
        old.append(stream_start(request_id="r", chat_id="c", trace_id="t", timestamp_ms=1))
        old.append(message_start(message_id="text-1", message_type="text"))
        old.append(text_delta("hello ag", message_id="text-1"))
        wait_until(lambda: len(log(claimed)) == 3, seconds=10)
    finally:
        runs.claim = stopped
    Run.objects.filter(id=run.id).update(lease_until=Now() - timedelta(seconds=1))
    return run


def test_m2_a_second_attempt_goes_on_with_the_log_and_says_it_once(say: Say) -> None:
    run = ended(dead_attempt(say))
    assert (run.state, run.attempt) == ("succeeded", 2)
    assert texts(run) == ["hello again"]
    assert kinds(run).count("stream_start") == kinds(run).count("stream_end") == 1
    assert run.result["text"] == "hello again"
    numbers = [seq for seq, _ in events.whole_log(run.id)]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == run.last_seq
    assert max(b - a for a, b in pairwise(numbers)) > events.AHEAD, "above all that was shown"


def test_a_model_that_is_not_set_up_is_a_clear_answer(say: Say, settings: Settings) -> None:
    settings.LLM_PROVIDER, settings.LLM_BASE_URL = "openai-compatible", ""
    run = ended(say("hello"))
    assert (run.state, run.attempt) == ("failed", 1)
    assert "GATEWAY_MODEL_URL" in run.error


def test_a_run_that_takes_too_long_ends(script: Runner, say: Say, settings: Settings) -> None:
    settings.AGENT_RUN_SECONDS = 1
    run = ended(say("hang"))
    assert (run.state, run.result["text"].strip()) == ("failed", "before")
    assert "took too long" in run.error


def test_an_unexpected_error_ends_the_run_with_a_message(
    say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(self: Scripted, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        raise KeyError("secret")
        yield

    monkeypatch.setattr(Scripted, "stream", broken)
    run = ended(say("hello"))
    assert run.state == "failed"
    assert "Something went wrong" in run.error
    assert "secret" not in json.dumps(log(run))


def test_t7_a_picture_of_ours_is_part_of_the_answer(
    script: Runner, say: Say, ada: User, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """Reading it needs the database, which an event loop must not call."""
    picture = storage.keep(user=ada, name="a.png", content=PIXEL)

    class Draws(Tool):
        """A tool that shows a picture."""

        name = "current_time"
        description = ""
        parameters: dict[str, Any] = {}

        def progress(self, arguments: dict[str, Any]) -> str:
            return "Drawing…"

        def infer(self, text: str) -> None:
            """Never."""

        async def run(self, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
            context.emit(image_message(f"/files/{picture.public_id}", message_id="image"))
            return ToolResult("done")

    monkeypatch.setattr(registry, "every", lambda: [Draws()])
    run = ended(say("draw"))
    assert run.state == "succeeded"
    [image] = run.result["images"]
    assert image.startswith("data:image/png;base64,")


def test_rc8_a_worker_whose_run_was_taken_over_stops_writing(script: Runner, say: Say) -> None:
    run = say("hang")
    wait_until(lambda: started(run), seconds=10)
    with transactions.atomic_write():
        Run.objects.filter(id=run.id).update(attempt=7, worker="another")
    wait_until(lambda: run.id not in script.held, seconds=10)
    run.refresh_from_db()
    assert run.state == Run.State.RUNNING
    assert "stream_end" not in kinds(run)
    Run.objects.filter(id=run.id).update(state=Run.State.CANCELLED)


def test_rc8_an_attempt_goes_on_where_the_one_before_ends_in_the_same_worker(
    script: Runner, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease was over, and the run claimed anew, before that was noticed here."""
    monkeypatch.setattr(events, "CHECKPOINT_SECONDS", 0.0)
    run = say("hang")
    wait_until(lambda: started(run), seconds=10)
    before = script.held[run.id]
    with transactions.atomic_write():
        Run.objects.filter(id=run.id).update(state=Run.State.QUEUED, worker="")
    [begun] = claim_runs.begin([run.id], script.name)
    assert isinstance(begun, claim_runs.Begun)

    async def hold() -> None:
        script._places.take()
        script._begin(script._hold(begun))

    asyncio.run_coroutine_threadsafe(hold(), script.loop).result(3)
    wait_until(before.task.done, seconds=3)
    wait_until(lambda: not script._again, seconds=3)  # nothing is left of it
    assert script.held[run.id].run.attempt == 2
    runs.request_cancel(run=run)
    assert ended(run).state == Run.State.CANCELLED


def test_an_answer_is_not_asked_for_again_when_the_database_is_away_at_its_end(
    script: Runner, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "AWAY_SECONDS", 0.01)
    price, failures = finish_run.priced_outcome, [OperationalError("the server closed")]

    def sometimes(*given: Any) -> runs.Outcome:
        if failures:
            raise failures.pop()
        return price(*given)

    monkeypatch.setattr(run_turn, "priced_outcome", sometimes)
    run = ended(say("hello"))
    assert (run.state, run.attempt, failures) == (Run.State.SUCCEEDED, 1, [])


def test_an_end_that_cannot_be_stored_is_tried_again(
    say: Say, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.RUN_LEASE_SECONDS = 1
    enqueue, failures = outbound.enqueue_answer, [DataError("no"), DataError("no")]

    def sometimes(run: Run, outcome: runs.Outcome) -> None:
        if failures:
            raise failures.pop()
        enqueue(run, outcome)

    monkeypatch.setattr(outbound, "enqueue_answer", sometimes)
    run = ended(say("hello"))
    assert (run.state, run.attempt, texts(run)) == ("succeeded", 3, ["hello"])


def test_a_wake_up_that_comes_while_one_is_worked_on_is_not_forgotten(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    async def slow(self: Runner, run_id: int) -> None:
        calls.append(run_id)
        await asyncio.sleep(0.1)

    monkeypatch.setattr(Runner, "_execute", slow)
    for _ in range(10):
        runner.submit("run", 5)
    wait_until(lambda: len(calls) == 2, seconds=5)
    wait_until(lambda: not runner._again, seconds=5)
    assert calls == [5, 5]


def test_a_chore_that_fails_is_done_again(
    runner: Runner, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    recover, failures = runs.recover, [ValueError("no")]

    def sometimes() -> list[int]:
        if failures:
            raise failures.pop()
        return recover()

    monkeypatch.setattr(runs, "recover", sometimes)
    wait_until(lambda: not failures, seconds=5)
    ended(dead_attempt(say))


def test_a_stopped_runner_gives_its_runs_to_the_next_one(
    script: Runner, say: Say, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.RUN_LEASE_SECONDS = 3600
    run = say("hang")
    wait_until(lambda: started(run), seconds=10)
    script.stop()
    script.stop()
    assert not script._thread.is_alive()
    run.refresh_from_db()
    assert (run.state, run.worker) == ("queued", "")
    settings.LLM_SCRIPT = ""
    following = Runner()
    following.start()
    try:
        ended(run)
        assert (run.state, texts(run)) == ("succeeded", ["hang"])
    finally:
        following.stop()


def work_of(runner: Runner) -> list[str]:
    """Return the tasks that are no chores."""
    names = [task.get_name() for task in list(runner._tasks)]
    return [name for name in names if name != runners.CHORE]


def test_a_platform_gets_its_answers_and_nothing_is_left_in_memory(
    runner: Runner, settings: Settings
) -> None:
    settings.DEBOUNCE_IDLE_MILLISECONDS = 20  # twenty times half a second would prove no more
    account = memory_account()
    make_person("ada", "7")
    for number in range(20):
        say_in_memory(
            account=account,
            sender="7",
            chat="7",
            text=f"message {number}",
            message_id=str(number),
            now=timezone.now(),
        )
        wait_until(partial(is_answered, number), seconds=20)
    wait_until(lambda: not Delivery.objects.exclude(state=Delivery.State.SENT).exists(), seconds=20)
    wait_until(lambda: not runner._again and not runner.held, seconds=10)
    wait_until(lambda: not work_of(runner), seconds=10, what="the end of all tasks")
    assert not InboundMessage.objects.exclude(state=InboundMessage.State.ANSWERED).exists()
    assert outbox.dead_count() == 0
    assert runners.CHORE


def test_c9_a_stop_in_the_moment_of_the_end_comes_too_late(
    script: Runner, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is complete: it is stored at once, and not asked for again after the lease."""
    name = run_turn.name_substitute

    async def stopped(run: Run, turn: Turn, chain: Chain) -> None:
        script._interrupt(run.id, lost=False)
        for _ in range(3):  # the loop cancels the turn where it waits
            await asyncio.sleep(0)
        await name(run, turn, chain)

    monkeypatch.setattr(run_turn, "name_substitute", stopped)
    run = ended(say("hello"))
    assert (run.state, run.attempt) == (Run.State.SUCCEEDED, 1)


class Thinker:
    """A model that thinks until its limit."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        assert request.options["max_tokens"] == 500
        yield ThinkingDelta("hm")
        yield Finish("length")

    async def close(self) -> None: ...


@pytest.mark.usefixtures("runner")
def test_a_person_whose_answer_is_empty_by_the_assistants_limit_is_told(
    say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue.current()  # the default assistant is there
    for assistant in Assistant.objects.all():
        assistant.max_output_tokens = 500
        assistant.save()
    monkeypatch.setattr("core.providers.registry.provider_of", lambda _: Thinker())
    run = ended(say("hello"))
    assert (run.state, run.error) == (Run.State.FAILED, KINDS["length"].person)


class Limited(Scripted):
    """A model whose limit ends its answer."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        yield TextDelta("1. one 2. t")
        yield Finish("length")


@pytest.mark.usefixtures("runner")
def test_a_person_whose_answer_a_limit_has_ended_is_told_and_a_program_is_not(
    say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.providers.registry.provider_of", lambda _: Limited([]))
    run = ended(say("hello"))
    assert texts(run) == ["1. one 2. t", f"*{ENDS_HERE}*"]
    ChannelAccount.objects.filter(channel=run.session.account.channel).update(channel=PROGRAMS)
    assert texts(ended(say("hello"))) == ["1. one 2. t"]


@pytest.mark.usefixtures("script")
def test_a_whole_answer_of_a_substitute_is_stored_when_it_cannot_be_named(
    say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: Run) -> bool:
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr(Chain, "substitute", property(lambda chain: chain.models[0]))
    monkeypatch.setattr(run_turn, "was_substituted", away)
    monkeypatch.setattr(run_turn, "BUILTIN_CHANNELS", ())  # as in a messenger
    run = ended(say("hello"))
    assert (run.state, run.attempt, texts(run)) == (Run.State.SUCCEEDED, 1, ["hello"])
