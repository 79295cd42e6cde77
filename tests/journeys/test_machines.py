"""A bridge (docs/bridge.md), an agent (docs/mcp.md), and a copy (docs/deploy.md)."""

import asyncio
import hashlib
import hmac
import json
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from playwright.sync_api import Page, expect

from gateway_project.home import BASE_DIR
from tests.channels_app.bridge.conftest import Callback
from tests.gateway_project.processes.ups import Up
from tests.journeys import model as models
from tests.journeys.conftest import Installation, ask, environment
from tests.journeys.documents import block, command
from tests.servers import Postgres, wait_until

SECRET = "a-secret-of-this-bridge"


@pytest.fixture
def callback() -> Iterator[Callback]:
    """Yield a bridge's ``…/get_response``."""
    found = Callback()
    found.start()
    yield found
    found.stop()


def test_a_bridge_asks_and_is_called_back(
    page: Page, running: Installation, callback: Callback
) -> None:
    """docs/bridge.md: the account in the admin, its key, a signed request, one signed callback; an
    unlisted sender is 401 and pending, and is answered after the owner's approval.
    """
    page.goto(f"{running.url}/admin/core/channelaccount/add/")
    page.get_by_role("link", name="Bridge", exact=True).click()
    page.wait_for_url("**channel=bridge**")  # and its load: the form takes the focus then
    page.locator("[name=name]").fill("matrix")
    page.locator("[name=field_callback_url]").fill(callback.url)
    page.locator("[name=field_signing_secret]").fill(SECRET)
    page.locator("[name=field_allow_private]").select_option("true")
    page.locator("[name=_save]").first.click()
    line = command("README.md", "create_key").replace("laptop", "bridge")
    line = line.partition(" --user")[0] + " --account bridge/matrix --scope inbound"
    key = running.shell(line).strip().splitlines()[-1]
    body = json.loads(block("docs/bridge.md", "POST /process").partition("\n\n")[2])
    body.pop("images")

    def post() -> httpx.Response:
        data = json.dumps(body).encode()
        now = str(int(time.time()))
        signature = hmac.new(SECRET.encode(), f"{now}.".encode() + data, hashlib.sha256)
        headers = {
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
            "X-Latchkey-Timestamp": now,
            "X-Latchkey-Signature": f"v1={signature.hexdigest()}",
        }
        return httpx.post(f"{running.url}/process", content=data, headers=headers, timeout=60)

    denied = post()
    assert denied.status_code == 401, denied.text
    listed = running.manage("manage.py requests list")
    row = next(each for each in listed.splitlines() if "u-17" in each)
    identifier = next(word for word in row.split() if re.fullmatch(r"[\w-]{22}", word))
    running.manage(f"manage.py requests approve {identifier} --owner owner")  # others were made
    wait_until(lambda: callback.texts() == ["You said: hello"], what="the callback")
    body["text"], body["request_id"] = "and again", "m-4712"
    assert post().status_code == 202
    wait_until(lambda: "You said: and again" in callback.texts(), what="the second callback")
    got = callback.got[-1]
    assert (got["request_id"], got["chat_id"]) == ("m-4712", "chat-1")
    assert (got["context"], got["format"]) == ("comes back as it is", "plain")
    stamp = callback.headers[-1]["X-Latchkey-Timestamp"]
    signed = hmac.new(SECRET.encode(), f"{stamp}.".encode() + callback.bodies[-1], hashlib.sha256)
    assert callback.headers[-1]["X-Latchkey-Signature"] == f"v1={signed.hexdigest()}"
    assert callback.texts().count("You said: and again") == 1


def test_an_agent_in_a_terminal_sends_its_result(page: Page, running: Installation) -> None:
    """docs/mcp.md: a key with ``send_result``, a session, ``manage.py mcp``; the owner reads it,
    and replies to a second one, which came over HTTP."""
    key = running.key("agent", "owner", "send_result")
    line = command("docs/mcp.md", "session open").replace("--user ada", "--user owner")
    session = running.manage(line.replace("telegram", "web")).split()[-1]
    found = json.loads(block("docs/mcp.md", "mcpServers", "json"))["mcpServers"]["latchkey"]
    assert found["args"][-1:] == ["mcp"]
    assert set(found["env"]) == {"GATEWAY_HOME", "GATEWAY_API_KEY", "GATEWAY_SESSION_ID"}
    server = StdioServerParameters(
        command=sys.executable,
        args=[str(BASE_DIR / "manage.py"), "mcp"],
        env={**running.up.env, "GATEWAY_API_KEY": key, "GATEWAY_SESSION_ID": session},
    )

    async def send() -> dict[str, str]:
        async with Client(stdio_client(server)) as client:
            said = await client.call_tool("send_result", {"content": "The build is **green**."})
        return dict(said.structured_content or {})

    async def ask_and_wait() -> dict[str, str]:
        headers = {"Authorization": f"Bearer {key}", "X-Session-Id": session}
        async with (
            create_mcp_http_client(headers=headers) as http,
            Client(streamable_http_client(f"{running.url}/mcp", http_client=http)) as client,
        ):
            await client.call_tool("send_result", {"content": "Shall I deploy it?"})
            said = await client.call_tool("wait_for_reply", {"timeout_seconds": 100})
        return dict(said.structured_content or {})

    with ThreadPoolExecutor(1) as pool:  # the browser has an event loop in this thread
        assert pool.submit(lambda: asyncio.run(send())).result()["status"] == "success"
        page.goto(f"{running.url}/c/{session}")
        expect(page.locator("#log strong")).to_have_text("green")
        waiting = pool.submit(lambda: asyncio.run(ask_and_wait()))
        expect(page.locator("#log")).to_contain_text("Shall I deploy it?")
        ask(page, "yes, deploy it")
        reply = waiting.result(100)
        assert (reply["status"], reply["text"]) == ("success", "yes, deploy it")
    running.manage(command("docs/mcp.md", "session close").replace("<id>", session))


def test_a_copy_of_the_folder_brings_everything_back(
    model: models.Model, postgres: Postgres | None, tmp_path: Path
) -> None:
    """docs/deploy.md, *Backup and restore*: stop, copy, go on, lose it all, put the copy back."""
    if postgres:
        pytest.skip("this is the way of SQLite; pg_dump is PostgreSQL's own")
    up = Up(tmp_path, extra=environment(model))
    line = command("docs/deploy.md", "cp -a")
    up.start()
    first = Installation(up, model, api=None)  # type: ignore[arg-type]
    key = first.key("laptop")
    headers = {"Authorization": f"Bearer {key}"}
    try:
        said = httpx.post(
            f"{first.url}/inbound", json={"text": "remember the heron"}, headers=headers, timeout=60
        ).json()
        up.process.stop(seconds=15)
        first.shell(line)
        lost = tmp_path / "lost"
        up.home.rename(lost)
        Path(f"{up.home}.copy").rename(up.home)
        up.process.log.unlink()
        up.start()
        more = {"text": "and now?", "session_id": said["session_id"]}
        again = httpx.post(f"{first.url}/inbound", json=more, headers=headers, timeout=60).json()
        assert again["text"] == "You said: and now?"
        assert "remember the heron" in model.prompts()[-1]
        wait_until(lambda: httpx.get(f"{first.url}/readyz").status_code == 200, what="readiness")
    finally:
        up.process.stop(seconds=15)
