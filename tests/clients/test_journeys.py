"""The same journeys with every client of docs/clients.md, at a running gateway ([W4])."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.clients import line, pythons, table
from tests.clients.table import ASKS_AGAIN, JOURNEYS, NOT_THERE, WORKS
from tests.gateways import Gateway
from tests.journeys import model as models
from tests.journeys.model import Rule
from tests.models_chaos import rows
from tests.npm import installed
from tests.servers import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
Json = dict[str, Any]
HERE = Path(__file__).parent
DRIVER_SECONDS = 300
COUNT = "one two three four five six seven eight"
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
    Rule("Say hello", text="Hello from the gateway."),
    Rule("Count to five", text=COUNT, slow=True),
    Rule("weather", tool="get_weather", arguments={"city": "Paris"}),
    Rule("weather", text="In Paris the sun shines.", after_tool=True),
    Rule("picture", text="One pixel."),
    Rule("Think for an hour", text="Hm. " * 400, slow=True),
    Rule("My name is", text="Nice to meet you."),
    Rule("What is my name", text="I know your name."),
    Rule("Change the greeting", text=EDIT),
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
AssistantModel.objects.create(assistant=down, model=LanguageModel.objects.get(name="dead"))
for name in json.load(sys.stdin):
    for kind in ("", "-poor", "-revoked"):
        label, scopes = name + kind, ["chat", "inbound"]
        user = User.objects.create(username=label)
        key, made[label] = keys.create(name=label, user=user, scopes=scopes)
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
    tool it changes a file.
    """

    title: str
    driver: str
    requirements: str = ""
    packages: str = ""
    lacks: tuple[str, ...] = ()
    again: bool = False
    edits: bool = False
    env: Json = field(default_factory=dict)


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
    "langchain": Client(
        title="LangChain", driver="langchain_python.py", requirements="clients", again=True
    ),
    "ai-sdk": Client(title="AI SDK", driver="ai_sdk.mjs", packages="."),
    "curl": Client(title="curl", driver="curl.py"),
    "llm": Client(title="llm", driver="llm_command.py", requirements="clients", again=True),
    "aider": Client(
        title="aider",
        driver="aider_coder.py",
        requirements="aider",
        edits=True,
        lacks=("stop", "cut"),
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
        working = rows.provider(model.url, "large", fields={"can_see_images": True})
        dead = rows.provider("http://127.0.0.1:9/v1", "dead", name="dead")
        rows.make(gateway, working, dead, chain=["large"])
        output = gateway.manage("shell", "-v", "0", "-c", KEYS, stdin=json.dumps(list(CLIENTS)))
        keys = json.loads(output.partition("MADE ")[2])
        with line.to(gateway.port) as to_gateway:
            yield Place(gateway, model, keys, to_gateway)


def program(client: Client, config: pytest.Config, folder: Path) -> list[str]:
    """Return the command of a driver, whose files are copied where its packages are."""
    if client.packages:
        packages = installed(config, HERE / client.packages)
        for name in ("common.mjs", client.driver):
            shutil.copy(HERE / "drivers" / name, packages.folder / name)
        return [packages.node, str(packages.folder / client.driver)]
    for name in ("common.py", client.driver):
        shutil.copy(HERE / "drivers" / name, folder / name)
    python = pythons.installed(config, client.requirements or "clients")
    return [str(python), str(folder / client.driver)]


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
        **client.env,
    }
    place.line.cut_next()
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
    assert "".join(found["stream"]).strip() == COUNT
    assert len(found["stream"]) > 2
    if client.edits:
        assert "hello, sun" in found["tool"]
    else:
        assert found["tool"] == "In Paris the sun shines."
        assert any("It is sunny in Paris." in each for each in asked)
    assert found["image"] == "One pixel."
    assert any("data:image/png;base64,iVBORw0KGgo" in each for each in asked)
    assert found["remember"] == "I know your name."
    assert any(f"My name is {name}." in each and "What is my name?" in each for each in asked)
    if "cut" not in client.lacks:
        check_cut(found["cut"], client)
        assert place.line.cuts == cuts + 1
    for journey, words in (("revoked", "denied"), ("budget", "budget"), ("down", "model")):
        error = found[journey]
        text = error["error"] if isinstance(error, dict) else error
        assert words in text.lower(), (journey, text)
        assert "Hello from" not in text
    # Stopped or cut, nothing goes on.
    wait_until(
        lambda: not place.api(name, "/api/runs?state=running")["results"],
        seconds=30,
        what="the end of all runs",
    )
    if "run" in (found.get("stop") or {}):
        assert place.api(name, f"/api/runs/{found['stop']['run']}")["state"] == "cancelled"
    assert table.is_written(client.title, table.row(client.title, cells(client)))


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
