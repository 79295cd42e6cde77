"""[L1][L3] In any form of the model's call, requested slides are made once and delivered."""

import re
from typing import Any, cast

import pytest
from django.test import Client

from channels_app.worker.runner import Runner
from core.conversations import events, runs
from core.files import storage
from core.messages import MessageDict, fold
from core.models import Job, Run, StoredFile, User
from tests.core.jobs_worker.conftest import Say, Worker, ended
from tests.core.jobs_worker.slides import SLIDES
from tests.servers import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
ASKED = "generate a PPT about renewable energy"
CALL = {
    "plugin_id": "ppt-generation",
    "capability_id": "create_from_source",
    "parameters": {"topic": "renewable energy"},
}
WAYS: dict[str, list[dict[str, Any]]] = {
    "calls the tool": [{"tool": "route_to_plugin", "arguments": CALL}],
    "promises": [{"text": "I am working on it, this needs some time."}],
    "writes the call": [
        {"text": '{"name": "route_to_plugin", "arguments": {"plugin_id": "ppt-generation", "parameters": '
         '{"topic": "renewable energy"}}}'}
    ],
    "writes the call in tags": [
        {"text": '<tool_call>{"name": "route_to_plugin", "arguments": {"plugin_id": "ppt-generation", '
         '"capability_id": "create_from_source", "parameters": {"topic": "renewable energy"}}}</tool_call>'}
    ],
    "writes the call as code": [
        {"text": '```python\nroute_to_plugin(plugin_id="ppt-generation", capability_id="create_from_source", '
         'parameters={"topic": "renewable energy"})\n```'}
    ],
}  # fmt: skip


def log(run: Run) -> list[MessageDict]:
    return [event for _, event in events.after(run_id=run.id, seq=0)]


def lines(run: Run) -> list[tuple[str, str]]:
    """Return the progress lines of a run, with their tool."""
    return [
        (event["props"]["message"], event["props"]["data"]["tool"])
        for event in cast("list[dict[str, Any]]", log(run))
        if event["props"].get("event") == "progress"
    ]


@pytest.mark.parametrize("way", WAYS)
def test_l3_the_plugin_runs_once_and_the_user_gets_one_file_and_one_link(
    way: str, worker: Worker, script: Any, say: Say
) -> None:
    script([{"match": "PPT", "steps": WAYS[way]}])
    run = say(ASKED)
    assert (run.state, SLIDES.made) == (Run.State.SUCCEEDED, ["renewable energy"])
    job = Job.objects.get()
    assert (job.state, job.percent, job.attempt) == ("succeeded", 100, 1)
    file = StoredFile.objects.get()
    assert (file.name, file.origin, file.session_id) == (
        "renewable energy.pptx",
        "made",
        run.session_id,
    )
    assert storage.read(file) == b"renewable energy en"
    result = run.result
    assert len(re.findall(r"/files/out\?token=", result["text"])) == 1
    assert result["format"] == "link"
    assert "route_to_plugin" not in result["text"]
    # The answer replaces its announcement, in the stored text and in the shown one.
    assert "working on it" not in result["text"]
    shown = [str(part["props"]["content"]) for part in fold(log(run)) if part["type"] == "text"]
    assert "working on it" not in "".join(shown)
    assert [each["id"] for each in result["files"]] == [file.public_id]
    assert lines(run)[0] == ("Generating your presentation…", "route_to_plugin")
    assert job.message == "Writing slide 1 of 2"
    worker.join()  # the run has its answer a moment before the worker has cleaned up
    folder = storage.path_of(file).parents[1]
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["slides.pptx"]


def test_l3_a_written_call_that_is_no_json_is_an_answer(
    worker: Worker, script: Any, say: Say
) -> None:
    """The turn failed."""
    text = "run_skill(skill={'words', 'more'})"
    script([{"match": "", "steps": [{"text": text}]}])
    run = say("which skill counts words?")
    assert (run.state, run.result["text"]) == (Run.State.SUCCEEDED, text)


def test_l3_a_request_that_only_speaks_of_slides_calls_nothing(
    worker: Worker, script: Any, say: Say
) -> None:
    script([{"match": "", "steps": [{"text": "I am working on it."}]}])
    assert say("what is a presentation layer?").result["text"] == "I am working on it."
    assert not Job.objects.exists()


