"""[M1] [T7] Messages and media of plugins and skills, at the endpoints and on Telegram; [L2] the
answers and messages that a killed job keeps.
"""

import asyncio
import base64
import json
import struct
import wave
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from channels_app.worker.runner import Runner
from core.conversations import events, jobs
from core.files import storage
from core.jobs_worker import host, process, steps
from core.messages import (
    MessageError,
    audio_message,
    event_message,
    image_message,
    text_delta,
    text_message,
)
from core.models import Job, JobStep, Run, Skill, StoredFile
from core.providers import registry as providers
from core.providers.scripted import Scripted
from tests.channels_app.running import guest, owner, until
from tests.channels_app.telegram.conftest import local
from tests.channels_app.telegram.local import Local
from tests.core.jobs_worker.conftest import Say, Worker
from tests.core.jobs_worker.example import example_plugin
from tests.core.jobs_worker.test_real_plugins import NORWAY, calling

__all__ = ["example_plugin", "guest", "local", "owner"]
pytestmark = pytest.mark.django_db(transaction=True)
Script = Callable[[list[dict[str, Any]]], None]
NUMBERS = {"source": "Monday 4, Tuesday 8, Wednesday 2 bees", "title": "Bees a day"}
DRAW = {"plugin_id": "example-bars", "capability_id": "draw", "parameters": NUMBERS}
CALLS = [{"match": "", "steps": [{"tool": "route_to_plugin", "arguments": DRAW}]}]


@pytest.fixture(autouse=True)
def test_plugins() -> None:
    """Install the real plugins, in place of the other tests' own."""


def log(run: Run) -> list[dict[str, Any]]:
    """Return the events of a run."""
    found = [event for _, event in events.after(run_id=run.id, seq=0)]
    return cast("list[dict[str, Any]]", found)


def types(run: Run) -> list[str]:
    """Return the types of a run's whole messages, in order."""
    return [
        event["type"] for event in log(run) if event["type"] != "event" and "delta" not in event
    ]


def png_of(url: str) -> bytes:
    """Return the bytes of a data URL of a PNG."""
    head, _, data = url.partition(",")
    assert head == "data:image/png;base64"
    return base64.b64decode(data)


def test_m1_a_plugin_of_another_package_sends_messages_and_a_picture(
    example_plugin: str, worker: Worker, script: Script, say: Say
) -> None:
    """[T7] The picture is in ``images``, not a link; each message between its start and its end."""
    script(CALLS)
    run = say("draw it")
    (image,) = run.result["images"]
    assert png_of(image).startswith(b"\x89PNG")
    assert "Bees a day: 3 bars." in run.result["text"]
    assert "chart.png" not in run.result["text"]
    assert "/files/out" not in run.result["text"].partition("chart")[0]
    assert types(run) == ["tool_call", "retrieval", "chart", "action", "image"]
    custom = next(event for event in log(run) if event["type"] == "chart")
    assert custom["props"] == {"title": "Bees a day", "data": [4.0, 8.0, 2.0]}
    for event in log(run):
        if event["type"] in {"retrieval", "chart", "action", "image"}:
            named = [
                each["props"]["event"]
                for each in log(run)
                if each["type"] == "event"
                and each["props"].get("data", {}).get("message_id") == event["message_id"]
            ]
            assert named == ["message_start", "message_end"]


def test_t7_a_picture_of_a_plugin_is_a_photo_on_telegram(
    example_plugin: str, runner: Runner, worker: Worker, local: Local, script: Script
) -> None:
    script(CALLS)
    local.say("draw it", user=556)

    def shown() -> list[Any]:
        return local.api.shown(local.tokens["main"], 556)

    until(lambda: any(each.kind == "photo" for each in shown()))
    assert Counter(each.kind for each in shown())["document"] == 0
    (photo,) = [each for each in shown() if each.kind == "photo"]
    assert photo.file.startswith(b"\x89PNG")


MEDIA_SCRIPT = """
import json, pathlib, shutil
for name in json.load(open(0))["files"]:
    shutil.copy(name, pathlib.Path(name).name)
print("Here they are.")
with open("messages.jsonl", "w") as file:
    file.write(json.dumps({"type": "text", "props": {"content": "Said by a skill."}}) + "\\n")
"""


def picture() -> bytes:
    """Return a PNG of one pixel."""
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"\0\0")),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in parts
    )


