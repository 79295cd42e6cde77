"""A gateway for the clients of docs/clients.md: its model, its people, and the clients."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.clients import line, pythons
from tests.gateways import Gateway
from tests.journeys import model as models
from tests.journeys.model import Rule
from tests.models_chaos import rows
from tests.npm import installed

Json = dict[str, Any]
HERE = Path(__file__).parent
HELLO = "Hello from the gateway."
COUNT = "one two three four five six seven eight"
WRITE = "echo hello, sun > greeting.txt"
EDIT = """\
greeting.py
```python
<<<<<<< SEARCH
print("hello")
=======
print("hello, sun")
>>>>>>> REPLACE
```
"""
RULES = [
    Rule("Say hello", text=HELLO),
    Rule("Count to five", text=COUNT, slow=True),
    Rule("weather", tool="get_weather", arguments={"city": "Paris"}),
    Rule("weather", text="In Paris the sun shines.", after_tool=True),
    Rule("picture", text="One pixel."),
    Rule("Think for an hour", text="Hm. " * 400, slow=True),
    Rule("My name is", text="Nice to meet you."),
    Rule("What is my name", text="I know your name."),
    Rule("Change the greeting", text=EDIT),
    Rule("Fix the greeting", tool="exec_command", arguments={"cmd": WRITE}),
    Rule("Fix the greeting", text="Fixed.", after_tool=True),
    Rule("Correct the greeting", tool="Bash", arguments={"command": WRITE, "description": "Fix"}),
    Rule("Correct the greeting", text="Corrected.", after_tool=True),
    Rule(
        "Count to the end",
        text="one two ",
        end={"stop_reason": "three"},
        usage={
            "prompt_tokens": 100,
            "completion_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 90},
            "completion_tokens_details": {"reasoning_tokens": 3},
        },
    ),
]
ENVIRONMENT = {
    "LLM_PROVIDER": "openai-compatible",
    "RATE_PER_MINUTE_USER": "0",
    "GATEWAY_ENCRYPTION_KEYS": "key-of-a-test",
}
KEYS = """
import json, sys
from allowlist import keys
from core.models import Assistant, AssistantModel, Budget, LanguageModel, User
made = {}
down = Assistant.objects.create(name="Down", slug="down")
dead = LanguageModel.objects.get(name="dead")
AssistantModel.objects.create(assistant=down, model=dead)
second = Assistant.objects.create(name="Second", slug="second")
AssistantModel.objects.create(assistant=second, model=dead)
large = LanguageModel.objects.get(name="large")
AssistantModel.objects.create(assistant=second, model=large, position=2)
for name, model_only in json.load(sys.stdin).items():
    for kind in ("", "-poor", "-revoked"):
        label, scopes = name + kind, ["chat", "inbound", "send_result"]
        user = User.objects.create(username=label)
        given = {"user": user, "scopes": scopes, "model_only": model_only}
        key, made[label] = keys.create(name=label, **given)
        if kind == "-poor":
            Budget.objects.create(user=user, unit="tokens", period="day", limit=1)
        if kind == "-revoked":
            from django.utils import timezone
            keys.revoke(key=key, actor="test", now=timezone.now())
