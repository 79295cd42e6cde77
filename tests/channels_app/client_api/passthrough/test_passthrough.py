"""Embeddings and audio through a running gateway, to a provider that keeps what it was asked."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import openai
import pytest
from pytest_django import Settings

from core.providers.semaphore import Semaphores
from tests import people
from tests.channels_app.client import query
from tests.gateways import Gateway
from tests.models_chaos import rows
from tests.servers import wait_until

pytestmark = pytest.mark.slow
Json = dict[str, Any]
KEY = "sk-provider-0123456789abcdef"
SOUND = b"ID3" + bytes(range(256)) * 400
VECTORS = {
    "object": "list",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -0.25]}],
    "model": "embed",
    "usage": {"prompt_tokens": 11, "total_tokens": 11},
}
HEARD = {
    "text": 'He said \\"prompt_tokens\\": 99.',
    "usage": {"type": "tokens", "input_tokens": 14, "output_tokens": 5, "total_tokens": 19},
}


@dataclass
class Provider:
    """A provider's server. ``asked``: path, headers and body of each request so far."""

    url: str = ""
    asked: list[tuple[str, Json, bytes]] = field(default_factory=list)


def answer_of(path: str, body: bytes) -> tuple[int, str, bytes]:
    """Return status, type and body of the server's answer."""
    if b"limited" in body:
        error = {"error": {"message": f"Slow down, {KEY}", "code": "rate_limit_exceeded"}}
        return 429, "application/json", json.dumps(error).encode()
    if b"a page" in body:
        return 200, "text/html", b"<html>Welcome</html>"
    if path.endswith("/embeddings"):
        return 200, "application/json", json.dumps(VECTORS).encode()
    if path.endswith("/audio/speech"):
        return 200, "audio/mpeg", SOUND
    if b"without usage" in body:
        return 200, "text/plain; charset=utf-8", "Für dich.".encode()
    if path.endswith(("/transcriptions", "/translations")):
        return 200, "application/json", json.dumps(HEARD).encode()
    return 404, "application/json", b'{"error": {"message": "unknown"}}'


@contextmanager
def running() -> Iterator[Provider]:
    """Yield the server on a free port."""
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        """Answers every POST."""

        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """Keep the request, send its answer."""
            body = self.read_body()
            provider.asked.append((self.path, dict(self.headers), body))
            status, kind, data = answer_of(self.path, body)
            breaks = b"break off" in body
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data) + breaks))
            self.end_headers()
            self.wfile.write(data)
            self.close_connection = breaks

        def read_body(self) -> bytes:
            """Return the body, which may be chunked."""
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers["Content-Length"]))
            found = b""
            while size := int(self.rfile.readline(), 16):
                found += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return found

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    provider.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    yield provider
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    """Yield the provider's server."""
    with running() as made:
        yield made


@pytest.fixture(scope="module")
def gateway(module_gateways: Callable[..., Gateway], provider: Provider) -> Gateway:
    """Return a gateway with models of that provider, of one that is down, and of another kind."""
    made = module_gateways(RATE_PER_MINUTE_USER="0", GATEWAY_ENCRYPTION_KEYS="key-of-a-test")
    price = {"input_price": "1", "output_price": "1"}
    rows.make(
        made,
        rows.provider(provider.url, "embed", "hear", "speak", name="media", key=KEY, fields=price),
        rows.provider("http://127.0.0.1:9/v1", "silent", name="dead"),
        rows.provider("", "claude", name="other", kind="anthropic", key=KEY),
        rows.provider(provider.url, "single", name="narrow", concurrency=1, first_token_seconds=1),
        chain=[],
    )
    return made


@pytest.fixture(scope="module")
def tokens(gateway: Gateway) -> dict[str, str]:
    """Return the keys of its people."""
    return people.make(gateway)


@pytest.fixture
def client(gateway: Gateway, tokens: dict[str, str]) -> Iterator[httpx.Client]:
    """Yield an HTTP client with a member's key."""
    headers = {"Authorization": f"Bearer {tokens['member']}"}
    with httpx.Client(base_url=gateway.base_url, headers=headers, timeout=60) as made:
        yield made


def calls(gateway: Gateway) -> list[Any]:
    """Return the stored calls, oldest first."""
    columns = "state, model_name, prompt_tokens, completion_tokens, estimated, failure, run_id"
    return query(gateway, f"SELECT {columns} FROM core_modelcall ORDER BY id")


