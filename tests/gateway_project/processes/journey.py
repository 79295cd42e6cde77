"""The first journey of the README against what a compose file has started."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from gateway_project.home import BASE_DIR
from tests.gateway_project.processes import recipes

NAME = "gate.example.net"
PASSWORD = "a1b2c3d4e5f60718"
# A command in a container of a service, by name; returns its output.
Execute = Callable[..., str]


def variables_of(name: str, certificate: Path) -> dict[str, str]:
    """Return what an owner sets for a compose file, but the model."""
    if name == "compose.yaml":
        return {}
    secrets = ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "GATEWAY_ENCRYPTION_KEYS")
    return {
        **dict.fromkeys(secrets, PASSWORD), "SECRET_KEY": PASSWORD * 4, "GATEWAY_NAME": NAME,
        "TLS_CERTIFICATE": str(certificate), "TLS_KEY": str(certificate.with_suffix(".key")),
    }  # fmt: skip


def signed_in(execute: Execute, name: str, client: httpx.Client) -> httpx.Response:
    """Sign in by the link that the documented command prints; return the answer with the chats.

    ``execute`` runs a command in a container of a service.
    """
    service, command = recipes.documented_command(name)
    link = execute(service, *command).split()[-1]
    address = urlsplit(link)
    assert f"{address.scheme}://{address.netloc}" == client.headers["Origin"]
    form = client.get(address.path).text
    token = form.partition('name="csrfmiddlewaretoken" value="')[2].partition('"')[0]
    answer = client.post(address.path, data={"csrfmiddlewaretoken": token})
    assert answer.status_code == 302, answer.text
    chats = client.get("/chat/sessions")
    assert chats.status_code == 200
    return chats


def owner_key(execute: Execute, service: str) -> str:
    """Return a key by the command of the README."""
    text = (BASE_DIR / "README.md").read_text()
    (line,) = [each for each in text.splitlines() if "manage.py create_key" in each]
    arguments = line.partition("#")[0].split()[1:]
    made = execute(service, "python", *arguments)
    return next(word for word in made.split() if word.startswith("lk_"))


def ask(client: httpx.Client, key: str, text: str, expected: str = "Yes.") -> None:
    """Ask one question over HTTP; the model's answer comes."""
    headers = {"Authorization": f"Bearer {key}"}
    answer = client.post("/inbound", json={"text": text}, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text
    assert expected in answer.text
