"""Caddy on loopback ports, as the reference configuration runs it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from core.lib import child
from tests.nginx import make_certificate, replaced, serving

PROGRAM = shutil.which("caddy", path="/usr/bin:/usr/local/bin")


@contextmanager
def running(folder: Path, text: str, *, name: str, plain: int, tls: int) -> Iterator[Path]:
    """Run Caddy with ``text``, a Caddyfile, on these ports; yield its certificate, which is made
    for ``name``: it would ask an authority for one.
    """
    assert PROGRAM is not None, "Caddy is missing: install the package caddy"
    certificate = make_certificate(folder, name)
    options = (
        "admin off",
        f"http_port {plain}",
        f"https_port {tls}",
        "default_bind 127.0.0.1",
        f"storage file_system {folder}/storage",
    )
    text = replaced(
        text,
        {
            "{\n\tservers {": "\n\t".join(["{", *options, "servers {"]),
            f"{name} {{": f"{name} {{\n\ttls {certificate} {certificate.with_suffix('.key')}",
        },
    )
    settings = folder / "Caddyfile"
    settings.write_text(text)
    command = child.command(PROGRAM, "run", "--config", str(settings), "--adapter", "caddyfile")
    with serving(command, log=folder / "caddy.out", port=tls):
        yield certificate