def test_w36_w38_embeddings_are_answered_by_the_provider(
    client: httpx.Client, gateway: Gateway, provider: Provider
) -> None:
    """[W36] [W38] Unchanged, with the provider's key; the tokens that it reports are counted."""
    before = len(calls(gateway))
    for name in ("embed", "media/embed"):
        body = {"model": name, "input": ["one", "two"], "dimensions": 2}
        answer = client.post("/v1/embeddings", json=body)
        assert answer.status_code == 200, answer.text
        assert answer.json() == VECTORS
        path, headers, sent = provider.asked[-1]
        assert path == "/v1/embeddings"
        assert headers["Authorization"] == f"Bearer {KEY}"
        assert json.loads(sent) == {**body, "model": "embed"}
    wait_until(lambda: len(calls(gateway)) == before + 2, seconds=10)
    assert calls(gateway)[-1] == ("settled", "media: embed", 11, 0, 0, "", None)


def test_w37_w38_audio_goes_both_ways(
    client: httpx.Client, gateway: Gateway, provider: Provider
) -> None:
    """[W37] [W38] A form with a recording to the provider, sound back; counted as well."""
    spoken = client.post("/v1/audio/speech", json={"model": "speak", "input": "Hi", "voice": "a"})
    assert spoken.status_code == 200, spoken.text
    assert spoken.headers["content-type"] == "audio/mpeg"
    assert spoken.content == SOUND
    for path in ("transcriptions", "translations"):
        answer = client.post(
            f"/v1/audio/{path}",
            data={"model": "hear", "language": "en"},
            files={"file": ("a.mp3", SOUND, "audio/mpeg")},
        )
        assert answer.status_code == 200, answer.text
        assert answer.json() == HEARD
        asked, headers, sent = provider.asked[-1]
        assert asked == f"/v1/audio/{path}"
        assert SOUND in sent
        assert b'name="language"' in sent
        assert headers["Authorization"] == f"Bearer {KEY}"
    wait_until(lambda: calls(gateway)[-1][2:4] == (14, 5), seconds=10)


def test_w38_the_answer_is_estimated_where_the_provider_does_not_count(
    client: httpx.Client, gateway: Gateway
) -> None:
    """[W38] Speech by what is said, a transcription by its recording."""
    said = {"model": "speak", "input": "äb" * 20, "voice": "a"}
    assert client.post("/v1/audio/speech", json=said).status_code == 200
    wait_until(lambda: calls(gateway)[-1][3:5] == (90, 1), seconds=10)
    form = {"model": "hear", "prompt": "without usage"}
    file = {"file": ("a.mp3", SOUND, "audio/mpeg")}
    heard = client.post("/v1/audio/transcriptions", data=form, files=file)
    assert heard.text == "Für dich."
    # Without it, clients that keep to the standard of old read Latin-1.
    assert heard.headers["content-type"] == "text/plain; charset=utf-8"
    tokens = len(SOUND) // 1000 + 1
    wait_until(lambda: calls(gateway)[-1][3:5] == (tokens, 1), seconds=10)


def test_w37_w38_an_answer_that_breaks_off_ends_the_connection(
    client: httpx.Client, gateway: Gateway
) -> None:
    """[W37] [W38] It is not taken for a whole one, by the client and by the owner."""
    body = {"model": "speak", "input": "break off", "voice": "a"}
    with pytest.raises(httpx.RemoteProtocolError):
        client.post("/v1/audio/speech", json=body)
    wait_until(lambda: calls(gateway)[-1][5] == "cut", seconds=10)
    assert "a request failed" not in gateway.log("web")
    assert gateway.is_healthy()


def test_w36_w37_the_official_client_works(
    gateway: Gateway, tokens: dict[str, str], provider: Provider
) -> None:
    """[W36] [W37] Embeddings, speech and transcription of ``openai``."""
    del provider
    address = f"{gateway.base_url}/v1"
    with openai.OpenAI(base_url=address, api_key=tokens["member"], max_retries=0) as client:
        found = client.embeddings.create(model="embed", input="x", encoding_format="float")
        assert found.data[0].embedding == [0.5, -0.25]
        assert client.audio.speech.create(model="speak", input="x", voice="a").read() == SOUND
        heard = client.audio.transcriptions.create(model="hear", file=("a.mp3", SOUND))
        assert heard.text == HEARD["text"]
        with pytest.raises(openai.NotFoundError, match="add it to the models"):
            client.embeddings.create(model="nothing", input="x")


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("embeddings", {"model": "nothing", "input": "x"}, 404, "not known here"),
        ("embeddings", {"model": "claude", "input": "x"}, 404, "name a model of one that has it"),
        ("embeddings", {"input": "x"}, 400, "model must be"),
        ("embeddings", {"model": "embed"}, 400, "input must"),
        ("embeddings", {"model": "embed", "input": []}, 400, "input must"),
        ("embeddings", {"model": "silent", "input": "x"}, 502, "cannot be reached"),
        ("embeddings", {"model": "embed", "input": "limited"}, 429, "rate limit"),
        ("embeddings", {"model": "embed", "input": "a page"}, 502, "not a model server"),
        ("audio/speech", {"model": "speak", "input": ""}, 400, "input must"),
    ],
)
def test_w39_failures_are_said_in_plain_words(
    client: httpx.Client, gateway: Gateway, path: str, body: Json, status: int, words: str
) -> None:
    """[W39] In OpenAI's shape; the provider's key is in none of them."""
    answer = client.post(f"/v1/{path}", json=body)
    assert answer.status_code == status, answer.text
    assert KEY not in gateway.log("web")
    assert words in answer.json()["error"]["message"]
    assert KEY not in answer.text


