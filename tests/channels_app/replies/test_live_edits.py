"""An answer that grows on a platform: its messages, and that a worker which lost it edits none."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError

from channels_app.base import Channel, ChannelError, Target
from channels_app.delivery import rate_limit
from channels_app.delivery.sending import account_of
from channels_app.memory.channel import CHANNEL, PLATFORM, MemoryOutbound
from channels_app.replies import streaming_edits
from channels_app.replies.streaming_edits import Draft, Live
from channels_app.worker import finish_run
from core.conversations import events, inbox
from core.database import transactions
from core.database.transactions import atomic_write, in_thread
from core.lib import leases
from core.lib.leases import Lease
from core.messages import (
    RetrievalSource,
    Transcript,
    custom_message,
    retrieval_message,
    text_message,
    to_dict,
)
from core.models import Delivery, InboundMessage, Run, User
from tests.channels_app.running import memory_account

pytestmark = pytest.mark.django_db(transaction=True)
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
CHAT = "c"
BEGUN = "The first sentence of an answer is here."
WHOLE = f"{BEGUN} And a second one."


@pytest.fixture
def run(transactional_db: None) -> Iterator[Run]:
    """Return a run that a worker holds, on an empty platform."""
    PLATFORM.clear()
    rate_limit.pacer.cache_clear()
    account, user = memory_account(), User.objects.create(username="ada")
    with atomic_write():
        session = inbox.open_session(user=user, account=account, chat=CHAT)
        message, _ = inbox.store(
            draft=inbox.Draft(account=account, chat=CHAT, text="hi", message_id="7"),
            state=InboundMessage.State.RECEIVED,
            now=NOW,
            user=user,
            session=session,
        )
        made = inbox.start_run(session=session, messages=[message], now=NOW)
    assert made is not None
    Run.objects.update(state=Run.State.RUNNING, attempt=1)
    yield Run.objects.select_related("session__account", "user").get(id=made.id)
    events.close_writer()
    transactions.close_pool()


class Growing:
    """An answer that grows, and what shows it."""

    def __init__(self, run: Run, *, channel: Channel = CHANNEL) -> None:
        self.text = ""
        self.lease = Lease(seconds=60)
        self.live = Live(run=run, channel=channel, lease=self.lease, now=self.read)
        self.reads = 0

    def read(self) -> Draft:
        """Return the text so far."""
        self.reads += 1
        return Draft(self.text)

    def is_read(self, *, times: int = 1) -> Callable[[], bool]:
        """Return a condition: the text was read so often from now on."""
        before = self.reads
        return lambda: self.reads >= before + times

    async def until(self, text: str, condition: Callable[[], bool]) -> None:
        """Let the answer grow to ``text``; wait until its effect is there."""
        self.text = text
        self.live.changed()
        async with asyncio.timeout(20):
            while not condition():
                assert not self.has_ended()
                await asyncio.sleep(0.002)

    def has_ended(self) -> bool:
        """Return whether nothing is shown any more."""
        task = self.live._task
        return task is not None and task.done()


def shown() -> list[str]:
    """Return the texts in the chat."""
    return PLATFORM.texts(CHAT)


def play(work: Coroutine[Any, Any, None]) -> None:
    """Run the answer to its end."""
    asyncio.run(work)


def is_logged(caplog: pytest.LogCaptureFixture, text: str) -> Callable[[], bool]:
    """Return a condition: ``text`` is in the log."""
    caplog.set_level(logging.INFO, logger="channels_app.replies.streaming_edits")
    return lambda: text in caplog.text


def with_outbound(**methods: Any) -> Channel:
    """Return the channel with other calls of its platform."""

    class Outbound(MemoryOutbound):
        __slots__ = ()

    for name, method in methods.items():
        setattr(Outbound, name, method)
    return replace(CHANNEL, outbound=Outbound(PLATFORM))


@pytest.mark.parametrize(("language", "heading"), [("", "Sources"), ("de", "Quellen")])
def test_c5_a_growing_answer_is_the_beginning_of_the_whole_one(
    run: Run, language: str, heading: str
) -> None:
    """With its sources, which come last under a heading in the person's language, and its links.
    Where nothing can be edited, what differs is sent anew behind a line that says so.
    """
    run.user.language = language
    source: RetrievalSource = {"id": "1", "type": "web", "content": "c", "title": "T"}
    transcript = Transcript()
    for each in (
        retrieval_message("q", [source], message_id="r"),
        custom_message("chart", {"title": "Sales"}, message_id="c"),
        text_message(BEGUN, message_id="t"),
    ):
        list(transcript.read(to_dict(each)))
    live = streaming_edits.live_of(run, transcript, lease=Lease(seconds=60))
    assert live is not None
    grown = live.now().text
    ending = finish_run.Ending(Run.State.SUCCEEDED)
    whole = finish_run.outcome_of(run, transcript, ending).text
    assert whole == f"{grown}\n\n**{heading}**\n\n1. T"
    assert grown.endswith(BEGUN)


def test_an_answer_grows_in_one_message(run: Run) -> None:
    async def work() -> None:
        answer = Growing(run)
        await answer.until(BEGUN, lambda: shown() == [BEGUN])
        await answer.until(WHOLE, lambda: shown() == [WHOLE])
        await answer.live.finish()
        answer.text = "later"
        answer.live.changed()
        await answer.live.finish()

    play(work())
    [sent] = PLATFORM.sent
    [row] = Delivery.objects.all()
    assert (sent.target.reply_to, sent.edits, shown()) == ("7", 1, [WHOLE])
    assert (row.block_index, row.run_id, row.external_message_id) == (0, run.id, sent.id)


def test_an_edit_is_made_with_the_account_and_in_the_chat_of_the_run(run: Run) -> None:
    asked: list[dict[str, Any]] = []

    async def edit_text(self: MemoryOutbound, **given: Any) -> None:
        asked.append(given)
        await MemoryOutbound.edit_text(self, **given)

    async def work() -> None:
        answer = Growing(run, channel=with_outbound(edit_text=edit_text))
        await answer.until(BEGUN, lambda: shown() == [BEGUN])
        await answer.until(WHOLE, lambda: shown() == [WHOLE])
        await answer.live.finish()

    play(work())
    [given] = asked
    assert given["account"].id == run.session.account_id
    assert (given["target"].chat, given["message_id"]) == (CHAT, PLATFORM.sent[0].id)


def test_a_text_that_is_shown_already_is_not_edited(run: Run) -> None:
    async def work() -> None:
        answer = Growing(run)
        await answer.until(BEGUN, lambda: shown() == [BEGUN])
        await answer.until(BEGUN, answer.is_read())
        await answer.until(WHOLE, lambda: shown() == [WHOLE])
        await answer.until(WHOLE, answer.is_read())
        await answer.live.finish()

    play(work())
    assert PLATFORM.sent[0].edits == 1


def test_a_worker_that_stood_still_past_its_lease_edits_nothing(
    run: Run, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one may have the run, and has written the whole answer."""

    async def work() -> None:
        answer = Growing(run)
        await answer.until(BEGUN, lambda: shown() == [BEGUN])
        monkeypatch.setattr(leases, "elapsed", lambda: 10.0**9)
        await answer.until(WHOLE, is_logged(caplog, "another worker may have the run"))
        await answer.live.finish()

    play(work())
    assert shown() == [BEGUN]


