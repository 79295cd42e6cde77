"""[L1] Skills of the owner, and results as pages."""

import asyncio
import html
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.test import Client

from channels_app.ops.doctor import work
from core.files import storage
from core.jobs_worker import skills
from core.models import Job, Run, Skill, StoredFile, User
from core.tools.base import ToolContext, ToolError
from core.tools.run_skill import TOOL
from core.tools.save_result_page import Page, page_of, store
from tests.core.jobs_worker.conftest import Say, Worker
from tests.servers import wait_until

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
    """Make five skills: texts, scripts, a script outside its folder; return their folder."""
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


DOCUMENT = (settings.BASE_DIR / "docs" / "plugins.md").read_text(encoding="utf-8")


def in_the_document(language: str, beginning: str) -> str:
    """Return the fenced block of docs/plugins.md in this language with this beginning."""
    blocks = re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)
    (found,) = [block for block in blocks if block.startswith(beginning)]
    return str(found)


def test_l1_the_skill_of_the_document_works_as_it_stands_there(
    tmp_path: Path, settings: Any, worker: Worker, script: Any, say: Say
) -> None:
    settings.GATEWAY_HOME = tmp_path
    place = tmp_path / "skills" / "Count"
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text(in_the_document("markdown", "---"))
    (place / "count.py").write_text(in_the_document("python", "import json"))
    assert skills.broken() == {}
    Skill.objects.create(name="Count", enabled=True)
    script(call("Count", text="one two three"))
    text = say("count").result["text"]
    assert text.startswith("3 words\n")
    assert storage.read(StoredFile.objects.get(name="words.txt")) == b"one\ntwo\nthree"


HEADS = {
    "no file": (None, "There is no SKILL.md in the folder."),
    "no head": ("Just words.", "must begin with YAML between two lines of ---."),
    "text before the head": ("Hi\n---\nname: x\n---\n", "must begin with YAML"),
    "a colon without quotes": (
        '---\ndescription: input {"text": "…"}\n---\n',
        "line 2, mapping values are not allowed here (text with “: ” in it needs quotes).",
    ),
    "a list": ("---\n- a\n---\n", "must name name, description and script."),
    "a script that is not there": (
        "---\nscript: x.py\n---\n",
        "The script x.py is not in the folder.",
    ),
    "a script elsewhere": ("---\nscript: ../x.py\n---\n", "a file of the skill's own folder."),
}


@pytest.mark.parametrize("head", HEADS)
def test_l1_a_broken_skill_is_shown_with_its_error_wherever_skills_are_seen(
    head: str, tmp_path: Path, settings: Any, client: Client, worker: Worker, script: Any, say: Say
) -> None:
    """In the admin, where it cannot be switched on; by the doctor; to a model that asks for it."""
    text, error = HEADS[head]
    settings.GATEWAY_HOME = tmp_path
    place = tmp_path / "skills" / "odd"
    place.mkdir(parents=True)
    if text is not None:
        (place / "SKILL.md").write_text(text)
    client.force_login(User.objects.create_superuser("boss"))
    page = client.get("/admin/core/skill/")
    assert error in html.unescape(page.content.decode())
    order = {"action": "switch_on", "_selected_action": ["odd"]}
    told = client.post("/admin/core/skill/", order, follow=True).content.decode()
    assert "odd was not switched on" in told
    assert not Skill.objects.get(name="odd").enabled
    (finding,) = list(work.skills_that_fail())
    assert error in finding.what
    Skill.objects.update(enabled=True)  # it was valid when it was enabled
    with pytest.raises(ToolError, match="should fix it"):
        async_to_sync(TOOL.run)(None, {"skill": "odd"})  # type: ignore[arg-type]


def test_l1_hyphens_within_a_line_do_not_end_the_head() -> None:
    facts, rest = skills.head_of("---\ndescription: a --- b\nscript: x.py\n---\nText ---\n---\nend")
    assert facts == {"description": "a --- b", "script": "x.py"}
    assert rest == "Text ---\n---\nend"


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
    assert storage.read(StoredFile.objects.get()) == b"3"


