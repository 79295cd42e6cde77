"""README, *Presentations, summaries*, and docs/presentations.md: decks, summaries, result pages."""

import base64
import io
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import FilePayload, Page, expect
from pptx import Presentation

from tests.journeys.conftest import OWNER_ON_TELEGRAM, Installation, ask
from tests.journeys.documents import block, says
from tests.journeys.model import HEARD, Rule
from tests.servers import wait_until

MAKE = {"plugin_id": "ppt-generation", "capability_id": "create_from_source", "parameters": {}}
SUMMARIZE = {"plugin_id": "summarize", "capability_id": "summarize", "parameters": {}}
LINK = re.compile(r"/files/out\?token=[\w.:-]+")
MARSH = " ".join(
    f"The {each} of the marsh was drawn by a painter who came every spring and stayed for long."
    for each in ("heron", "reed", "frog", "willow", "bittern", "otter", "rail", "sedge")
)
Json = dict[str, Any]


@pytest.fixture
def client(running: Installation) -> Iterator[httpx.Client]:
    """Yield the owner's program, with a key."""
    headers = {"Authorization": f"Bearer {running.key('laptop')}"}
    with httpx.Client(base_url=running.url, headers=headers, timeout=120) as found:
        yield found


def titles(deck: bytes) -> list[str]:
    """Return the titles of a .pptx, one a slide."""
    slides = Presentation(io.BytesIO(deck)).slides
    return [each.shapes.title.text_frame.text if each.shapes.title else "" for each in slides]


def linked(client: httpx.Client, text: str) -> bytes:
    """Return the file behind the one link of an answer, which needs no key."""
    (path,) = LINK.findall(text)
    answer = httpx.get(client.base_url.join(path), timeout=60)
    assert answer.status_code == 200
    return answer.content


def said(client: httpx.Client, **body: Any) -> Json:
    """Ask ``/inbound``; return the answer."""
    answer = client.post("/inbound", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def words(deck: bytes) -> str:
    """Return all texts on the slides."""
    slides = Presentation(io.BytesIO(deck)).slides
    return "\n".join(
        each.text_frame.text for slide in slides for each in slide.shapes if each.has_text_frame
    )


def test_a_deck_of_a_topic_comes_though_the_model_only_promises_it(
    page: Page, running: Installation
) -> None:
    """README: "Generate a presentation about renewable energy"; docs/presentations.md: so many
    slides, and the title, as asked. The file is opened from its card."""
    says("README.md", "If the model only promises to do it, the gateway calls the tool itself")
    says("docs/presentations.md", "exactly this number, title and closing included")
    promise = "Sure! I'm working on your presentation now, it will be ready in a moment."
    running.model.rules.insert(0, Rule("^Generate a presentation", text=promise))
    ask(page, "Generate a presentation about renewable energy, 8 slides, titled “Our year”")
    card = page.locator("a.file-card")
    expect(card).to_contain_text(".pptx")
    expect(page.locator(".answer").last).not_to_contain_text("token=")
    with page.expect_download() as found:
        card.click()
    deck = found.value.path().read_bytes()
    assert len(titles(deck)) == 8
    assert titles(deck)[0] == "Our year"


def test_a_recording_that_is_attached_is_heard(page: Page, running: Installation) -> None:
    """docs/web-chat.md, *Recordings*: a voice memo alone is a message, and names its chat."""
    says("docs/web-chat.md", "It is put into words before the model reads it")
    memo: FilePayload = {"name": "memo.ogg", "mimeType": "audio/ogg", "buffer": b"OggS" + bytes(99)}
    page.locator("#attach-file").set_input_files(memo)
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator(".answer .prose")).to_contain_text(HEARD)
    assert b"OggS" in running.model.heard[-1]
    expect(page.locator("#title")).to_have_text("memo.ogg")


def test_a_deck_of_a_text_reaches_telegram_as_a_document(telegram: Installation) -> None:
    """README: a progress line on every channel, a file and a link; "turn this into …" with the
    text below."""
    says("README.md", "ends with a file and a link that expires")
    telegram.model.rules.insert(
        0, Rule("^Turn this into five slides", tool="route_to_plugin", arguments=MAKE)
    )
    telegram.writes(OWNER_ON_TELEGRAM, f"Turn this into five slides:\n\n# The marsh\n\n{MARSH}")

    def documents() -> list[Any]:
        return [each for each in telegram.shown(OWNER_ON_TELEGRAM) if each.kind == "document"]

    wait_until(documents, what=lambda: str(telegram.shown(OWNER_ON_TELEGRAM)))
    assert documents()[0].filename.endswith(".pptx")
    assert len(titles(documents()[0].file)) == 5
    shown = telegram.hears(OWNER_ON_TELEGRAM, "/files/out?token=")
    assert any("Generating your presentation" in each for each in shown.history)


