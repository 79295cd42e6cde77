"""README.md from the top: start, sign in, ask; over HTTP; with the OpenAI client; and what it says
of itself."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import AuthenticationError, OpenAI
from openai.types.chat import ChatCompletionUserMessageParam
from playwright.sync_api import Browser, Page, expect
from websockets.sync.client import connect

from core import VERSION
from core.providers.scripted import Scripted
from tests.gateway_project.processes.ups import LINK, manage
from tests.journeys.conftest import Installation, ask, sign_in
from tests.journeys.documents import block, command, says
from tests.journeys.model import Rule
from tests.servers import wait_until


def test_the_printed_address_signs_in_and_the_first_question_is_answered(
    browser: Browser, running: Installation
) -> None:
    """README, *Two commands* and *Ways to talk to it*: one address, then an answer."""
    says(
        "README.md",
        "Its page names the owner and has one button, which signs this browser in, once",
    )
    links = LINK.findall(running.up.output())
    assert len(links) == 1
    says("README.md", "opening the page uses nothing up")
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
    """README, *With any OpenAI client*: whole and streamed; without a key it is refused."""
    says("README.md", "the key as API key, model `default`")
    client = OpenAI(base_url=f"{running.url}/v1", api_key=running.key("laptop"))
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
    """README and docs/http.md: ``GET /runs/<run_id>/events`` with ``Last-Event-ID`` completes a
    partly read stream; a client without any event repeats the request with its key.
    """
    says("README.md", "`GET /runs/<run_id>/events` with `Last-Event-ID`")
    says("docs/http.md", "`X-Run-Id` and `X-Session-Id` and in the first event")
    running.model.rules.insert(0, Rule("^count", text=" ".join(map(str, range(12))), slow=True))
    with client_of(running) as client:
        asked = {"text": "count", "stream": True, "user_id": "cut"}
        key = {"Idempotency-Key": "count-once"}
        with client.stream("POST", "/inbound", json=asked, headers=key) as response:
            first = next(events_of(response))
            headers = response.headers
        begun = json.loads(first[1])
        assert (begun["run_id"], begun["session_id"]) == (
            headers["X-Run-Id"],
            headers["X-Session-Id"],
        )
        path = f"/runs/{begun['run_id']}/events"
        with client.stream("GET", path, headers={"Last-Event-ID": first[0]}) as response:
            rest = list(events_of(response))
        with client.stream("POST", "/inbound", json=asked, headers=key) as response:
            assert response.headers["X-Run-Id"] == begun["run_id"]
            whole = list(events_of(response))
        runs = client.get("/api/runs", params={"session_id": begun["session_id"]}).json()
    assert [first, *rest] == whole
    assert [json.loads(data)["event"] for _id, data in whole].count("done") == 1
    assert json.loads(whole[-1][1])["text"] == " ".join(map(str, range(12)))
    assert [each["id"] for each in runs["results"]] == [begun["run_id"]]


def test_a_stream_is_cancelled_by_the_id_that_its_head_has(running: Installation) -> None:
    """docs/http.md: ``POST /inbound/cancel`` with ``X-Run-Id``: the text is kept."""
    says("docs/http.md", "stop; the text so far is kept")
    running.model.rules.insert(0, Rule("^go on and on", text="word " * 400, slow=True))
    with client_of(running) as client:
        asked = {"text": "go on and on", "stream": True, "user_id": "cancelled"}
        before = len(running.model.asked)
        with client.stream("POST", "/inbound", json=asked) as response:
            run = {"run_id": response.headers["X-Run-Id"]}
            wait_until(lambda: len(running.model.asked) > before, what="the question")
            assert client.post("/inbound/cancel", json=run).json()["cancelled"] is True
            ended = json.loads(list(events_of(response))[-1][1])
        kept = client.get("/inbound/result", params=run)
    assert ended["event"] == "done"
    assert ended["text"].count("word") < 400
    assert kept.json()["text"] == ended["text"]


def test_inbound_goes_on_in_one_conversation_for_each_label(running: Installation) -> None:
    """docs/http.md, *Conversation* and *Commands*."""
    says("docs/http.md", "the open conversation of that `user_id` goes on")
    with client_of(running) as client:

        def say(text: str, label: str) -> str:
            answer = client.post("/inbound", json={"text": text, "user_id": label}).json()
            assert answer["ok"], answer
            return str(answer["text"])

        say("the word is curlew", "work")
        say("which word?", "work")
        assert "curlew" in running.model.prompts()[-1]
        say("which word?", "home")
        assert "curlew" not in running.model.prompts()[-1]
        asked = len(running.model.asked)
        assert "the owner" in say("/whoami", "work")
        say("/new", "work")
        assert len(running.model.asked) == asked
        say("and which word now?", "work")
        assert "curlew" not in running.model.prompts()[-1]
        plain = client.post(
            "/inbound", content=b'{"text": "hi"}', headers={"Content-Type": "text/plain"}
        )
        assert (plain.status_code, plain.json()["field"]) == (415, "Content-Type")


def test_a_revoked_key_opens_nothing_and_ends_open_streams(
    page: Page, running: Installation
) -> None:
    """docs/security.md: a revoked key loses what it has open within seconds, by the admin."""
    says("docs/security.md", "A revoked key, person or identity loses its open sockets within")
    running.model.rules.insert(0, Rule("^talk for long", text="word " * 400, slow=True))
    with client_of(running, "to-revoke") as client:
        asked = {"text": "talk for long", "stream": True, "user_id": "revoked"}
        with client.stream("POST", "/inbound", json=asked) as response:
            page.goto(f"{running.url}/admin/allowlist/apikey/?q=to-revoke")
            page.locator("[name=_selected_action]").first.check()
            page.locator("select[name=action]").select_option(label="Revoke")
            page.locator("button[name=index]").first.click()
            expect(page.locator("body")).to_contain_text("Revoked: 1 key.")
            began = time.monotonic()
            try:
                told = [json.loads(data) for _id, data in events_of(response)]
            except httpx.RemoteProtocolError:
                told = []
        assert time.monotonic() - began < 20
        assert all(each.get("text", "").count("word") < 400 for each in told)
        assert client.post("/inbound", json={"text": "hi"}).status_code == 401
        assert client.get("/v1/models").status_code == 401


def client_of(running: Installation, key: str = "laptop") -> httpx.Client:
    """Return a program of the owner with a key."""
    headers = {"Authorization": f"Bearer {running.key(key)}"}
    return httpx.Client(base_url=running.url, headers=headers, timeout=60)


def events_of(response: httpx.Response) -> Iterator[tuple[str, str]]:
    """Yield the id and data of each event, as they come."""
    name = ""
    for line in response.iter_lines():
        if line.startswith("id:"):
            name = line[3:].strip()
        elif line.startswith("data:"):
            yield name, line[5:].strip()


def test_a_model_failure_is_shown_and_the_question_can_be_repeated(
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


def test_a_chat_is_found_renamed_downloaded_and_deleted(page: Page, running: Installation) -> None:
    """README, *In the browser*: by what was said in it; as Markdown; and gone."""
    says("README.md", "Chats can be searched by their messages, renamed, downloaded as Markdown")
    ask(page, "do cormorants dive?")
    expect(page.locator(".answer .prose")).to_have_text("You said: do cormorants dive?")
    page.locator("#session-search").fill("cormorants")
    expect(page.locator(".session")).to_have_count(1)
    page.locator(".session-more").click()
    with page.expect_download() as found:
        page.locator("#export-chat").click()
    saved = found.value.path().read_text()
    assert "You said: do cormorants dive?" in saved
    page.get_by_label("Title", exact=True).fill("On divers")
    page.keyboard.press("Enter")
    expect(page.locator("#title")).to_have_text("On divers")
    page.locator(".session-more").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Delete permanently").click()
    expect(page.locator("#sessions-empty")).to_be_visible()


def test_a_program_talks_over_the_socket_and_stops_an_answer(running: Installation) -> None:
    """docs/websocket.md: the key in the first frame, a message, its events in order, one final."""
    says("docs/websocket.md", "the run ends within 3 s, with the text so far")
    running.model.rules.insert(0, Rule("^sing for ever", text="la " * 400, slow=True))
    address = running.url.replace("http", "ws", 1) + "/ws"
    with connect(address, proxy=None) as socket:

        def until(kind: str) -> dict[str, Any]:
            while True:
                frame: dict[str, Any] = json.loads(socket.recv(timeout=60))
                numbers.append(frame.get("seq", 0))
                if frame["type"] == kind:
                    return frame

        numbers: list[int] = []
        socket.send(json.dumps({"type": "auth", "key": running.key("laptop")}))
        until("authenticated")
        socket.send(json.dumps({"type": "message", "text": "hello socket", "client_id": "1"}))
        until("accepted")
        assert until("final")["text"] == "You said: hello socket"
        seen = [each for each in numbers if each]
        assert seen == sorted(seen)
        socket.send(json.dumps({"type": "message", "text": "sing for ever", "client_id": "2"}))
        run = until("accepted")["run_id"]
        until("text")
        socket.send(json.dumps({"type": "stop", "run_id": run}))
        ended = until("final")
    assert 0 < ended["text"].count("la") < 400


def test_the_running_gateway_reports_its_health(running: Installation) -> None:
    """README, *Deployment* and docs/deploy.md, *Monitoring*: health, version, memory, doctor."""
    says("docs/deploy.md", "`manage.py version` says what is installed")
    assert running.manage("manage.py version").strip() == f"Latchkey {VERSION}"
    assert httpx.get(f"{running.url}/healthz").status_code == 200
    wait_until(lambda: httpx.get(f"{running.url}/readyz").status_code == 200, what="readiness")
    says("README.md", "`/readyz` whether everything works (with a key, what does not)")
    assert httpx.get(f"{running.url}/readyz").json() == {"ok": True}
    headers = {"Authorization": f"Bearer {running.key('laptop')}"}
    told = httpx.get(f"{running.url}/readyz", headers=headers).json()
    assert (told["problems"], told["version"]) == ([], VERSION)
    assert "worker" in running.manage("manage.py footprint")
    done = manage("doctor", env=running.up.env)
    assert done.returncode in {0, 1}, done.stdout
    assert "error:" not in done.stdout
    log = running.up.output()
    for words in ("process web", "queue runs and long"):
        assert re.search(rf"Latchkey {VERSION} starts: .*{words}", log), words


def test_the_rest_api_has_a_document_and_lists_messages(running: Installation) -> None:
    """README, *From a program*."""
    says("README.md", "`/api/` is a REST interface with an OpenAPI document at `/api/schema`")
    headers = {"Authorization": f"Bearer {running.key('laptop')}"}
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
