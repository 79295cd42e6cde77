"""nginx on loopback ports, as the reference configurations run it."""

import getpass
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from core.lib import child
from gateway_project.processes import listener
from tests.servers import Process

PROGRAM = shutil.which("nginx", path="/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin")


def make_certificate(folder: Path, name: str) -> Path:
    """Create a certificate for ``name`` and loopback, with its key beside it; return its path."""
    certificate = folder / "proxy.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1"),
            *("-keyout", str(folder / "proxy.key"), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate


def replaced(text: str, changes: Mapping[str, str]) -> str:
    """Return ``text`` with each key, which must be there, replaced by its value."""
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


@contextmanager
def running(folder: Path, text: str, *, name: str, plain: int, tls: int) -> Iterator[Path]:
    """Run nginx with ``text``, a file of ``conf.d``, on these ports; yield its certificate, which
    is made for ``name``.
    """
    assert PROGRAM is not None, "nginx is missing: install the package nginx-light"
    certificate = make_certificate(folder, name)
    text = replaced(
        text,
        {
            "listen 80;": f"listen 127.0.0.1:{plain};",
            "listen 443 ssl;": f"listen 127.0.0.1:{tls} ssl;",
            f"/etc/ssl/{name}.pem": str(certificate),
            f"/etc/ssl/{name}.key": str(certificate.with_suffix(".key")),
        },
    )
    settings = folder / "nginx.conf"
    settings.write_text(surrounded(folder, text))
    command = child.command(PROGRAM, "-c", str(settings), "-e", str(folder / "start.log"))
    with serving(command, log=folder / "nginx.out", port=tls):
        yield certificate


@contextmanager
def serving(command: list[str], *, log: Path, port: int) -> Iterator[None]:
    """Run a proxy, from when it listens on ``port``."""
    process = Process(command=command, log=log)
    process.start()
    try:
        process.wait_ready(lambda: not listener.is_free(port))
        yield
    finally:
        process.stop()


def surrounded(folder: Path, text: str) -> str:
    """Return a file of ``conf.d`` inside of what nginx needs around it."""
    temporary = "\n".join(
        f"{kind}_temp_path {folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return (
        # Its workers write larger bodies into the folder of a test, which is of its user alone.
        f"user {getpass.getuser()}; daemon off; pid {folder}/nginx.pid; "
        f"error_log {folder}/error.log;\n"
        f"events {{}}\nhttp {{ access_log off;\n{temporary}\n{text}\n}}\n"
    )
