"""Daphne on a socket that it inherits."""

import os
import subprocess
import sys

import pytest

from gateway_project.home import BASE_DIR

# Answers its client's address, to a client in the same process.
SERVE = """
import os, socket, sys, threading, types, urllib.request

async def application(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["client"][0].encode()})

sys.modules["gateway_project.asgi"] = types.SimpleNamespace(application=application)
from gateway_project.processes import listener, web

host = sys.argv[1]
listening = listener.listen(host=host, port=0)
address = f"http://[{host}]" if ":" in host else f"http://{host}"
address += f":{listening.getsockname()[1]}/"

def ask():
    with urllib.request.urlopen(address, timeout=60) as answer:
        print(answer.read().decode(), flush=True)
    os._exit(0)

web.report_ready = lambda: threading.Thread(target=ask).start()
web.serve_daphne(listening)
"""


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_address_of_a_client_is_its_own(host: str) -> None:
    """Limits are counted by it, and ``/metrics`` is for this machine."""
    command = [sys.executable, "-c", SERVE, host]
    env = os.environ | {"DJANGO_SETTINGS_MODULE": "gateway_project.settings"}
    done = subprocess.run(
        command, cwd=BASE_DIR, env=env, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.stdout.strip() == host, done.stderr
