"""[L1] A real presentation, end to end: requested in words, made by the real plugins, downloaded."""

import io
import re
from collections.abc import Callable
from typing import Any

import pptx
import pytest

from core.conversations import jobs
from core.files import storage
from core.models import Job, Run, StoredFile
from core.plugins import registry
from core.plugins.html_slides import PLUGIN as HTML
from core.plugins.ppt_generation import PLUGIN as PPT
from tests.core.jobs_worker.conftest import Say, Worker

pytestmark = pytest.mark.django_db(transaction=True)
FACTS = (
    "Bees pollinate a third of our crops. A hive has 50000 bees. Honey sales were 120 tons in 2022, "
    "150 tons in 2023 and 180 tons in 2024. Beekeepers check hives weekly in spring."
)
# A model that never follows a schema: the decks come from the source's own sentences.
WEAK = [{"match": "", "steps": [{"text": "I am working on it, this needs some time."}]}]


@pytest.fixture(autouse=True)
def test_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the real plugins, in place of the other tests' own."""
    real = {PPT.id: PPT, HTML.id: HTML}
    assert real.items() <= registry.every().items()


@pytest.mark.parametrize(
    ("asked", "suffix"),
    [("Make a PowerPoint from this text", ".pptx"), ("Make HTML slides from this text", ".html")],
)
def test_l1_l3_a_model_that_only_promises_still_makes_a_real_deck(
    asked: str, suffix: str, worker: Worker, script: Callable[[Any], None], say: Say
) -> None:
    script(WEAK)
    run: Run = say(f"{asked}:\n\n{FACTS}")
    job = Job.objects.get()
    assert (run.state, job.state) == ("succeeded", "succeeded"), (run.error, job.error)
    (stored,) = StoredFile.objects.all()
    assert stored.name.endswith(suffix)
    assert run.result["text"].count("/files/out?token=") == 1
    content = storage.read(stored)
    if suffix == ".html":
        shown = re.sub(r"<[^>]+>", " ", content.decode())
    else:
        deck = pptx.Presentation(io.BytesIO(content))
        shown = " ".join(
            shape.text_frame.text
            for slide in deck.slides
            for shape in slide.shapes
            if shape.has_text_frame
        )
    assert "pollinate" in shown
    assert jobs.begun(run_id=run.id)