def test_a_deck_of_a_document_has_the_documents_content(
    client: httpx.Client, running: Installation
) -> None:
    """docs/presentations.md: "make a presentation of this"; the title is what the document is
    about, and its numbers become a chart or a table."""
    says("docs/presentations.md", "otherwise the topic, or the document's subject")
    rows = "\n".join(f"| {year} | {year - 2000} |" for year in range(2019, 2024))
    text = (
        f"# The heron count\n\nHerons are counted in spring.\n\n| Year | Pairs |\n|-|-|\n{rows}\n"
    )
    running.model.rules.insert(
        0, Rule("Make a presentation of this", tool="route_to_plugin", arguments=MAKE)
    )
    data = base64.b64encode(text.encode()).decode()
    answer = said(
        client,
        text="Make a presentation of this, 6 slides",
        files=[{"url": f"data:text/markdown;base64,{data}", "name": "count-2023.md"}],
        user_id="of a document",
    )
    assert answer["format"] == "link", answer
    deck = linked(client, answer["text"])
    assert titles(deck)[0] == "The heron count"
    assert len(titles(deck)) <= 6
    slides = Presentation(io.BytesIO(deck)).slides
    assert any(shape.has_chart or shape.has_table for each in slides for shape in each.shapes)


def test_a_deck_of_the_conversation_has_its_content(
    client: httpx.Client, running: Installation
) -> None:
    """docs/presentations.md: "turn that into a deck" after a conversation."""
    says("docs/presentations.md", "“turn that into a deck”".replace("“", '"').replace("”", '"'))
    running.model.rules[:0] = [
        Rule("^Tell me about the lighthouse", text="The lighthouse of Alto was built by Ines."),
        Rule("^turn that into a deck", tool="route_to_plugin", arguments=MAKE),
    ]
    said(client, text="Tell me about the lighthouse of Alto", user_id="of a talk")
    answer = said(client, text="turn that into a deck", user_id="of a talk")
    deck = linked(client, answer["text"])
    assert "lighthouse" in titles(deck)[0].lower()
    plan = next(each for each in reversed(running.model.prompts()) if "Plan a presentation" in each)
    assert "built by Ines" in plan
    assert "turn that into" not in words(deck)


def test_two_documents_dropped_into_the_chat_make_one_summary(
    page: Page, running: Installation
) -> None:
    """README: "summarise this" with documents: both are read."""
    running.model.rules[:0] = [
        Rule(r"^Summarize [\s\S]*in English, as", text="Bees hum, and owls hoot."),
        Rule("Summarize both", tool="route_to_plugin", arguments=SUMMARIZE),
    ]
    documents: list[FilePayload] = [
        {"name": f"{name}.md", "mimeType": "text/markdown", "buffer": text.encode()}
        for name, text in (("bees", "# Bees\n\nBees hum."), ("owls", "# Owls\n\nOwls hoot."))
    ]
    page.locator("#attach-file").set_input_files(documents)
    expect(page.locator("#attachments li.file")).to_have_count(2)
    expect(page.locator("#attachments li.file progress")).to_have_count(0)
    ask(page, "Summarize both")
    expect(page.locator(".answer .prose").last).to_contain_text("Bees hum, and owls hoot.")
    asked = [each for each in running.model.prompts() if "in English, as" in each]
    assert any("Bees hum." in each for each in asked)
    assert any("Owls hoot." in each for each in asked)


def test_a_skill_of_the_documents_runs_once_it_is_switched_on(
    page: Page, client: httpx.Client, running: Installation
) -> None:
    """docs/plugins.md, *A skill*: its two files, its switch in the admin, its result and file."""
    says("docs/plugins.md", "until the owner switches it on under **Skills** in the admin")
    folder = running.up.home / "skills" / "count"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(block("docs/plugins.md", "name: Count", "markdown"))
    (folder / "count.py").write_text(block("docs/plugins.md", "words.txt", "python"))
    arguments = {"skill": "count", "input": {"text": "one two three"}}
    running.model.rules.insert(0, Rule("^how many words", tool="run_skill", arguments=arguments))
    said(client, text="how many words?", user_id="of a skill")
    assert "There is no such skill" in running.model.prompts()[-1]
    page.goto(f"{running.url}/admin/core/skill/")
    page.get_by_role("row", name=re.compile("count")).locator("[type=checkbox]").first.check()
    page.locator("select[name=action]").select_option(label="Switch on")
    page.locator("button[name=index]").first.click()
    answer = said(client, text="how many words?", user_id="of a skill")
    assert "3 words" in answer["text"]
    assert linked(client, answer["text"]).split() == [b"one", b"two", b"three"]


