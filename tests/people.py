"""People and keys in a running gateway, and a script whose answer holds every kind of message."""

import json
from pathlib import Path

from tests.gateways import Gateway

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9"
    "awAAAABJRU5ErkJggg=="
)
SOURCES = [
    {
        "id": "s1",
        "type": "web",
        "title": "Paris",
        "url": "https://example.org/paris",
        "content": "The capital of France.",
    },
    {"id": "s2", "type": "file", "title": "Notes", "content": "…"},
]
SCRIPT = [
    {
        "match": "^everything",
        "after_tool": True,
        "steps": [
            {"native": {"type": "retrieval", "props": {"query": "capital", "sources": SOURCES}}},
            {"native": {"type": "image", "props": {"url": PIXEL, "alt": "A pixel"}}},
            {"native": {"type": "error", "props": {"message": "A part is missing", "code": "x"}}},
            {"native": {"type": "chart", "props": {"title": "Growth"}, "message_id": "chart-1"}},
            {"text": "Paris is the capital."},
        ],
    },
    {
        "match": "^everything",
        "steps": [
            {"thinking": "Let me think."},
            {"native": {"type": "loading", "props": {"message": "Looking it up"}}},
            {"tool": "current_time", "arguments": {}},
        ],
    },
    {"match": "^break", "steps": [{"text": "Half"}, {"error": "server", "message": "It broke"}]},
    {"match": "^busy", "steps": [{"error": "rate_limited", "message": "The model is busy"}]},
    {"match": "^slow", "steps": [{"text": "one two three four", "tokens_per_second": 2}]},
    {"match": "^hang", "steps": [{"text": "Begun. "}, {"hang": True}]},
    {
        "match": "weather",
        "steps": [{"tool": "get_weather", "arguments": {"city": "Paris"}}],
    },
    {"match": "weather", "after_tool": True, "steps": [{"text": "It is sunny."}]},
]
MAKE = """
import json
from allowlist import keys
from core.models import ChannelAccount, User
made = {}
for name in ("owner", "member"):
    user = User.objects.create(username=name, is_owner=name == "owner", is_staff=name == "owner")
    user.set_password("correct horse"); user.save()
    made[name] = keys.create(name=name, user=user, scopes=["chat", "inbound"])[1]
    made[name + "_id"] = str(user.id)
made["inbound_only"] = keys.create(name="i", user=user, scopes=["inbound"])[1]
made["revoked"] = keys.create(name="r", user=user, scopes=["chat"])[1]
from allowlist.models import ApiKey
from django.utils import timezone
keys.revoke(key=ApiKey.objects.get(name="r"), actor="test", now=timezone.now())
account = ChannelAccount.objects.create(channel="bridge", name="mail", status="running")
made["bridge"] = keys.create(name="bridge", account=account, scopes=["chat", "inbound"])[1]
print(json.dumps(made))
"""


def make(gateway: Gateway) -> dict[str, str]:
    """Create an owner, a member and a bridge; return their keys by name. The password is ``correct
    horse``."""
    made: dict[str, str] = json.loads(gateway.manage("shell", "-v", "0", "-c", MAKE))
    return made


def script(folder: Path) -> str:
    """Return the path of a file with ``SCRIPT``."""
    path = folder / "script.json"
    path.write_text(json.dumps(SCRIPT))
    return str(path)
