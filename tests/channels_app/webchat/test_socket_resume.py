"""Resuming over ``/ws``: every event once, in order [D3] [M2]."""

from typing import Any

import pytest
from django.utils import timezone

from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.intake.inbound import receive_personal
from channels_app.webchat import following, periodic_checks
from core.conversations.events import Numbered
from core.conversations.inbox import Draft
from core.conversations.sessions import delete
from core.database.transactions import in_thread
from core.models import User
from core.signals import pubsub
from tests.channels_app.webchat.conftest import Pen, asked, at_the_page, event, is_final, take, text

pytestmark = pytest.mark.django_db(transaction=True)


def answer_unheard(pen: Pen) -> None:
    """Write a whole answer without publishing it."""
    pen.write(event("stream_start"), text("a"), publish=False)
    pen.end(publish=False, text="a")


@pytest.mark.parametrize("after", [0, 1, 2, 3, 4])
async def test_d3_a_resume_after_any_event_gives_exactly_the_rest(ada: User, after: int) -> None:
    async with at_the_page(ada) as socket:
        accepted, pen = await asked(socket)

        def answer() -> None:
            pen.write(event("stream_start"), text("a"), text("b"))
            pen.end(text="ab")

        await in_thread(answer)
        # Live frames that are still under way would reach the next page before it resumes.
        await socket.until(is_final)
    async with at_the_page(ada) as socket:
        await socket.say(type="resume", run_id=accepted["run_id"], after=after)
        frames = await socket.until(is_final)
        assert await socket.is_silent()
    assert [frame["seq"] for frame in frames[:-1]] == list(range(after + 1, 5))
    assert frames[-1]["text"] == "ab"


async def test_d3_a_resume_in_mid_stream_goes_on_live_without_gap_or_repeat(ada: User) -> None:
    async with at_the_page(ada) as socket:
        accepted, pen = await asked(socket)
        await in_thread(pen.write, event("stream_start"), text("a"))
        await socket.until(lambda frame: frame.get("seq") == 2)
    await in_thread(pen.write, text("b"))
    async with at_the_page(ada) as socket:
        await socket.say(type="resume", run_id=accepted["run_id"], after=2)
        assert (await socket.hear())["seq"] == 3
        await in_thread(pen.write, text("c"))
        assert (await socket.hear())["seq"] == 4
        await in_thread(pen.end)
        assert [frame["seq"] for frame in await socket.until(is_final)] == [5, 5]


async def test_m2_lost_pubsub_frames_are_read_from_the_log_in_order(ada: User) -> None:
    async with at_the_page(ada) as socket:
        _, pen = await asked(socket)

        def answer() -> None:
            pen.write(event("stream_start"))
            pen.write(text("lost"), publish=False)
            pen.write(text("heard"))
            pen.end()

        await in_thread(answer)
        frames = await socket.until(is_final)
    assert [frame["seq"] for frame in frames[:-1]] == [1, 2, 3, 4]


