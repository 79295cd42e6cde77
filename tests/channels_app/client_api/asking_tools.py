"""Two tools that wait for a yes, installed as another package's: the owner's and the person's own;
and a gateway with them."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest

from core.tools.base import Tool, ToolContext, ToolResult
from tests import ROOT, people
from tests.gateways import Gateway

EFFECTS = "EFFECTS_FILE"
PARAMETERS: dict[str, Any] = {"type": "object", "properties": {"to": {"type": "string"}}}
SCRIPT = [
    {"match": "letter", "after_tool": True, "steps": [{"text": "The letter: done."}]},
    {"match": "diary", "after_tool": True, "steps": [{"text": "The diary: done."}]},
    {"match": "both", "after_tool": True, "steps": [{"text": "Both: done."}]},
    {"match": "^letter", "steps": [{"tool": "send_letter", "arguments": {"to": "Bob"}}]},
    {"match": "^diary", "steps": [{"tool": "read_diary", "arguments": {"to": "Ada"}}]},
    {
        "match": "^both",
        "steps": [
            {"tool": "send_letter", "arguments": {"to": "Bob"}},
            {"tool": "read_diary", "arguments": {"to": "Ada"}},
        ],
    },
    *people.SCRIPT,
    {"match": ".", "steps": [{"text": "I heard: {input}"}]},
]


class Asking(Tool):
    """Writes a line to a file; asks each time."""

    description = "Does what is asked for."
    parameters = PARAMETERS
    ask = "always"
    idempotent = False

    def __init__(self, name: str, asks: Literal["owner", "person"]) -> None:
        self.name, self.asks = name, asks

    async def run(self, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        """Write the line."""
        number = os.open(os.environ[EFFECTS], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(number, f"{self.name} {arguments.get('to')}\n".encode())
        os.close(number)
        return ToolResult("done")


LETTER, DIARY = Asking("send_letter", "owner"), Asking("read_diary", "person")
POINTS = f"[latchkey.tools]\nletter = {__name__}:LETTER\ndiary = {__name__}:DIARY\n"


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a gateway with the tools and the script."""
    info = folder / "packages" / "latchkey_asking-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: latchkey-asking\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    script = folder / "script.json"
    script.write_text(json.dumps(SCRIPT))
    return {
        "PYTHONPATH": f"{folder / 'packages'}{os.pathsep}{ROOT}",
        EFFECTS: str(folder / "effects"),
        "LLM_SCRIPT": str(script),
        "RATE_PER_MINUTE_USER": "0",
        "HEARTBEAT_SECONDS": "1",
        "RUN_LEASE_SECONDS": "5",
    }


@pytest.fixture(scope="module")
def asking(module_gateways: Any, tmp_path_factory: pytest.TempPathFactory) -> Gateway:
    """Return a gateway with the tools."""
    gateway: Gateway = module_gateways(**environment(tmp_path_factory.mktemp("asking")))
    return gateway


@pytest.fixture(scope="module")
def keys(asking: Gateway) -> dict[str, str]:
    """Return the keys of its people; ``deciding``: the owner's, with ``admin:requests``."""
    made = people.make(asking)
    made["deciding"] = asking.manage("shell", "-v", "0", "-c", DECIDING).strip()
    return made


DECIDING = """
from allowlist import keys
from core.models import User
owner = User.objects.get(username="owner")
print(keys.create(name="deciding", user=owner, scopes=["chat", "admin:requests"])[1])
"""


def client_of(gateway: Gateway, key: str) -> httpx.Client:
    """Return an HTTP client with a key."""
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=gateway.base_url, headers=headers, timeout=120)


@pytest.fixture
def member(asking: Gateway, keys: dict[str, str]) -> Iterator[httpx.Client]:
    """Yield a client with the member's key."""
    with client_of(asking, keys["member"]) as made:
        yield made


@pytest.fixture
def owner(asking: Gateway, keys: dict[str, str]) -> Iterator[httpx.Client]:
    """Yield a client with the owner's key that decides."""
    with client_of(asking, keys["deciding"]) as made:
        yield made


def effects(gateway: Gateway) -> list[str]:
    """Return the lines that the tools wrote."""
    path = Path(gateway.env[EFFECTS])
    return path.read_text().splitlines() if path.exists() else []


def decide_elsewhere(gateway: Gateway, choice: str) -> str:
    """Decide the newest open question as the owner, or the person who was asked, would on another
    channel; return the outcome."""
    return gateway.manage("shell", "-v", "0", "-c", ELSEWHERE.format(choice=choice)).strip()


ELSEWHERE = """
from django.utils import timezone
from channels_app.tool_requests import deciding
from core.models import ToolCall
row = ToolCall.objects.filter(state="waiting").latest("id")
decision = deciding.decide(
    call_id=row.public_id, digest=row.digest, by=row.asked_of, choice="{choice}",
    via="telegram", now=timezone.now(),
)
print(decision.outcome)
"""


def expire(gateway: Gateway) -> None:
    """Let all open questions be over."""
    gateway.manage("shell", "-v", "0", "-c", EXPIRE)


EXPIRE = """
from datetime import timedelta
from django.utils import timezone
from core.models import ToolCall
ToolCall.objects.filter(state="waiting").update(expires_at=timezone.now() - timedelta(seconds=1))
"""
