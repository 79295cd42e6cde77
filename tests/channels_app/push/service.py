"""A push service of our own, and browsers that can read what it gets.

It speaks HTTPS on this machine under the name ``push.example``. Decryption (RFC 8291) and the check
of the signature (RFC 8292) are written here from the RFCs, so that they judge the library too.
"""

import asyncio
import json
import ssl
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from core.lib.safe_fetch import Address, Fetcher

HOST = "push.example"
P256 = ec.SECP256R1()
POINT = serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def text_of(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()


def bytes_of(value: str) -> bytes:
    return urlsafe_b64decode(value + "=" * (-len(value) % 4))


def derived(secret: bytes, *, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(hashes.SHA256(), length=length, salt=salt, info=info).derive(secret)


@dataclass(frozen=True)
class Received:
    """A request to the push service."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class ReadingBrowser:
    """A browser with its own keys."""

    endpoint: str
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(P256))
    auth: bytes = b"sixteen bytes ab"

    @property
    def subscription(self) -> dict[str, Any]:
        """Return what ``PushSubscription.toJSON()`` gives a page."""
        point = self.key.public_key().public_bytes(*POINT)
        keys = {"p256dh": text_of(point), "auth": text_of(self.auth)}
        return {"endpoint": self.endpoint, "keys": keys}

    def read(self, received: Received) -> dict[str, Any]:
        """Decrypt a message: header, key by ECDH and HKDF, one record (RFC 8188, RFC 8291)."""
        body = received.body
        assert received.headers["Content-Encoding"] == "aes128gcm"
        assert len(body) <= 4096, "push services take no more (RFC 8030, 7.2)"
        salt, size, length = body[:16], int.from_bytes(body[16:20], "big"), body[20]
        sender, sealed = body[21 : 21 + length], body[21 + length :]
        assert len(sealed) <= size, "one record"
        mine = self.key.public_key().public_bytes(*POINT)
        theirs = ec.EllipticCurvePublicKey.from_encoded_point(P256, sender)
        shared = self.key.exchange(ec.ECDH(), theirs)
        info = b"WebPush: info\x00" + mine + sender
        secret = derived(shared, salt=self.auth, info=info, length=32)
        key = derived(secret, salt=salt, info=b"Content-Encoding: aes128gcm\x00", length=16)
        nonce = derived(secret, salt=salt, info=b"Content-Encoding: nonce\x00", length=12)
        opened = AESGCM(key).decrypt(nonce, sealed, None).rstrip(b"\x00")
        assert opened[-1:] == b"\x02", "the delimiter of the last record"
        found: dict[str, Any] = json.loads(opened[:-1])
        return found


def signer(received: Received, *, origin: str) -> tuple[str, dict[str, Any]]:
    """Return the public key and the claims of a request, after checking them (RFC 8292)."""
    scheme, _, rest = received.headers["Authorization"].partition(" ")
    assert scheme == "vapid"
    given = dict(part.strip().split("=", 1) for part in rest.split(","))
    head, claims, signature = given["t"].split(".")
    assert json.loads(bytes_of(head)) == {"typ": "JWT", "alg": "ES256"}
    raw = bytes_of(signature)
    assert len(raw) == 64
    key = ec.EllipticCurvePublicKey.from_encoded_point(P256, bytes_of(given["k"]))
    der = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    key.verify(der, f"{head}.{claims}".encode(), ec.ECDSA(hashes.SHA256()))
    said: dict[str, Any] = json.loads(bytes_of(claims))
    assert said["aud"] == origin
    assert time.time() < said["exp"] <= time.time() + 24 * 3600
    assert said["sub"].startswith(("mailto:", "https:"))
    return given["k"], said


def certificate(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the context of a server called HOST, and that of a client which trusts it."""
    key = ec.generate_private_key(P256)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    path = folder / "push.pem"
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(made.public_bytes(encoding) + private)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(path)
    return server, ssl.create_default_context(cadata=made.public_bytes(encoding).decode())


def is_this_machine(address: Address) -> bool:
    """Return whether an address is the test's, in place of "public"."""
    return str(address) == "127.0.0.1"


async def to_this_machine(host: str, port: int) -> list[str]:
    """Resolve every name to this machine."""
    del host, port
    return ["127.0.0.1"]


class PushService:
    """The service: notes what it gets and answers 201, or what ``answers`` says, in order."""

    def __init__(self, folder: Path) -> None:
        self.received: list[Received] = []
        self.answers: list[Answer | int] = []
        self.folder = folder
        self.port = 0
        self._server_tls, self.client_tls = certificate(folder)

    @property
    def origin(self) -> str:
        return f"https://{HOST}:{self.port}"

    def browser(self, name: str = "one") -> ReadingBrowser:
        """Return a new browser."""
        return ReadingBrowser(f"{self.origin}/send/{name}")

    def fetcher(self, *, seconds: float = 10.0) -> Fetcher:
        """Return the guarded fetcher, with this machine in place of public addresses."""
        return Fetcher(
            resolve=to_this_machine,
            allowed=is_this_machine,
            ports=frozenset({self.port}),
            max_seconds=seconds,
            tls=self.client_tls,
            https_only=True,
        )

    async def take(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        body = await request.read()
        self.received.append(Received(request.path, dict(request.headers), body))
        answer = self.answers.pop(0) if self.answers else 201
        return web.Response(status=answer) if isinstance(answer, int) else await answer(request)

    @contextmanager
    def running(self) -> Iterator["PushService"]:
        """Serve in a thread of its own."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="push service", daemon=True)
        thread.start()
        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", self.take)
        runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)

        async def open_port() -> int:
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._server_tls).start()
            return int(runner.addresses[0][1])

        self.port = asyncio.run_coroutine_threadsafe(open_port(), loop).result(30)
        try:
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(30)
            loop.close()