def test_a_plugin_of_another_package_draws_in_the_chat(page: Page, running: Installation) -> None:
    """docs/plugins.md: an installed package is read at the start; its messages and its picture."""
    says("docs/plugins.md", "and restart the gateway: installed packages are read at the start")
    numbers = {"source": "Monday 4, Tuesday 8, Wednesday 2 bees", "title": "Bees a day"}
    arguments = {"plugin_id": "example-bars", "capability_id": "draw", "parameters": numbers}
    running.model.rules.insert(
        0, Rule("^draw the bees", tool="route_to_plugin", arguments=arguments)
    )
    ask(page, "draw the bees")
    answer = page.locator(".answer").last
    expect(answer).to_contain_text("Bees a day: 3 bars.")
    expect(answer.locator("img")).to_have_count(1)  # once, though the answer has it as data too
    page.reload()
    expect(page.locator(".answer").last).to_contain_text("Bees a day: 3 bars.")
    expect(page.locator(".answer").last.locator("img")).to_have_count(1)


def test_a_program_uploads_a_file_reads_a_part_of_it_and_asks_about_it(
    client: httpx.Client, running: Installation
) -> None:
    """docs/http.md, *Files* and */ui/chat*: the id of an upload, ``Range``, a UI message stream."""
    says(
        "docs/http.md", "Both take `Range: bytes=…` for one part (206, or 416 outside of the file)"
    )
    stored = client.post("/files?name=notes.md", content=b"# Herons\n\nThere are 12 herons.")
    assert stored.status_code == 201, stored.text
    path = f"/files/{stored.json()['id']}"
    part = client.get(path, headers={"Range": "bytes=-10"})
    assert (part.status_code, part.content) == (206, b"12 herons.")
    assert client.get(path, headers={"Range": "bytes=90-"}).status_code == 416
    running.model.rules.insert(0, Rule("Caption: how many herons", text="**Twelve.**"))
    file = {"type": "file", "url": path, "mediaType": "text/markdown", "filename": "notes.md"}
    parts = [{"type": "text", "text": "how many herons?"}, file]
    message = {"id": "m1", "role": "user", "parts": parts}
    answer = client.post("/ui/chat", json={"id": "of-a-file", "message": message})
    assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1", answer.text
    chunks = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    assert chunks.pop() == "[DONE]"
    found = [json.loads(each) for each in chunks]
    said = "".join(each["delta"] for each in found if each["type"] == "text-delta")
    assert said == "**Twelve.**"
    assert client.delete(path).status_code in (200, 204)
    assert client.get(path).status_code == 404


def test_a_file_that_is_sent_in_two_conversations_outlives_the_first_one(
    client: httpx.Client, running: Installation
) -> None:
    """docs/http.md, *Files*: each conversation has a file of its own."""
    says("docs/http.md", "A file that is sent in a second conversation is copied for it")
    running.model.rules.insert(0, Rule("Caption: keep it", text="**Kept.**"))
    content = b"# Otters\n\nThere are 3 otters."
    stored = client.post("/files?name=otters.md", content=content).json()["id"]
    chats = [client.post("/api/sessions", json={}).json()["id"] for _ in range(2)]
    for chat in chats:
        assert said(client, text="keep it", session_id=chat, files=[stored])["text"] == "**Kept.**"
    assert client.delete(f"/api/sessions/{chats[0]}").status_code == 204
    assert client.get(f"/files/{stored}").status_code == 404
    files = client.get("/api/files").json()["results"]
    (left,) = [each["id"] for each in files if each["name"] == "otters.md"]
    assert client.get(f"/files/{left}").content == content


def test_a_result_page_is_opened_by_its_link_and_by_no_other(
    page: Page, client: httpx.Client, running: Installation
) -> None:
    """README and docs/http.md: a link needs no key; a changed one is 403, a revoked one 410."""
    says("docs/http.md", "`/files/out?token=…`, which needs no key: 403 changed or expired")
    arguments = {"title": "The plan", "content": "## Steps\n\n1. Sow\n2. Reap"}
    running.model.rules.insert(0, Rule("^save it", tool="save_result_page", arguments=arguments))
    ask(page, "save it")
    card = page.locator("a.file-card")
    expect(card).to_contain_text("The plan.html")
    with page.context.expect_page() as opened:
        card.click()
    expect(opened.value.locator("h1")).to_have_text("The plan")
    answer = said(client, text="save it", user_id="of a page")
    found = LINK.search(answer["text"])
    assert found is not None, answer
    address = running.url + found[0]
    assert httpx.get(address).status_code == 200
    changed = address[:-2] + ("AA" if address[-2:] != "AA" else "BB")
    assert httpx.get(changed).status_code == 403
    page.goto(f"{running.url}/admin/core/storedfile/?q=plan")
    page.locator("#result_list [name=_selected_action], [name=_selected_action]").first.check()
    page.locator("select[name=action]").select_option(label="Revoke links")
    page.locator("button[name=index], button[value='0'][name=index]").first.click()
    expect(page.locator("body")).to_contain_text("Links revoked")
    assert httpx.get(address).status_code == 410