def test_l1_a_failing_script_is_reported(
    shelf: Path, worker: Worker, script: Any, say: Say
) -> None:
    Skill.objects.create(name="broken", enabled=True)
    script(call("broken"))
    assert say("go").result["text"] == "The skill's script failed."


def test_l1_output_that_a_script_writes_bit_by_bit_is_whole(
    shelf: Path, worker: Worker, script: Any, say: Say
) -> None:
    """Also when it is read before the script has ended."""
    code = "import time; print('First,', flush=True); time.sleep(0.3); print('then second.')"
    (shelf / "count" / "count.py").write_text(code)
    Skill.objects.create(name="count", enabled=True)
    script(call("count"))
    assert say("count").result["text"] == "First,\nthen second."


def test_l1_only_files_with_content_that_a_script_leaves_on_purpose_are_delivered(
    shelf: Path, worker: Worker, script: Any, say: Say
) -> None:
    """Its home is the folder: programs keep files of their own there. Platforms take no empty
    one.
    """
    files = [*(f".{each}" for each in ("wget-hsts", "a", "b", "c", "d")), "empty.log"]
    code = "".join(f"open({each!r}, 'w').write({each[:1] == '.'} * 'x')\n" for each in files)
    (shelf / "count" / "count.py").write_text(f"{code}open('made.txt', 'w').write('1')")
    Skill.objects.create(name="count", enabled=True)
    script(call("count"))
    say("count")
    assert [file.name for file in StoredFile.objects.all()] == ["made.txt"]


def test_l1_the_result_says_that_a_script_made_more_files_than_are_sent(
    shelf: Path, worker: Worker, script: Any, say: Say
) -> None:
    (shelf / "count" / "count.py").write_text("for n in range(7): open(f'{n}.txt', 'w').write('x')")
    Skill.objects.create(name="count", enabled=True)
    script(call("count"))
    text = say("count").result["text"]
    assert text.endswith("\n\nThe skill made 7 files, but only the first 5 are sent.")
    assert [file.name for file in StoredFile.objects.all()] == [f"{n}.txt" for n in range(5)]


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux ends it")
def test_l2_a_script_ends_with_the_process_of_its_job(tmp_path: Path) -> None:
    """As after a kill -9: the task is begun again, and the script with it."""
    script = tmp_path / "wait.sh"
    script.write_text("#!/bin/sh\necho $$ > pid\nexec sleep 100\n")
    script.chmod(0o700)
    child = os.fork()
    if child == 0:
        skill = skills.Found("wait", "", "", tmp_path, script)
        asyncio.run(skills.output_of(skill, {}, tmp_path))
        os._exit(1)
    noted = tmp_path / "pid"
    wait_until(lambda: noted.exists() and noted.read_text().strip(), what="the script")
    started = psutil.Process(int(noted.read_text()))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    wait_until(lambda: not started.is_running(), seconds=10, what="the end of the script")


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
    page = storage.read(file).decode()
    assert text.startswith("It is saved.")
    assert text.count("/files/out?token=") == 1
    assert (file.name, file.origin) == ("The plan.html", "made")
    assert "<td>1</td>" in page
    assert "<script" not in page


def test_l1_another_attempt_finds_a_page_and_keeps_another_version(
    worker: Worker, script: Any, say: Say
) -> None:
    arguments = {"title": "The plan", "content": "Costs 5 €."}
    script(
        [
            {"match": "", "after_tool": True, "steps": [{"text": "It is saved."}]},
            {"match": "", "steps": [{"tool": "save_result_page", "arguments": arguments}]},
        ]
    )
    run = say("save it")
    first = StoredFile.objects.get()
    Run.objects.filter(id=run.id).update(attempt=2)
    context = ToolContext(run.id, run.user_id, run.session_id, "call", "UTC", lambda _: None)
    assert store(context, Page("The plan", "Costs 5 €.")) == first
    assert b"Costs 7" in storage.read(store(context, Page("The plan", "Costs 7 €.")))


