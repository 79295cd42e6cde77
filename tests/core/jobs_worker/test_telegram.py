"""[L1] Slides on Telegram: one message with the progress, then the link; and the document."""

from collections.abc import Callable
from typing import Any

import pytest

from channels_app.worker.runner import Runner
from core.models import Job
from tests.channels_app.running import guest, owner, until
from tests.channels_app.telegram.conftest import local
from tests.channels_app.telegram.local import Local
from tests.core.jobs_worker.conftest import Worker
from tests.core.jobs_worker.slides import SLIDES
from tests.core.jobs_worker.test_asked import ASKED, WAYS

__all__ = ["guest", "local", "owner"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("way", ["calls the tool", "promises", "writes the call"])
def test_l1_l3_a_chat_gets_one_link_and_one_document(
    way: str, runner: Runner, worker: Worker, local: Local, script: Callable[[Any], None]
) -> None:
    script([{"match": "PPT", "steps": WAYS[way]}])
    local.say(ASKED, user=556)

    def shown() -> list[Any]:
        return local.api.shown(local.tokens["main"], 556)

    until(lambda: any(each.kind == "document" for each in shown()))
    texts = [each for each in shown() if each.kind == "text"]
    documents = [each for each in shown() if each.kind == "document"]
    assert SLIDES.made == ["renewable energy"]
    assert Job.objects.count() == 1
    assert [(each.filename, each.file) for each in documents] == [
        ("renewable energy.pptx", b"renewable energy en")
    ]
    assert len(texts) == 1
    until(lambda: shown()[0].text.count("/files/out?token=") == 1)
    assert "Generating your presentation…" in texts[0].history[0]
    assert "route_to_plugin" not in shown()[0].text


def test_l2_stop_in_a_chat_ends_the_job(
    runner: Runner, worker: Worker, local: Local, script: Callable[[Any], None]
) -> None:
    arguments = {"plugin_id": "ppt-generation", "parameters": {"topic": "hang"}}
    script([{"match": "", "steps": [{"tool": "route_to_plugin", "arguments": arguments}]}])
    local.say("slides", user=556)
    until(lambda: Job.objects.filter(percent=60).exists())
    local.say("/stop", user=556)
    until(lambda: Job.objects.filter(state="cancelled").exists())
    until(lambda: any("Stopped" in text for text in local.texts(556)))
