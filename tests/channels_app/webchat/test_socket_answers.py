"""A message and its answer over ``/ws``: [D3] [M2] [T4] [C9], RWS13."""

import time
from typing import Any

import pytest

from channels_app.webchat import transcript
from core.database.transactions import in_thread
from core.models import ChatSession, Run, User
from tests.channels_app.webchat.conftest import asked, at_the_page, event, is_final, text
from tests.core.agent.sent import sent

pytestmark = pytest.mark.django_db(transaction=True)


async def test_d3_a_message_is_accepted_and_its_events_follow_in_order_and_one_final(
    ada: User,
) -> None:
    async with at_the_page(ada) as socket:
        accepted, pen = await asked(socket)
        assert accepted["client_id"] == "c1"

        def answer() -> None:
            pen.write(event("stream_start"), text("Hello **"))
            pen.write(text("Ada**"))
            pen.end(text="Hello **Ada**", format="markdown")

        await in_thread(answer)
        frames = await socket.until(is_final)
    messages, final = frames[:-1], frames[-1]
    # Pieces of a text that are read at once come as one frame, with the number of the last.
    numbers = [frame["seq"] for frame in messages]
    assert numbers in ([1, 2, 3, 4], [1, 3, 4])
    assert {frame["run_id"] for frame in frames} == {accepted["run_id"]}
    assert {frame["session_id"] for frame in frames} == {accepted["session_id"]}
    said = [frame["props"]["content"] for frame in messages if frame["type"] == "text"]
    assert "".join(said) == "Hello **Ada**"
    assert (final["text"], final["format"], final["ok"]) == ("Hello **Ada**", "markdown", True)
    assert final["html_of"] == {"text-1": "<p>Hello <strong>Ada</strong></p>\n"}


async def test_m1_every_event_says_when_it_happened_and_its_place_in_the_run(ada: User) -> None:
    """[M1] ``metadata`` with ``timestamp`` and ``sequence``; a resume says the same."""
    before = int(time.time() * 1000)
    async with at_the_page(ada) as socket:
        accepted = await socket.ask("/help")
        frames = (await socket.until(is_final))[:-1]
        await socket.say(type="resume", run_id=accepted["run_id"], after=0)
        again = (await socket.until(is_final))[:-1]
    assert [frame["metadata"]["sequence"] for frame in frames] == [frame["seq"] for frame in frames]
    times = [frame["metadata"]["timestamp"] for frame in frames]
    assert times == sorted(times)
    assert before <= times[0] <= times[-1] <= int(time.time() * 1000)
    assert again == frames


async def test_c8_a_command_is_answered_by_the_gateway_itself(ada: User) -> None:
    """[C8] Immediately, as any answer; it is not sent to the model, but is in the transcript."""
    async with at_the_page(ada) as socket:
        helped = await socket.ask("/help")
        frames = await socket.until(is_final)
        assert (frames[-1]["ok"], "/approve <id>" in frames[-1]["text"]) == (True, True)
        again = await socket.ask("/help")
        assert again["run_id"] == helped["run_id"]
        here = {"session_id": helped["session_id"]}
        await socket.ask("/requests", client_id="c2", **here)
        assert (await socket.until(is_final))[-1]["text"] == "There are no unknown requests."
        asked_next = await socket.ask("hello", client_id="c3", **here)

    def told() -> tuple[list[Any], list[Any]]:
        run = Run.objects.select_related("session").get(public_id=asked_next["run_id"])
        shown = transcript.page(session=run.session)["turns"]
        return sent(run), [turn["said"]["text"] for turn in shown]

    messages, shown = await in_thread(told)
    assert [each["role"] for each in messages] == ["system", "user"]
    assert shown == ["/help", "/requests", "hello"]


async def test_c8_new_clears_the_history_and_answers_the_rest(ada: User) -> None:
    """[C8] ``/new`` alone is answered; text after it is a message."""
    async with at_the_page(ada) as socket:
        first, pen = await asked(socket)
        await in_thread(lambda: pen.end(text="Hello", format="plain"))
        await socket.until(is_final)
        here = {"session_id": first["session_id"]}
        await socket.ask("/new", client_id="c2", **here)
        assert (await socket.until(is_final))[-1]["text"] == "A new conversation begins."
        old = ChatSession.objects.filter(public_id=first["session_id"])
        await in_thread(lambda: old.update(title="The old conversation"))
        fresh = await socket.ask("/new what now?", client_id="c3", **here)
    run = await in_thread(Run.objects.select_related("session").get, public_id=fresh["run_id"])
    assert (run.text, run.state, run.session.title) == ("what now?", "queued", "what now?")
    assert [each["role"] for each in await in_thread(sent, run)] == ["system", "user"]