def test_a_plugins_own_call_is_under_the_lease_too(
    run: Run, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may wait before it calls the platform."""

    async def edit_text(self: MemoryOutbound, **given: Any) -> None:
        monkeypatch.setattr(leases, "elapsed", lambda: 10.0**9)
        leases.check()
        await MemoryOutbound.edit_text(self, **given)

    async def work() -> None:
        answer = Growing(run, channel=with_outbound(edit_text=edit_text))
        await answer.until(BEGUN, lambda: shown() == [BEGUN])
        await answer.until(WHOLE, is_logged(caplog, "another worker may have the run"))
        await answer.live.finish()

    play(work())
    assert shown() == [BEGUN]


@pytest.mark.parametrize(
    "change", [{"attempt": 2}, {"state": Run.State.CANCELLED}], ids=["taken over", "ended"]
)
def test_a_run_that_is_no_longer_ours_shows_no_new_message(
    change: dict[str, Any], run: Run
) -> None:
    Run.objects.update(**change)
    with atomic_write():
        other = inbox.open_session(user=run.user, account=run.session.account, chat="other")
    Run.objects.create(
        session=other, user=run.user, origin="memory", text="hi", state="running", attempt=1
    )

    async def work() -> None:
        answer = Growing(run)
        await answer.until(BEGUN, answer.is_read())
        await answer.live.finish()

    play(work())
    assert (shown(), Delivery.objects.count()) == ([], 0)


def test_a_later_attempt_edits_the_message_of_the_first(run: Run) -> None:
    async def first() -> None:
        answer = Growing(run)
        await answer.until(BEGUN, lambda: shown() == [BEGUN])
        await answer.live.finish()

    async def second() -> None:
        answer = Growing(run)
        await answer.until("Anew.", lambda: shown() == ["Anew."])
        await answer.live.finish()

    play(first())
    Run.objects.update(attempt=2)
    run.attempt = 2
    play(second())
    assert [each.edits for each in PLATFORM.sent] == [1]
    assert Delivery.objects.count() == 1


def test_a_message_of_another_run_is_not_taken_over(run: Run) -> None:
    other = Run.objects.create(
        session=run.session, user=run.user, origin="memory", text="hi", state=Run.State.SUCCEEDED
    )
    Delivery.objects.create(
        run=other,
        account=run.session.account,
        dedupe_key="other",
        conversation="other",
        external_message_id="1",
        state=Delivery.State.SENT,
    )
    Run.objects.filter(id=run.id).update(attempt=2)
    run.attempt = 2

    async def work() -> None:
        answer = Growing(run)
        await answer.until(BEGUN, lambda: shown() == [BEGUN])
        await answer.live.finish()

    play(work())
    assert Delivery.objects.filter(run=run).count() == 1


def test_a_message_is_edited_when_its_id_is_known(run: Run) -> None:
    """It was queued, and another process is still sending it."""
    Delivery.objects.create(
        run=run,
        account=run.session.account,
        dedupe_key="ours",
        conversation="c",
        target={"chat": CHAT, "thread": "", "reply_to": ""},
        payload={"text": BEGUN},
        state=Delivery.State.SENDING,
    )
    run.attempt = 2

    async def work() -> None:
        answer = Growing(run)
        await answer.until(WHOLE, answer.is_read(times=2))
        assert shown() == []
        account = answer.live.run.session.account
        await CHANNEL.outbound.send_text(
            account=account_of(account),
            target=Target(CHAT, "", ""),
            block={"text": BEGUN},
            key="",
        )
        await in_thread(Delivery.objects.update, external_message_id=PLATFORM.sent[0].id)
        await answer.until(WHOLE, lambda: shown() == [WHOLE])
        await answer.live.finish()

    play(work())


def test_a_call_that_hangs_ends_and_the_next_edit_is_made(
    run: Run, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming_edits, "CALL_SECONDS", 0.05)
    calls: list[str] = []

    async def edit_text(self: MemoryOutbound, *, block: dict[str, Any], **given: Any) -> None:
        calls.append(block["text"])
        if len(calls) == 1:
            await asyncio.Event().wait()
        await MemoryOutbound.edit_text(self, block=block, **given)

    async def work() -> None:
        answer = Growing(run, channel=with_outbound(edit_text=edit_text))
        await answer.until(BEGUN, lambda: shown() == [BEGUN])
        await answer.until(WHOLE, is_logged(caplog, "a live edit took too long"))
        await answer.until(f"{WHOLE} Third.", lambda: shown() == [f"{WHOLE} Third."])
        await answer.live.finish()

    play(work())
    assert calls == [WHOLE, f"{WHOLE} Third."]


class Ending(Lease):
    """A lease that is always about to end."""

    @property
    def left(self) -> float:
        return 0.05


def test_a_call_ends_with_the_lease(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def edit_text(self: MemoryOutbound, **given: Any) -> None:
        await asyncio.Event().wait()

    async def work() -> None:
        answer = Growing(run, channel=with_outbound(edit_text=edit_text))
        await answer.until(BEGUN, lambda: shown() == [BEGUN])
        answer.live.lease = Ending(seconds=60)
        await answer.until(WHOLE, is_logged(caplog, "a live edit took too long"))
        await answer.live.finish()

    play(work())


@pytest.mark.parametrize("seconds", [None, 7.0])
def test_a_refused_edit_is_tried_again_and_a_pause_of_the_platform_is_kept(
    seconds: float | None, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    pacer = rate_limit.pacer()
    held: list[dict[str, Any]] = []

    async def work() -> None:
        answer = Growing(run)
        await answer.until(BEGUN, lambda: shown() == [BEGUN])
        PLATFORM.refusals = [ChannelError("slower", retry_after=seconds)]
        await answer.until(WHOLE, is_logged(caplog, "a live edit failed: slower"))
        assert shown() == [BEGUN]
        await answer.until(f"{WHOLE} Third.", lambda: shown() == [f"{WHOLE} Third."])
        await answer.live.finish()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pacer, "hold", lambda **what: held.append(what))
        play(work())
    expected = {"account_id": run.session.account_id, "chat": CHAT, "seconds": seconds}
    assert held == ([] if seconds is None else [expected])


class Pacer:
    """A rate limit that allows the next calls in so many seconds, one after the other."""

    def __init__(self, *seconds: float) -> None:
        self.seconds = [*seconds]
        self.asked: list[dict[str, Any]] = []

    def reserve(self, **asked: Any) -> float:
        self.asked.append(asked)
        return self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0]


def test_an_edit_waits_for_its_turn_and_asks_again_when_that_is_far(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pacer = Pacer(5.0, 0.01, 0.0)

    async def work() -> None:
        answer = Growing(run)
        await answer.until(BEGUN, lambda: shown() == [BEGUN])
        monkeypatch.setattr(streaming_edits, "pacer", lambda: pacer)
        await answer.until(WHOLE, lambda: shown() == [WHOLE])
        await answer.live.finish()

    play(work())
    assert len(pacer.asked) == 2
    assert pacer.asked[0] == {
        "account_id": run.session.account_id,
        "chat": CHAT,
        "pace": CHANNEL.pace,
        "is_group": False,
        "most": CHANNEL.pace.edit_seconds,
        "kind": "message",
    }


def test_an_edit_at_the_end_of_the_interval_is_waited_for(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pacer = Pacer(CHANNEL.pace.edit_seconds, 0.0)

    async def work() -> None:
        answer = Growing(run)
        await answer.until(BEGUN, lambda: shown() == [BEGUN])
        monkeypatch.setattr(streaming_edits, "pacer", lambda: pacer)
        await answer.until(WHOLE, lambda: shown() == [WHOLE])
        await answer.live.finish()

    play(work())
    assert len(pacer.asked) == 1


def test_an_edit_that_waits_for_its_turn_is_not_made_after_the_end(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The final text is the last one."""

    async def work() -> None:
        answer = Growing(run)
        await answer.until(BEGUN, lambda: shown() == [BEGUN])

        asked: list[dict[str, Any]] = []

        def reserve(**given: Any) -> float:
            asked.append(given)
            answer.live._over.set()
            return CHANNEL.pace.edit_seconds

        fake = SimpleNamespace(reserve=reserve)
        monkeypatch.setattr(streaming_edits, "pacer", lambda: fake)
        await answer.until(WHOLE, lambda: bool(asked))
        await answer.live.finish()

    play(work())
    assert shown() == [BEGUN]


def test_the_end_waits_for_the_edit_that_is_being_made(run: Run) -> None:
    """Else it could overtake the final text."""
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def edit_text(self: MemoryOutbound, **given: Any) -> None:
        begun.set()
        await may_end.wait()
        await MemoryOutbound.edit_text(self, **given)

    async def work() -> None:
        answer = Growing(run, channel=with_outbound(edit_text=edit_text))
        await answer.until(BEGUN, lambda: shown() == [BEGUN])
        await answer.until(WHOLE, begun.is_set)
        end = asyncio.create_task(answer.live.finish())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not end.done()
        may_end.set()
        await end
        assert shown() == [WHOLE]

    play(work())


def test_an_answer_that_was_never_shown_ends_at_once(run: Run) -> None:
    async def work() -> None:
        await Growing(run).live.finish()

    play(work())


def test_a_fault_of_the_database_ends_the_view_and_not_the_run(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(run: Run) -> None:
        raise OperationalError(run.id)

    monkeypatch.setattr(streaming_edits, "rows_of", fail)
    run.attempt = 2

    async def work() -> None:
        answer = Growing(run)
        answer.live.changed()
        await answer.live.finish()

    play(work())


def test_after_a_refused_form_an_answer_grows_in_the_ordinary_one_at_once(run: Run) -> None:
    async def edit_text(self: MemoryOutbound, *, block: dict[str, Any], **given: Any) -> None:
        if "rich" in block:
            raise ChannelError("not here", trouble="form")
        await MemoryOutbound.edit_text(self, block=block, **given)

    channel = with_outbound(
        edit_text=edit_text,
        takes_rich=lambda self, account: True,
        render_rich=lambda self, text, growing=False: [{"text": text, "rich": growing}],
    )

    async def work() -> None:
        answer = Growing(run, channel=channel)
        await answer.until(BEGUN, lambda: shown() == [BEGUN])
        assert PLATFORM.sent[0].block == {"text": BEGUN, "rich": True}
        await answer.until(WHOLE, lambda: PLATFORM.sent[0].block == {"text": WHOLE})
        await answer.until(f"{WHOLE} Third.", lambda: shown() == [f"{WHOLE} Third."])
        await answer.live.finish()

    play(work())
    assert PLATFORM.sent[0].edits == 2


def test_a_draft_is_shown_again_before_the_platform_lets_it_go(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming_edits, "DRAFT_SECONDS", 0.02)
    drafts: list[str] = []

    async def show_draft(self: MemoryOutbound, *, block: dict[str, Any], **given: Any) -> bool:
        assert given["account"].id == run.session.account_id
        drafts.append(block["text"])
        return True

    channel = with_outbound(show_draft=show_draft, takes_drafts=lambda self, account, chat: True)

    async def work() -> None:
        answer = Growing(run, channel=channel)
        await answer.until(BEGUN, lambda: drafts == [BEGUN] * 3)
        await answer.live.finish()

    play(work())
    assert (shown(), Delivery.objects.count()) == ([], 0)


def test_a_run_that_was_lost_is_shown_no_further(run: Run) -> None:
    async def work() -> None:
        answer = Growing(run)
        await answer.until(BEGUN, lambda: shown() == [BEGUN])
        answer.live.abandon()
        with pytest.raises(asyncio.CancelledError):
            task = answer.live._task
            assert task is not None
            await task
        Growing(run).live.abandon()  # nothing was begun

    play(work())
    assert shown() == [BEGUN]


def test_a_fault_of_a_plugin_ends_the_view_and_not_the_run(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def edit_text(self: MemoryOutbound, **given: Any) -> None:
        raise RuntimeError

    async def work() -> None:
        answer = Growing(run, channel=with_outbound(edit_text=edit_text))
        await answer.until(BEGUN, lambda: shown() == [BEGUN])
        await answer.until(WHOLE, is_logged(caplog, "could not be shown while it grows"))
        await answer.live.finish()

    play(work())
