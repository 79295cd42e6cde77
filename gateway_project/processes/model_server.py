"""The embedded model server: ``python -m gateway_project.processes.model_server``.

An OpenAI-compatible HTTP server on loopback, with a key. It is ready after a first completion: the
port opens seconds earlier, and answers 503 until the weights are loaded.
"""

import http.client
import json
import os
import signal
import sys
import time
from urllib.parse import urlsplit

from gateway_project.processes import model_files, ready

LOAD_SECONDS = 60.0
TOKENS_AT_MOST = 1024
PAUSE_SECONDS = 0.1


def start(*, port: int, key: str, weights: str) -> object:
    """Load the weights and listen on loopback; returns the server when the port is open."""
    import xllamacpp  # noqa: PLC0415 - optional and heavy

    params = xllamacpp.CommonParams()
    params.model.path = weights
    params.model_alias = {model_files.ALIAS}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.api_keys = [key]
    params.n_parallel = model_files.SLOTS
    params.n_ctx = model_files.SLOTS * model_files.SLOT_TOKENS
    params.n_predict = TOKENS_AT_MOST
    params.n_threads_http = model_files.SLOTS + 4
    params.sampling.temp = 0.2
    params.sampling.penalty_repeat = 1.05
    params.cache_ram_mib = 0
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads()
    return xllamacpp.Server(params)


def threads() -> int:
    """Return the number of threads, leaving one core to the gateway: llama.cpp's threads wait for
    each other by spinning, so with a thread on every core and one core busy it fell from 90 to 6
    tokens a second (with one thread of two: from 53 to 20).
    """
    return max(1, (os.cpu_count() or 2) - 1)


def complete(*, port: int, key: str, seconds: float) -> int:
    """Request one token; return the HTTP status. Raises ``OSError`` without a response in time."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    question = {
        "model": model_files.ALIAS,
        "max_tokens": 1,
        "messages": [{"role": "user", "content": "Hello"}],
    }
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(question), headers)
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


def wait_for_completion(*, port: int, key: str) -> bool:
    """Return whether a completion came within ``LOAD_SECONDS``; a hanging request is repeated."""
    deadline = time.monotonic() + LOAD_SECONDS
    while (left := deadline - time.monotonic()) > 0:
        try:
            if complete(port=port, key=key, seconds=left) == http.HTTPStatus.OK:
                return True
        except OSError:
            pass
        time.sleep(PAUSE_SECONDS)
    return False


def main() -> int:
    """Serve until SIGTERM, at ``GATEWAY_MODEL_URL`` with the key ``GATEWAY_MODEL_KEY``."""
    port = urlsplit(os.environ["GATEWAY_MODEL_URL"]).port or 0
    key = os.environ["GATEWAY_MODEL_KEY"]
    weights = model_files.weights()
    if weights is None:
        sys.stderr.write(f"{model_files.missing_parts()}\n")
        return 1
    server = start(port=port, key=key, weights=str(weights))
    if not wait_for_completion(port=port, key=key):
        sys.stderr.write(f"no completion within {LOAD_SECONDS:.0f} s on {server}\n")
        os._exit(1)  # its threads may also hang
    ready.report()
    signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