@pytest.fixture
def media(tmp_path: Path, settings: Any) -> list[str]:
    """Make a picture, a recording, a film and a table; and a skill that returns them."""
    settings.GATEWAY_HOME = tmp_path
    place = tmp_path / "skills" / "media"
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text("---\ndescription: x\nscript: run.py\n---\n")
    (place / "run.py").write_text(MEDIA_SCRIPT)
    Skill.objects.create(name="media", enabled=True)
    made = tmp_path / "made"
    made.mkdir()
    (made / "a.png").write_bytes(picture())
    with wave.open(str(made / "b.wav"), "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(b"\0\0" * 80)
    (made / "c.mp4").write_bytes(b"\0\0\0\x18ftypmp42")
    (made / "d.csv").write_text("a,b\n")
    return [str(path) for path in sorted(made.iterdir())]


def test_m1_media_of_a_skill_are_messages_of_their_own_type(
    media: list[str], worker: Worker, script: Script, say: Say
) -> None:
    arguments = {"skill": "media", "input": {"files": media}}
    script([{"match": "", "steps": [{"tool": "run_skill", "arguments": arguments}]}])
    run = say("go")
    assert types(run) == ["tool_call", "text", "image", "audio", "video"]
    text = run.result["text"]
    assert len(run.result["images"]) == 1
    assert "Said by a skill." in text
    assert "🔊 [Play Audio](" in text
    assert "🎬 [Watch Video](" in text
    assert text.count("/files/out?token=") == 3  # the recording, the film, the table
    assert sorted(each["name"] for each in run.result["files"]) == ["b.wav", "c.mp4", "d.csv"]


def test_m1_an_invalid_line_of_a_skill_is_reported(
    media: list[str], worker: Worker, script: Script, say: Say, tmp_path: Path
) -> None:
    code = (
        'open("messages.jsonl", "w").write(\'{"type": "event", "props": {"event": "stream_end"}}\')'
    )
    (tmp_path / "skills" / "media" / "run.py").write_text(code)
    arguments = {"skill": "media", "input": {}}
    script([{"match": "", "steps": [{"tool": "run_skill", "arguments": arguments}]}])
    assert "Line 1 of messages.jsonl is no message" in say("go").result["text"]


@pytest.mark.parametrize(
    "message",
    [
        event_message("stream_end"),
        text_delta("x", message_id="text-1"),
        image_message("data:image/png;base64," + "A" * steps.MESSAGE_BYTES),
        audio_message(7),  # type: ignore[arg-type]
    ],
)
def test_m1_invalid_messages_of_plugins_are_refused(message: Any) -> None:
    with pytest.raises(MessageError):
        steps.sendable(message)


def test_m1_odd_characters_of_a_plugin_are_stored_on_both_databases() -> None:
    data = steps.sendable(text_message("a\x00b\ud800c"))
    assert "\x00" not in json.dumps(data["props"])


# --- a job that is killed -----------------------------------------------------------------------------


class Died(BaseException):
    """The worker was killed."""


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Scripted:
    """Return a model that counts its questions."""
    made = Scripted(calling(NORWAY, "^never$"))
    monkeypatch.setattr(providers, "provider_of", lambda _: made)
    return made


def begun(run: Run, call: str) -> Job:
    """Return an unclaimed job of the requirement's own call, of a run that goes on."""
    Run.objects.filter(id=run.id).update(state=Run.State.RUNNING)
    parameters = {**NORWAY, "parameters": {**NORWAY["parameters"], "slides": 9, "language": "en"}}
    found = jobs.begin(run_id=run.id, call_id=call, tool="route_to_plugin", parameters=parameters)
    return Job.objects.get(id=found)


def attempt(job: Job, *, dies_at: int | None, monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Run one attempt of a job, which dies at its n-th progress line; return the percentages."""
    seen: list[int | None] = []
    original = host.Host.progress

    async def progress(self: host.Host, message: str, percent: float | None = None) -> None:
        if len(seen) == dies_at:
            raise Died
        await original(self, message, percent)
        seen.append(await Job.objects.values_list("percent", flat=True).aget(id=job.id))

    with monkeypatch.context() as patch:
        patch.setattr(host.Host, "progress", progress)
        held = jobs.claim(job_id=job.id)
        assert held is not None
        if dies_at is None:
            asyncio.run(process.perform_and_close(held))
        else:
            with pytest.raises(Died):
                asyncio.run(process.perform_and_close(held))
            jobs.release(job=held)
    return seen


def test_l2_a_killed_job_asks_nothing_twice_and_its_percentage_does_not_fall(
    model: Scripted, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = say("hello")
    model.calls = 0
    attempt(begun(run, "whole"), dies_at=None, monkeypatch=monkeypatch)
    undisturbed = model.calls
    assert undisturbed > 6
    model.calls = 0
    job = begun(run, "killed")
    seen = [
        percent
        for dies_at in (4, 6, None)
        for percent in attempt(job, dies_at=dies_at, monkeypatch=monkeypatch)
        if percent is not None
    ]
    assert model.calls == undisturbed
    assert seen == sorted(seen)
    job.refresh_from_db()
    assert (job.state, job.attempt) == ("succeeded", 3)
    made = [storage.read(row) for row in StoredFile.objects.filter(origin=storage.MADE)]
    assert len(made) == 2
    assert not JobStep.objects.filter(kind=JobStep.Kind.ANSWER).exists()


def test_l2_stored_steps_of_a_job_are_bounded_and_deleted_at_its_end(
    model: Scripted, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = say("hello")
    monkeypatch.setattr(steps, "MOST_ANSWERS", 3)
    job = begun(run, "killed")
    attempt(job, dies_at=6, monkeypatch=monkeypatch)
    assert JobStep.objects.filter(job=job).count() == 3
    held = jobs.claim(job_id=job.id)
    assert held is not None
    jobs.fail(job=held, error="no")
    steps.drop_answers(job.id)
    assert not JobStep.objects.exists()


def test_m1_messages_of_a_killed_job_are_sent_once(
    example_plugin: str, say: Say, script: Script, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker dies after the messages; the next one sends them again, and each is shown once."""
    died: list[int] = []
    original = jobs.finish

    def finish(**given: Any) -> None:
        if not died:
            died.append(1)
            jobs.release(job=given["job"])
            raise jobs.LostJobError
        original(**given)

    monkeypatch.setattr(jobs, "finish", finish)
    script(CALLS)
    run = say("draw it")
    assert died
    assert types(run) == ["tool_call", "retrieval", "chart", "action", "image"]
