"""The reference configurations of nginx and Caddy before a real gateway: TLS, streams, limits."""

import json
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import connect

from gateway_project.home import BASE_DIR
from gateway_project.processes import listener
from tests import caddy, nginx
from tests.channels_app.client import people
from tests.gateways import Gateway

NAME = "chat.example.org"
pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Proxy:
    """A proxy on a loopback port, its certificate, and a key of a user behind it."""

    port: int
    plain: int
    certificate: Path
    token: str

    def client(self) -> httpx.Client:
        """Return a client that trusts the certificate and asks by name."""
        context = ssl.create_default_context(cafile=str(self.certificate))
        headers = {"Host": NAME, "Authorization": f"Bearer {self.token}"}
        base = f"https://127.0.0.1:{self.port}"
        return httpx.Client(base_url=base, headers=headers, verify=context, timeout=200)


# Of each proxy: its configuration, and the replaced texts. Only addresses are replaced, and the
# patience with slow heads: a test does not wait 15 s.
PROXIES = {
    "nginx": (nginx.running, "nginx.conf", "server 127.0.0.1:{};", "client_header_timeout {}s;"),
    "caddy": (caddy.running, "Caddyfile", "reverse_proxy 127.0.0.1:{} {{", "read_header {}s"),
}


@pytest.fixture(scope="module")
def gateway(module_gateways: Callable[..., Gateway]) -> Gateway:
    """Return a gateway that trusts the proxies, and takes larger bodies than they do."""
    return module_gateways(
        GATEWAY_URL=f"https://{NAME}",
        GATEWAY_TRUSTED_PROXIES="127.0.0.1",
        MAX_BODY_BYTES=str(64 * 2**20),
    )


@pytest.fixture(scope="module")
def token(gateway: Gateway) -> str:
    return people(gateway, number=1)[0].token


@pytest.fixture(scope="module", params=PROXIES)
def proxy(
    request: pytest.FixtureRequest,
    gateway: Gateway,
    token: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Proxy]:
    """Yield the proxy in front of the gateway."""
    running, file, address, patience = PROXIES[request.param]
    port, plain = listener.free_port(), listener.free_port()
    text = nginx.replaced(
        (BASE_DIR / "docs" / "deploy" / file).read_text(),
        {
            address.format(8000): address.format(gateway.port),
            patience.format(15): patience.format(2),
        },
    )
    folder = tmp_path_factory.mktemp(request.param)
    with running(folder, text, name=NAME, plain=plain, tls=port) as certificate:
        yield Proxy(port, plain, certificate, token)


def test_pages_come_over_tls_with_hsts_and_plain_http_is_sent_there(proxy: Proxy) -> None:
    """And no page redirects to itself: the gateway trusts the proxy about TLS."""
    with proxy.client() as client:
        page = client.get("/")
    assert page.status_code == 302
    assert page.headers["Location"] == "/sign-in?next=/"
    assert page.headers["Strict-Transport-Security"].startswith("max-age=31536000")
    plain = httpx.get(f"http://127.0.0.1:{proxy.plain}/x", headers={"Host": NAME}, timeout=200)
    assert plain.status_code in {301, 308}
    assert plain.headers["Location"] == f"https://{NAME}/x"


def test_a_stream_arrives_through_the_proxy_piece_by_piece(proxy: Proxy) -> None:
    body = {"text": "hello", "stream": True}
    with proxy.client() as client, client.stream("POST", "/inbound", json=body) as answer:
        lines = [line for line in answer.iter_lines() if line.startswith("data:")]
        assert answer.headers["Strict-Transport-Security"]
    assert answer.status_code == 200
    assert '"event":"progress"' in lines[0]
    assert '"event":"done"' in lines[-1]


def test_a_websocket_is_answered_through_the_proxy(proxy: Proxy) -> None:
    context = ssl.create_default_context(cafile=str(proxy.certificate))
    with connect(
        f"wss://{NAME}/ws", sock=socket.create_connection(("127.0.0.1", proxy.port)), ssl=context
    ) as opened:
        opened.send(json.dumps({"type": "auth", "key": proxy.token}))
        opened.send(json.dumps({"type": "message", "text": "hello", "client_id": "1"}))
        found: dict[str, object] = {}
        while found.get("type") != "final":
            found = json.loads(opened.recv(timeout=200))
    assert found["status"] == 200


def test_rw11_the_proxy_refuses_a_body_above_its_own_limit(proxy: Proxy) -> None:
    """[RW11] The gateway here would take it: the refusal is the proxy's."""
    with proxy.client() as client:
        kind = {"Content-Type": "application/json"}
        answer = client.post("/inbound", content=b"x" * (17 * 2**20), headers=kind)
    assert answer.status_code == 413


@pytest.mark.parametrize(("megabytes", "status"), [(20, 201), (50, 201), (56, 413)])
def test_a_file_that_the_gateway_takes_passes_the_proxy(
    proxy: Proxy, megabytes: int, status: int
) -> None:
    """DOCUMENT_MEGABYTES is more than any other body has; above it the refusal is the proxy's."""
    kind = {"Content-Type": "application/octet-stream"}
    with proxy.client() as client:
        content = b"x" * (megabytes * 2**20)
        answer = client.post("/files?name=a.bin", content=content, headers=kind)
    assert answer.status_code == status
    assert answer.headers["Content-Type"].startswith("application/json") is (status == 201)


def test_rws12_a_head_that_never_ends_is_cut_by_the_proxy(proxy: Proxy) -> None:
    """[RWS12] uvicorn alone waits for it without end."""
    context = ssl.create_default_context(cafile=str(proxy.certificate))
    with (
        socket.create_connection(("127.0.0.1", proxy.port), timeout=200) as plain,
        context.wrap_socket(plain, server_hostname=NAME) as connection,
    ):
        connection.sendall(b"GET / HTTP/1.1\r\nHost: chat")
        answer = b"open"
        with suppress(OSError):
            answer = connection.recv(1024)
    assert answer == b"" or b" 408 " in answer.split(b"\r\n")[0]


@pytest.mark.parametrize("proxy", ["nginx"], indirect=True)
def test_a_flood_of_one_address_is_a_429_of_nginx(proxy: Proxy) -> None:
    """Caddy has no limit of requests per address (docs/deploy.md)."""
    with proxy.client() as client:
        statuses = {client.get("/healthz").status_code}
        for _ in range(2000):
            statuses.add(client.get("/healthz").status_code)
            if 429 in statuses:
                break
    assert statuses == {200, 429}