async def test_m2_the_final_frame_never_overtakes_an_event(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends between reading its log and reading its result."""
    async with at_the_page(ada) as socket:
        accepted, pen = await asked(socket)
        await in_thread(lambda: pen.write(event("stream_start"), text("a"), publish=False))
        ended = False
        read = following.read

        def read_then_end(**whose: Any) -> list[Numbered]:
            nonlocal ended
            found = read(**whose)
            if not found and not ended:
                ended = True
                pen.end(text="a")
            return found

        monkeypatch.setattr(following, "read", read_then_end)
        await socket.say(type="resume", run_id=accepted["run_id"], after=2)
        frames = await socket.until(is_final)
    assert [frame["seq"] for frame in frames if frame["seq"] > 2] == [3, 3]


async def test_m2_without_the_hub_the_log_is_read_now_and_then(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(periodic_checks, "POLL_SECONDS", 0.05)
    async with at_the_page(ada) as socket:
        _, pen = await asked(socket)

        await in_thread(answer_unheard, pen)
        frames = await socket.until(is_final)
    assert [frame["seq"] for frame in frames] == [1, 2, 3, 3]


async def test_m2_frames_of_a_run_that_was_read_from_the_log_to_its_end_come_too_late(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy hub is slower than the log: its late frames were sent already, the end too."""
    monkeypatch.setattr(periodic_checks, "POLL_SECONDS", 0.05)
    async with at_the_page(ada) as socket:
        accepted, pen = await asked(socket)

        def answer() -> list[dict[str, Any]]:
            answer_unheard(pen)
            whole = following.read(user_id=ada.id, run_id=accepted["run_id"], after=0)
            return [dict(each) for _, each in whole]

        late = {
            "keys": [f"user:{ada.id}"],
            "kind": "events",
            "run": accepted["run_id"],
            "session": accepted["session_id"],
            "ends": True,
        }
        events = await in_thread(answer)
        assert [each["seq"] for each in await socket.until(is_final)] == [1, 2, 3, 3]
        await in_thread(pubsub.publish, [{**late, "first": 1, "events": events}])
        await in_thread(pubsub.publish, [{**late, "first": 3, "events": events[2:]}])
        assert await socket.is_silent()
        await socket.say(type="resume", run_id=accepted["run_id"], after=1)
        assert [each["seq"] for each in await socket.until(is_final)] == [2, 3, 3]


async def test_a_chat_deleted_in_mid_answer_does_not_end_the_socket(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(periodic_checks, "POLL_SECONDS", 0.05)
    async with at_the_page(ada) as socket:
        _, pen = await asked(socket)
        await in_thread(pen.write, event("stream_start"))
        assert (await socket.hear())["seq"] == 1
        await in_thread(lambda: delete(session=pen.run.session))
        accepted, pen = await asked(socket, client_id="c2")
        await in_thread(pen.end)
        assert (await socket.until(is_final))[-1]["run_id"] == accepted["run_id"]


async def test_m2_repeated_frames_are_sent_once(ada: User) -> None:
    async with at_the_page(ada) as socket:
        accepted, pen = await asked(socket)
        await in_thread(pen.write, event("stream_start"))
        assert (await socket.hear())["seq"] == 1
        again = {
            "keys": [f"user:{ada.id}"],
            "kind": "events",
            "run": accepted["run_id"],
            "session": accepted["session_id"],
            "first": 1,
            "events": [event("stream_start")],
            "ends": False,
        }
        await in_thread(pubsub.publish, [again])
        await in_thread(pen.write, text("b"))
        assert (await socket.hear())["seq"] == 2


async def test_a_chat_in_another_window_is_shown_here_too(ada: User) -> None:
    async with at_the_page(ada) as here, at_the_page(ada) as there:
        accepted, pen = await asked(there)

        def answer() -> None:
            pen.write(event("stream_start"), text("a"))
            pen.end(text="a")

        await in_thread(answer)
        frames = await here.until(is_final)
    assert [frame["seq"] for frame in frames] == [1, 2, 3, 3]
    assert frames[-1]["run_id"] == accepted["run_id"]


async def test_a_run_followed_from_its_middle_sends_its_end_only(ada: User) -> None:
    async with at_the_page(ada) as socket:
        accepted, pen = await asked(socket)
        await in_thread(pen.write, event("stream_start"), text("a"))
        await socket.until(lambda frame: frame.get("seq") == 2)
    async with at_the_page(ada) as socket:
        await in_thread(pen.write, text("b"))
        await in_thread(lambda: pen.end(text="ab"))
        final = await socket.hear()
    assert (final["type"], final["run_id"], final["text"]) == ("final", accepted["run_id"], "ab")


async def test_another_persons_events_are_never_heard(ada: User, bob: User) -> None:
    async with at_the_page(ada) as one, at_the_page(bob) as two:
        _, pen = await asked(one)

        def answer() -> None:
            pen.write(event("stream_start"), text("secret"))
            pen.end(text="secret")

        await in_thread(answer)
        await one.until(is_final)
        assert await two.is_silent()


async def test_runs_of_other_channels_are_not_shown_in_the_chat(ada: User) -> None:
    def over_http() -> Pen:
        draft = Draft(account=builtin_account("http"), text="Hi")
        receipt = receive_personal(user=ada, draft=draft, session_id="", now=timezone.now())
        assert receipt.run is not None
        return take(receipt.run.public_id)

    async with at_the_page(ada) as socket:
        pen = await in_thread(over_http)
        await in_thread(pen.write, event("stream_start"), text("a"))
        await in_thread(lambda: pen.end(text="a"))
        _, mine = await asked(socket)
        await in_thread(mine.write, event("stream_start"))
        assert (await socket.hear())["seq"] == 1