def test_l3_an_answer_that_is_no_promise_is_left_alone(
    worker: Worker, script: Any, say: Say
) -> None:
    script([{"match": "", "steps": [{"text": "Sure! How many slides do you want?"}]}])
    say(ASKED)
    assert not Job.objects.exists()


def test_l3_an_embedded_model_is_not_called(
    worker: Worker, script: Any, say: Say, settings: Any
) -> None:
    settings.LLM_IS_EMBEDDED = True
    script([{"match": "", "steps": [{"text": "Slides are a kind of shoe."}]}])
    assert "shoe" not in say(ASKED).result["text"]
    assert SLIDES.made == ["renewable energy"]


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        ("fail", "The slides could not be made: no paper."),
        ("crash", "Something went wrong in the gateway."),
        ("escape", "The plugin created no file that can be sent."),
    ],
)
def test_l2_a_job_that_fails_says_so_and_leaves_nothing(
    topic: str, error: str, worker: Worker, script: Any, say: Say
) -> None:
    arguments = {**CALL, "parameters": {"topic": topic}}
    script([{"match": "", "steps": [{"tool": "route_to_plugin", "arguments": arguments}]}])
    run = say("slides please")
    assert (run.state, run.result["text"]) == (Run.State.SUCCEEDED, error)
    job = Job.objects.get()
    assert (job.state, job.error) == ("failed", error)
    files = storage.folder() / "jobs" / str(job.id)  # they go after the answer
    wait_until(lambda: not list(files.rglob("*.*")), what="the end of the files")


def test_l2_stop_ends_a_job_and_removes_its_files(
    worker: Worker, script: Any, say: Say, runner: Runner
) -> None:
    arguments = {**CALL, "parameters": {"topic": "hang"}}
    script([{"match": "", "steps": [{"tool": "route_to_plugin", "arguments": arguments}]}])
    run = say("slides please", wait=False)
    wait_until(lambda: Job.objects.filter(percent=60).exists(), what="a job that is on its way")
    assert list(storage.folder().rglob("half.bin"))
    assert runs.request_cancel(run=run)
    assert ended(run).state == Run.State.CANCELLED
    worker.join()
    assert Job.objects.get().state == "cancelled"
    assert not list(storage.folder().rglob("half.bin"))
    assert not StoredFile.objects.exists()


def test_l2_the_admin_shows_a_job_and_its_events_and_ends_it(
    worker: Worker, script: Any, say: Say, client: Client
) -> None:
    client.force_login(User.objects.create_superuser("boss"))
    arguments = {**CALL, "parameters": {"topic": "hang"}}
    script([{"match": "", "steps": [{"tool": "route_to_plugin", "arguments": arguments}]}])
    run = say("slides please", wait=False)
    wait_until(lambda: Job.objects.filter(percent=60).exists(), what="a job that is on its way")
    job = Job.objects.get()
    listed = client.get("/admin/core/job/").content.decode()
    assert "Writing slide 2 of 2" in listed
    assert "ppt-generation" in listed
    assert (
        "Generating your presentation"
        in client.get(f"/admin/core/run/{run.id}/change/").content.decode()
    )
    chosen = {"action": "cancel", "_selected_action": [str(job.id)]}
    assert b"1 of 1 task." in client.post("/admin/core/job/", chosen, follow=True).content
    assert ended(run).state == Run.State.CANCELLED
    worker.join()
    assert not list(storage.folder().rglob("half.bin"))
    assert b"0 of 1 task." in client.post("/admin/core/job/", chosen, follow=True).content


def test_l1_a_wrong_plugin_is_reported_to_the_model(worker: Worker, script: Any, say: Say) -> None:
    script(
        [
            {"match": "", "after_tool": True, "steps": [{"text": "There is no such thing."}]},
            {"match": "", "steps": [{"tool": "route_to_plugin", "arguments": {"plugin_id": "x"}}]},
        ]
    )
    assert say("go").result["text"] == "There is no such thing."
    assert not Job.objects.exists()