print("MADE", json.dumps(made))
"""


@dataclass(frozen=True, kw_only=True)
class Client:
    """A client: its title in the document, the program that does its journeys, and what it lacks.

    ``again``: after a cut it repeats the request, since it cannot resume. ``edits``: instead of a
    tool it changes a file. ``program``: that the driver starts, in the folder of the packages.
    ``page``: that the driver opens. ``asks``: a model answers it; else it speaks with the person
    alone. ``mark``: of its answer that is cut off. ``prints``: a word of its lines' output.
    """

    title: str
    driver: str
    requirements: str = ""
    packages: str = ""
    lacks: tuple[str, ...] = ()
    again: bool = False
    edits: bool = False
    program: str = ""
    page: str = ""
    asks: bool = True
    mark: bytes = line.MARK
    prints: str = HELLO
    # The words of its own for "the budget is used up" and "the model is down".
    words: Json = field(default_factory=dict)

    def where(self, config: pytest.Config) -> Path:
        """Return the folder of its programs: that of a Python, or of the packages from npm."""
        if self.packages:
            return installed(config, HERE / self.packages).folder
        return pythons.installed(config, self.requirements or "clients").parent


CLIENTS = {
    "openai-python": Client(
        title="openai (Python)", driver="openai_python.py", requirements="clients"
    ),
    "openai-js": Client(title="openai (JavaScript)", driver="openai_js.mjs", packages="."),
    "anthropic-python": Client(
        title="anthropic (Python)", driver="anthropic_python.py", requirements="anthropic"
    ),
    "anthropic-js": Client(
        title="anthropic (JavaScript)", driver="anthropic_js.mjs", packages="anthropic_js"
    ),
    "codex": Client(
        title="Codex",
        driver="codex.py",
        packages="codex",
        program="node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
        lacks=("stream",),
        again=True,
        edits=True,
        words={"budget": "Quota exceeded"},
    ),
    "claude-code": Client(
        title="Claude Code",
        driver="claude_code.py",
        packages="claude_code",
        program="node_modules/@anthropic-ai/claude-code-linux-x64/claude",
        lacks=("stream", "image"),
        again=True,
        edits=True,
    ),
    "langchain": Client(
        title="LangChain", driver="langchain_python.py", requirements="clients", again=True
    ),
    "ai-sdk": Client(title="AI SDK", driver="ai_sdk.mjs", packages="."),
    "assistant-ui": Client(
        title="assistant-ui", driver="assistant_ui.py", packages="page", page="assistant_ui.jsx"
    ),
    "ag-ui": Client(title="AG-UI", driver="ag_ui.mjs", packages="."),
    "mcp": Client(
        title="MCP client",
        driver="mcp_client.mjs",
        packages=".",
        lacks=("stream", "tool", "budget", "down"),
        asks=False,
        again=True,
        mark=b"Waiting for the user",
        prints="success",
    ),
    "curl": Client(title="curl", driver="curl.py"),
    "llm": Client(title="llm", driver="llm_command.py", requirements="clients", again=True),
    "aider": Client(
        title="aider",
        driver="aider_coder.py",
        requirements="aider",
        edits=True,
        lacks=("stop", "cut"),
        words={"budget": "rate limited", "down": "down or overloaded"},
    ),
}


@dataclass
class Place:
    """A running gateway whose model plays RULES, the keys of a person for each client, a line."""

    gateway: Gateway
    model: models.Model
    keys: dict[str, str]
    line: line.Line

    def api(self, key: str, path: str) -> Json:
        """Return what the REST interface says to the person of ``key``."""
        headers = {"Authorization": f"Bearer {self.keys[key]}"}
        answer = httpx.get(f"{self.gateway.base_url}{path}", headers=headers, timeout=60)
        found: Json = answer.json()
        return found


@pytest.fixture(scope="module")
def place(module_gateways: Callable[..., Gateway]) -> Iterator[Place]:
    """Yield the gateway."""
    with models.running() as model:
        model.rules = list(RULES)
        gateway = module_gateways(**ENVIRONMENT)
        working = rows.provider(
            model.url, "large", fields={"can_see_images": True, "offered": True}
        )
        dead = rows.provider("http://127.0.0.1:9/v1", "dead", name="dead")
        rows.make(gateway, working, dead, chain=["large"])
        agents = {name: bool(each.program) for name, each in CLIENTS.items()}
        output = gateway.manage("shell", "-v", "0", "-c", KEYS, stdin=json.dumps(agents))
        keys = json.loads(output.partition("MADE ")[2])
        with line.to(gateway.port) as to_gateway:
            yield Place(gateway, model, keys, to_gateway)