async def test_c8_stop_ends_the_running_answer(ada: User) -> None:
    """[C8] [C9] As the button does."""
    async with at_the_page(ada) as socket:
        first, pen = await asked(socket)
        here = {"session_id": first["session_id"]}
        await socket.ask("/stop", client_id="c2", **here)
        assert (await socket.until(is_final))[-1]["text"] == "Stopping…"
        await in_thread(lambda: pen.end(text="", format="plain"))
    run = await in_thread(Run.objects.get, public_id=first["run_id"])
    assert run.cancel_requested_at is not None


async def test_t4_a_plain_answer_is_not_rendered_as_markdown(ada: User) -> None:
    async with at_the_page(ada) as socket:
        _, pen = await asked(socket)

        def answer() -> None:
            pen.write(text("2 * 3 * 4"))
            pen.end(text="2 * 3 * 4", format="plain")

        await in_thread(answer)
        final = (await socket.until(is_final))[-1]
    assert final["html_of"] == {"text-1": '<p class="plain">2 * 3 * 4</p>'}


async def test_d3_a_failed_run_ends_with_its_error(ada: User) -> None:
    async with at_the_page(ada) as socket:
        _, pen = await asked(socket)
        await in_thread(
            lambda: pen.end(
                state=Run.State.FAILED, error="The model is away.", code="overloaded", status=502
            )
        )
        final = (await socket.until(is_final))[-1]
    assert (final["ok"], final["status"], final["error"]) == (False, 502, "The model is away.")
    assert final["code"] == "overloaded"


async def test_d3_progress_is_sent_with_its_percent(ada: User) -> None:
    async with at_the_page(ada) as socket:
        accepted, pen = await asked(socket)
        line: Any = event("progress", tool="route_to_plugin", percent=40)
        line["props"]["message"] = "Generating your presentation…"
        await in_thread(pen.write, line)
        frames = await socket.until(lambda frame: frame["type"] == "progress")
    assert frames[-1] == {
        "type": "progress",
        "run_id": accepted["run_id"],
        "session_id": accepted["session_id"],
        "message": "Generating your presentation…",
        "tool": "route_to_plugin",
        "percent": 40,
    }


async def test_d3_a_second_message_goes_into_the_same_chat(ada: User) -> None:
    async with at_the_page(ada) as socket:
        first = await socket.ask("One", client_id="a")
        second = await socket.ask("Two", client_id="b", session_id=first["session_id"])
    assert second["session_id"] == first["session_id"]
    assert second["run_id"] != first["run_id"]


async def test_rws13_the_same_message_again_is_the_same_run(ada: User) -> None:
    async with at_the_page(ada) as socket:
        first = await socket.ask("Hello", client_id="same")
        again = await socket.ask("Hello", client_id="same")
    async with at_the_page(ada) as socket:
        later = await socket.ask("Hello", client_id="same", session_id=first["session_id"])
    assert first == again == later
    assert await in_thread(Run.objects.count) == 1
    assert await in_thread(ChatSession.objects.count) == 1


async def test_rws13_the_same_client_id_of_another_person_is_another_message(
    ada: User, bob: User
) -> None:
    async with at_the_page(ada) as one, at_the_page(bob) as two:
        first = await one.ask("Hello", client_id="same")
        second = await two.ask("Hello", client_id="same")
    assert first["run_id"] != second["run_id"]


async def test_d3_another_persons_chat_does_not_exist(ada: User, bob: User) -> None:
    async with at_the_page(ada) as socket:
        mine = await socket.ask("Mine")
    async with at_the_page(bob) as socket:
        answer = await socket.ask("Yours", session_id=mine["session_id"])
        assert (answer["status"], answer["field"]) == (404, "session_id")
        for kind in ("resume", "stop"):
            await socket.say(type=kind, run_id=mine["run_id"])
            answer = await socket.hear()
            assert (answer["status"], answer["field"]) == (404, "run_id")
            assert answer["run_id"] == mine["run_id"]
    assert await in_thread(lambda: Run.objects.get().cancel_requested_at) is None


async def test_d3_an_attached_file_reaches_the_run(ada: User) -> None:
    async with at_the_page(ada) as socket:
        files = [
            {"url": "data:image/png;base64,aGk=", "name": "a.png"},
            "data:text/csv;base64,YQ==",
        ]
        accepted = await socket.ask("", files=files)
    run = await in_thread(lambda: Run.objects.get(public_id=accepted["run_id"]))
    assert run.route["media"] == [
        {"kind": "image", "url": "data:image/png;base64,aGk=", "name": "a.png"},
        {"kind": "file", "url": "data:text/csv;base64,YQ=="},
    ]


async def test_c9_stop_asks_the_run_to_end(ada: User) -> None:
    async with at_the_page(ada) as socket:
        accepted, _ = await asked(socket)
        await socket.say(type="stop", run_id=accepted["run_id"])
        assert await socket.is_silent()
    assert await in_thread(lambda: Run.objects.get().cancel_requested_at) is not None
