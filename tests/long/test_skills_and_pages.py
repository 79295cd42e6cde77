"""[L1] Skills of the owner, and results as pages."""

from pathlib import Path
from typing import Any

import pytest

from core import files
from core.long import skills
from core.models import Job, Skill, StoredFile
from core.tools.save_result_page import Page, page_of
from tests.long.conftest import Say, Worker

pytestmark = pytest.mark.django_db(transaction=True)
HEAD = "---\nname: Count\ndescription: Counts words\n{more}---\nCount the words and say how many.\n"
SCRIPT = """
import json, os, sys
given = json.load(sys.stdin)
open("count.txt", "w").write(str(len(given["text"].split())))
print("There are", len(given["text"].split()), "words;", "SECRET_KEY" in os.environ)
"""


@pytest.fixture
def shelf(tmp_path: Path, settings: Any) -> Path:
    """Three skills: words, a script, and one that never ends its line."""
    settings.GATEWAY_HOME = tmp_path
    for name, more, script in (
        ("words", "", ""),
        ("count", "script: count.py\n", SCRIPT),
        ("odd \u202e name", "", ""),
        ("bad", "script: ../count/count.py\n", ""),
        ("broken", "script: run.py\n", "raise SystemExit(3)"),
    ):
        place = tmp_path / "skills" / name
        place.mkdir(parents=True)
        (place / "SKILL.md").write_text(HEAD.format(more=more))
        if script:
            (place / ("run.py" if name == "broken" else "count.py")).write_text(script)
    return tmp_path / "skills"


def call(skill: str, **given: Any) -> list[dict[str, Any]]:
    return [
        {"match": "", "after_tool": True, "steps": [{"text": "Told."}]},
        {
            "match": "",
            "steps": [{"tool": "run_skill", "arguments": {"skill": skill, "input": given}}],
        },
    ]


def test_l1_a_skill_is_off_until_it_is_switched_on(
    shelf: Path, worker: Worker, script: Any, say: Say
) -> None:
    assert sorted(skills.every()) == ["broken", "count", "words"]
    assert skills.switched_on() == {}
    script(call("count", text="a b"))
    assert say("count").result["text"] == "Told."
    assert not Job.objects.exists()


def test_l1_a_script_runs_without_our_secrets_and_its_file_is_delivered(
    shelf: Path, worker: Worker, script: Any, say: Say
) -> None:
    Skill.objects.create(name="count", enabled=True)
    script(call("count", text="one two three"))
    text = say("count").result["text"]
    assert text.startswith("There are 3 words; False")
    assert "/files/out?token=" in text
    assert files.read(StoredFile.objects.get()) == b"3"


def test_l1_a_script_that_fails_is_told(shelf: Path, worker: Worker, script: Any, say: Say) -> None:
    Skill.objects.create(name="broken", enabled=True)
    script(call("broken"))
    assert say("go").result["text"] == "The skill's script failed."


def test_l1_a_skill_of_words_instructs_the_model(
    shelf: Path, worker: Worker, script: Any, say: Say
) -> None:
    Skill.objects.create(name="words", enabled=True)
    script(call("words"))
    assert say("go").result["text"] == "Told."
    assert not Job.objects.exists()


def test_l1_a_page_is_clean_and_its_link_is_never_forgotten(
    worker: Worker, script: Any, say: Say
) -> None:
    content = "# Plan\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n<script>alert(1)</script>"
    arguments = {"title": "The plan", "content": content}
    script(
        [
            {"match": "", "after_tool": True, "steps": [{"text": "It is saved."}]},
            {"match": "", "steps": [{"tool": "save_result_page", "arguments": arguments}]},
        ]
    )
    text = say("save it").result["text"]
    file = StoredFile.objects.get()
    page = files.read(file).decode()
    assert text.startswith("It is saved.")
    assert text.count("/files/out?token=") == 1
    assert (file.name, file.origin) == ("The plan.html", "made")
    assert "<td>1</td>" in page
    assert "<script" not in page


def test_l1_html_of_a_model_loses_what_could_act() -> None:
    evil = '<h2 onclick="x()">Hi</h2><iframe src="https://e"></iframe><a href="javascript:x()">y</a><style>*{}</style>'
    page = page_of(Page("<b>T</b>", evil, is_html=True), picture=lambda _: None)
    body = page[page.index("<main") :]
    for bad in ("onclick", "<iframe", "javascript:", "<style"):
        assert bad not in body
    assert "<title>&lt;b&gt;T&lt;/b&gt;</title>" in page