@pytest.mark.parametrize(
    ("content", "is_html", "shown"),
    [
        (
            "<html><head><title>T</title></head><body><h1>A</h1><button>x</button></body></html>",
            True,
            "<h1>A</h1>",
        ),
        ("```html\n<h1>A</h1>\n```", True, "<h1>A</h1>"),
        ("```markdown\n# A\n\n```py\nx\n```\n```", False, '<h1>A</h1>\n<pre tabindex="0"><code>x'),
        ("# A\n\n- [ ] b\n- [x] c", False, "<h1>A</h1>\n<ul>\n<li>☐ b</li>\n<li>☑ c</li>"),
        (
            "# A\n\nb<br>H<sub>2</sub>O List<String> <a href='//x'>",
            False,
            "<h1>A</h1>\n<p>b<br>\nH<sub>2</sub>O List&lt;String&gt; &lt;a href='//x'&gt;</p>",
        ),
        ("# A\n\n10*20*30 = 6000", False, "<h1>A</h1>\n<p>10*20*30 = 6000</p>"),
        (
            "# A\n\nREADME.md, https://e.org/b",
            False,
            '<h1>A</h1>\n<p>README.md, <a href="https://e.org/b" rel="noopener noreferrer">https',
        ),
        (
            "# A\n\nb[^1]\n\n[^1]: c",
            False,
            "<h1>A</h1>\n<p>b<sup>1</sup></p>\n<p><sup>1</sup> c</p>",
        ),
        ("# A\n\n[INFO]: main.py", False, "<h1>A</h1>\n<p>[INFO]: main.py</p>"),
        ("# A\n\nfns[0](e.data)", False, "<h1>A</h1>\n<p>fns[0](e.data)</p>"),
        (
            "# A\n\n\\[ x^2 \\]\n\n$5 and $6",
            False,
            '<h1>A</h1>\n<div class="formula"><math display="block"><mrow><msup><mi>x</mi><mn>2</mn>'
            "</msup></mrow></math></div>\n<p>$5 and $6</p>",
        ),
    ],
)
def test_l1_a_page_is_shown_as_its_author_meant(content: str, is_html: bool, shown: str) -> None:
    page = page_of(Page("T", content, is_html=is_html), picture=lambda _: None)
    assert page[page.index("<main") :].startswith(f'<main dir="auto">{shown}')


def test_l1_a_page_in_arabic_runs_to_the_left_though_it_begins_with_a_latin_name() -> None:
    page = page_of(Page("Python", "- هي لغة برمجة", is_html=False), picture=lambda _: None)
    assert '<main dir="rtl"><h1>Python</h1>' in page


@pytest.mark.parametrize(
    ("content", "language"),
    [("Der Plan ist nicht fertig.", "de"), ("هي لغة برمجة", "ar"), ("The plan is ready.", "en")],
)
def test_l1_a_page_says_in_which_language_it_is(content: str, language: str) -> None:
    """By its own text. Else a screen reader reads German with an English voice."""
    page = page_of(Page("Plan", content), picture=lambda _: None)
    assert f'<html lang="{language}">' in page


def test_l1_html_of_a_model_loses_active_content() -> None:
    evil = '<h2 onclick="x()">Hi</h2><iframe src="https://e"></iframe><a href="javascript:x()">y</a><style>*{}</style>'
    evil += '<math onclick="x()"><mspace width="-9999px"></mspace><mi href="javascript:x()">z</mi></math>'
    page = page_of(Page("<b>T</b>", evil, is_html=True), picture=lambda _: None)
    body = page[page.index("<main") :]
    for bad in ("onclick", "<iframe", "javascript:", "<style", "-9999"):
        assert bad not in body
    assert "<title>&lt;b&gt;T&lt;/b&gt;</title>" in page
