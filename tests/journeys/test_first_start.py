"""README.md from the top: start, sign in, ask; over HTTP; with the OpenAI client; and what it says
of itself."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from openai import AuthenticationError, OpenAI
from openai.types.chat import ChatCompletionUserMessageParam
from playwright.sync_api import Browser, Page, expect

from core import VERSION
from core.providers.scripted import Scripted
from tests.journeys.conftest import Installation, ask, sign_in
from tests.journeys.documents import block, command, says
from tests.journeys.model import Rule
from tests.processes.ups import LINK, manage
from tests.servers import wait_until


def test_the_printed_address_signs_in_and_the_first_question_is_answered(
    browser: Browser, running: Installation
) -> None:
    """README, *Two commands* and *Talk to it*: one address, once, then a chat with an answer."""
    says("README.md", "It names the owner and has one button, which signs this browser in, once")
    links = LINK.findall(running.up.output())
    assert len(links) == 1
    says("README.md", "looking at the address uses nothing up")
    assert httpx.get(links[0]).status_code == 200
    context = browser.new_context()
    page = context.new_page()
    sign_in(page, links[0])
    ask(page, "What is the capital of France?")
    answer = page.locator(".answer .prose")
    expect(answer).to_have_text("You said: What is the capital of France?")
    page.reload()
    expect(answer).to_have_text("You said: What is the capital of France?")
    assert "What is the capital of France?" in running.model.prompts()[-1]
    again = browser.new_context().new_page()
    again.goto(links[0])
    expect(again.get_by_label("Message", exact=True)).to_have_count(0)
    context.close()


def test_a_key_from_the_shell_opens_inbound(running: Installation) -> None:
    """README, *Over HTTP*: the commands as they stand there."""
    answer, stream = (
        running.shell(command("README.md", having), KEY=running.key("laptop"))
        for having in ("capital of France", '"stream": true}')
    )
    body = json.loads(answer)
    assert (body["ok"], body["status"]) == (True, 200)
    assert body["text"] == "You said: What is the capital of France?"
    events = [json.loads(line[5:]) for line in stream.splitlines() if line.startswith("data:")]
    assert events[0]["event"] == "progress"
    assert [each["event"] for each in events].count("done") == 1
    assert events[-1]["text"] == "You said: Tell me more"


def test_the_openai_client_works_with_the_model_default(running: Installation) -> None:
    """README, *With any OpenAI client*: whole and streamed, and who has no key is refused."""
    says("README.md", "the key as API key, model `default`")
    client = OpenAI(base_url=f"{running.url}/v1", api_key=running.key("openai"))
    said: ChatCompletionUserMessageParam = {"role": "user", "content": "bonjour"}
    whole = client.chat.completions.create(model="default", messages=[said])
    assert whole.choices[0].message.content == "You said: bonjour"
    streamed = client.chat.completions.create(model="default", messages=[said], stream=True)
    words = "".join(each.choices[0].delta.content or "" for each in streamed if each.choices)
    assert words == "You said: bonjour"
    assert "default" in [each.id for each in client.models.list()]
    wrong = OpenAI(base_url=f"{running.url}/v1", api_key="lk_wrong", max_retries=0)
    with pytest.raises(AuthenticationError):
        wrong.models.list()


def test_a_cut_stream_goes_on_where_it_was(running: Installation) -> None:
    """README and docs/http.md: ``GET /runs/<run_id>/events`` with ``Last-Event-ID`` adds up to what
    an uncut reader gets."""
    says("README.md", "`GET /runs/<run_id>/events` with `Last-Event-ID`")
    running.model.rules.insert(0, Rule("^count", text=" ".join(map(str, range(20))), slow=True))
    headers = {"Authorization": f"Bearer {running.key('cut')}"}
    with httpx.Client(base_url=running.url, headers=headers, timeout=60) as client:
        begun = client.post("/inbound", json={"text": "count", "async": True})
        assert begun.status_code == 202
        path = f"/runs/{begun.json()['run_id']}/events"
        first: list[tuple[str, str]] = []
        with client.stream("GET", path) as response:
            for event in events_of(response):
                first.append(event)
                if len(first) == 3:
                    break
        with client.stream("GET", path, headers={"Last-Event-ID": first[-1][0]}) as response:
            rest = list(events_of(response))
        with client.stream("GET", path) as response:
            whole = list(events_of(response))
    assert first + rest == whole
    assert '"done"' in whole[-1][1]
    assert "18 19" in whole[-1][1]


def events_of(response: httpx.Response) -> Iterator[tuple[str, str]]:
    """The id and data of each event, as they come."""
    name = ""
    for line in response.iter_lines():
        if line.startswith("id:"):
            name = line[3:].strip()
        elif line.startswith("data:"):
            yield name, line[5:].strip()


def test_a_model_that_fails_is_said_and_the_question_can_be_asked_again(
    page: Page, running: Installation
) -> None:
    """The person reads words, not a spinner; the model is back, and the question is answered."""
    running.model.rules.insert(0, Rule("^are you there", text="no such model", status=404))
    ask(page, "are you there?")
    failed = page.locator(".answer, .error").last
    expect(failed).to_contain_text(re.compile("model", re.IGNORECASE))
    expect(page.locator("[aria-busy]")).to_have_count(0)
    running.model.rules.pop(0)
    page.get_by_role("button", name=re.compile("again", re.IGNORECASE)).last.click()
    expect(page.locator(".answer .prose").last).to_have_text("You said: are you there?")


def test_what_runs_says_how_it_is(running: Installation) -> None:
    """README, *Run it for real* and docs/deploy.md, *Watching*: health, version, memory, doctor."""
    says("docs/deploy.md", "`manage.py version` says what is installed")
    assert running.manage("manage.py version").strip() == f"Latchkey {VERSION}"
    assert httpx.get(f"{running.url}/healthz").status_code == 200
    wait_until(lambda: httpx.get(f"{running.url}/readyz").status_code == 200, what="readiness")
    assert "runs" in running.manage("manage.py footprint")
    done = manage("doctor", env=running.up.env)
    assert done.returncode in {0, 1}, done.stdout
    assert "error:" not in done.stdout
    log = running.up.output()
    for words in ("process web", "queue runs", "queue long"):
        assert re.search(rf"Latchkey {VERSION} starts: .*{words}", log), words


def test_the_rest_interface_has_a_document_and_lists_what_was_said(running: Installation) -> None:
    """README, *From a program*."""
    says("README.md", "`/api/` is a REST interface with an OpenAPI document at `/api/schema`")
    headers = {"Authorization": f"Bearer {running.key('rest')}"}
    with httpx.Client(base_url=running.url, headers=headers, timeout=60) as client:
        said = client.post("/inbound", json={"text": "for the record"}).json()
        assert client.get("/api/schema").status_code == 200
        messages = client.get(f"/api/sessions/{said['session_id']}/messages").json()
        assert "for the record" in json.dumps(messages)


def test_the_documented_script_of_the_scripted_model_is_one(tmp_path: Path) -> None:
    """docs/settings.md, *A scripted model*: its example is read and each rule is played."""
    file = tmp_path / "script.json"
    file.write_text(block("docs/settings.md", "tokens_per_second", "json"))
    rules = json.loads(file.read_text())
    assert Scripted.from_file(str(file))._rules[:-1] == rules