def test_w39_forms_that_are_none_are_refused(client: httpx.Client) -> None:
    """[W39] Another type, a broken form, no recording, two of them; and the limit of a body."""
    url = "/v1/audio/transcriptions"
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    assert client.post(url, json={"model": "hear"}).status_code == 415
    assert client.post(url, content=b"--y\r\n", headers=kind).status_code == 400
    nothing = {"Content-Type": "multipart/form-data"}
    assert client.post(url, content=b"x", headers=nothing).status_code == 400
    assert client.post(url, data={"model": "hear"}, files={"x": b"1"}).status_code == 400
    two = [("file", ("a", b"1")), ("file", ("b", b"2"))]
    assert client.post(url, data={"model": "hear"}, files=two).status_code == 400


def test_w38_only_people_with_a_key_are_answered(
    client: httpx.Client, tokens: dict[str, str]
) -> None:
    """[W38] Not a bridge, nor a revoked key, nor one without the scope."""
    body = {"model": "embed", "input": "x"}
    for name, status in (("bridge", 403), ("revoked", 401), ("inbound_only", 403)):
        headers = {"Authorization": f"Bearer {tokens[name]}"}
        assert client.post("/v1/embeddings", json=body, headers=headers).status_code == status


LIMIT = """
from core.models import Budget, User
Budget.objects.create(
    user=User.objects.get(username="owner"), unit="tokens", period="day", limit=14
)
"""


def test_w76_a_request_that_is_passed_through_is_one_of_the_calls_at_once(
    gateway: Gateway, client: httpx.Client, settings: Settings
) -> None:
    """[W76] The only place is another process's: this one's."""
    settings.REDIS_URL = gateway.broker.url
    [[row]] = query(gateway, "SELECT id FROM core_modelprovider WHERE name = 'narrow'")
    body = {"model": "single", "input": "x"}

    async def while_it_is_taken() -> httpx.Response:
        made = Semaphores()
        async with made.slot(str(row), most=1):
            answer = await asyncio.to_thread(client.post, "/v1/embeddings", json=body)
        await made.close()
        return answer

    answer = asyncio.run(while_it_is_taken())
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "timeout"), answer.text
    assert client.post("/v1/embeddings", json=body).status_code == 200


def test_w38_budgets_count_requests_that_are_passed_through(
    gateway: Gateway, tokens: dict[str, str], provider: Provider
) -> None:
    """[W38] The first call is within it; the next one is refused before the provider is asked."""
    gateway.manage("shell", "-v", "0", "-c", LIMIT)
    headers = {"Authorization": f"Bearer {tokens['owner']}"}
    body = {"model": "embed", "input": "x"}
    with httpx.Client(base_url=gateway.base_url, headers=headers, timeout=60) as client:
        assert client.post("/v1/embeddings", json=body).status_code == 200
        wait_until(lambda: calls(gateway)[-1][0] == "settled", seconds=10)
        before = len(provider.asked)
        refused = client.post("/v1/embeddings", json=body)
        assert refused.status_code == 429, refused.text
        assert "budget" in refused.json()["error"]["message"]
        assert len(provider.asked) == before


READER = """
from allowlist import keys
from core.models import Budget, User
reader = User.objects.create(username="reader")
Budget.objects.create(user=reader, unit="tokens", period="day", limit=1000)
print(keys.create(name="reader", user=reader, scopes=["chat"])[1])
"""


def test_w38_speech_that_is_longer_than_the_rest_of_a_budget_is_not_begun(
    gateway: Gateway, tokens: dict[str, str], provider: Provider
) -> None:
    """[W38] Its answer cannot be made shorter, unlike that of a chat; a short one still fits."""
    key = gateway.manage("shell", "-v", "0", "-c", READER).strip()
    headers = {"Authorization": f"Bearer {key}"}
    body = {"model": "speak", "voice": "a"}
    with httpx.Client(base_url=gateway.base_url, headers=headers, timeout=60) as client:
        before = len(provider.asked)
        refused = client.post("/v1/audio/speech", json={**body, "input": "a" * 1200})
        assert refused.status_code == 429, refused.text
        assert "not enough" in refused.json()["error"]["message"]
        assert len(provider.asked) == before
        said = client.post("/v1/audio/speech", json={**body, "input": "a" * 200})
        assert said.status_code == 200, said.text
