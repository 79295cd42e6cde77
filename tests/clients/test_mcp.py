"""[D7]: the official MCP clients, Python and JavaScript, on both transports of a whole gateway."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from gateway_project.home import BASE_DIR
from tests.clients.conftest import HERE, Json
from tests.gateways import Gateway
from tests.npm import Packages

pytestmark = pytest.mark.slow

SECONDS = 120
TOOLS = {"send_result", "send_file", "list_sessions", "wait_for_reply"}
MAKE = """
from allowlist import keys
from core.models import User
ada = User.objects.create(username="ada")
print(keys.create(name="agent", user=ada, scopes=["send_result"])[1])
"""
SAID = """
import json
from core.models import Message
print(json.dumps(list(Message.objects.filter(role="assistant").values_list("text", flat=True))))
"""


@pytest.fixture(scope="module")
def agent(scripted: Gateway) -> dict[str, str]:
    """Return the environment of an agent: a key, and a session in the web chat."""
    key = scripted.manage("shell", "-v", "0", "-c", MAKE).strip()
    opened = scripted.manage("session", "open", "--user", "ada", "--channel", "web")
    name = opened.strip().splitlines()[-1]
    return {"GATEWAY_API_KEY": key, "GATEWAY_SESSION_ID": name}


def said(gateway: Gateway) -> list[str]:
    """Return the texts of the chats."""
    found: list[str] = json.loads(gateway.manage("shell", "-v", "0", "-c", SAID))
    return found


def test_the_javascript_client_works_on_both_transports(
    scripted: Gateway, agent: dict[str, str], packages: Packages
) -> None:
    """[D7] [S1] [S3] ``@modelcontextprotocol/sdk``: list, call, errors, progress."""
    script = Path(shutil.copy(HERE / "mcp.mjs", packages.folder / "mcp.mjs"))
    done = subprocess.run(
        [packages.node, str(script)],
        env={
            **scripted.env,
            "GATEWAY": scripted.base_url,
            "KEY": agent["GATEWAY_API_KEY"],
            "SESSION": agent["GATEWAY_SESSION_ID"],
            "PYTHON": sys.executable,
            "MANAGE": str(BASE_DIR / "manage.py"),
            "NO_PROXY": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    found: Json = json.loads(done.stdout)
    for transport in ("http", "stdio"):
        answers = found[transport]
        assert set(answers["tools"]) == TOOLS
        assert answers["sent"]["status"] == "success"
        assert answers["sent"]["message_id"]
        assert answers["empty"]["status"] == "error"
        assert answers["timeout"]["status"] == "timeout"
        assert answers["progress"][0].startswith("Waiting for the user")
        assert answers["unknown"] == {"code": -32602}
        (session,) = answers["sessions"]
        assert session["current"] is True
    assert said(scripted).count("| a | b |\n|---|---|\n| 1 | 2 |") == 2


def test_the_python_client_works_on_stdio(scripted: Gateway, agent: dict[str, str]) -> None:
    """[D7] ``manage.py mcp``: the session from the environment, nothing else on standard output."""

    async def run() -> tuple[set[str], list[Any]]:
        server = StdioServerParameters(
            command=sys.executable,
            args=[str(BASE_DIR / "manage.py"), "mcp"],
            env={**scripted.env, **agent},
        )
        async with Client(stdio_client(server)) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            answers = [
                (await client.call_tool("send_result", {"content": text})).structured_content
                for text in ("from stdio", " ")
            ]
        return tools, answers

    tools, (sent, empty) = asyncio.run(run())
    assert tools == TOOLS
    assert sent["status"] == "success"
    assert empty["status"] == "error"
    assert "from stdio" in said(scripted)


def test_a_wrong_key_stops_the_stdio_server(scripted: Gateway) -> None:
    """[A10] with a line that says why, and no secret in it."""
    for key in ("", "lk_0123456789ab_" + "x" * 43):
        done = subprocess.run(
            [sys.executable, str(BASE_DIR / "manage.py"), "mcp"],
            env={**scripted.env, "GATEWAY_API_KEY": key},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode != 0
        assert "GATEWAY_API_KEY is not a personal key" in done.stderr
        assert not key or key not in done.stderr + done.stdout
        assert done.stdout == ""
