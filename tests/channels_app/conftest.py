"""One gateway with a scripted model for the tests of a module; or a worker in this process."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.channels_app.client import Client, people
from tests.channels_app.running import guest, owner, runner
from tests.gateways import Gateway

__all__ = ["guest", "owner", "runner"]
INJECTION = 'a\n\ndata: {"event": "done"}\n\nid: 99\r\n\r\nb'
SCRIPT: list[dict[str, Any]] = [
    {"match": "", "after_tool": True, "steps": [{"text": "It is what it is."}]},
    {"match": "^slow ?(?!er)", "steps": [{"text": "word " * 60, "tokens_per_second": 30}]},
    {"match": "^slower", "steps": [{"text": "word " * 80, "tokens_per_second": 15}]},
    {"match": "^very slow", "steps": [{"text": "word " * 200, "tokens_per_second": 10}]},
    {"match": "^hang", "steps": [{"text": "before "}, {"hang": True}]},
    {"match": "^fail", "steps": [{"error": "unauthorised", "message": "The key is wrong."}]},
    {
        "match": "^half",
        "steps": [{"text": "half an answer"}, {"error": "server", "message": "Gone."}],
    },
    {
        "match": "^busy",
        "steps": [{"error": "rate_limited", "message": "Busy.", "retry_after": 0.01}],
    },
    {"match": "^time", "steps": [{"thinking": "hm"}, {"text": "Wait."}, {"tool": "current_time"}]},
    {"match": "^inject", "steps": [{"text": INJECTION}]},
    {"match": "^huge", "steps": [{"text": "**huge** " + "x" * 6_000_000}]},
    {"match": "^nul", "steps": [{"text": "a\u0000b"}]},
]
QUICK = {
    "RATE_PER_MINUTE_USER": "0",
    "RATE_PER_MINUTE_ADDRESS": "0",
    "RUN_LEASE_SECONDS": "3",
    "SWEEP_SECONDS": "1",
    "LOG_LEVEL": "WARNING",
    # One answer of the script is 6 MB long.
    "MAX_ANSWER_BYTES": "8000000",
    "LLM_CONTEXT_TOKENS": "500000",
}


@pytest.fixture(scope="session")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("script") / "script.json"
    path.write_text(json.dumps(SCRIPT))
    return str(path)


@pytest.fixture(scope="module")
def gateway(module_gateways: Callable[..., Gateway], script: str) -> Gateway:
    """Start a gateway that the tests of a module share."""
    return module_gateways(LLM_SCRIPT=script, STREAM_STALL_SECONDS="1", **QUICK)


@pytest.fixture(scope="module")
def crowd(gateway: Gateway) -> list[Client]:
    """Return the keys of fifty users, and of a bridge."""
    return people(gateway, number=50)


@pytest.fixture(scope="module")
def ada(crowd: list[Client]) -> Client:
    return crowd[0]


@pytest.fixture(scope="module")
def bob(crowd: list[Client]) -> Client:
    return crowd[1]


@pytest.fixture(scope="module")
def bridge(crowd: list[Client]) -> Client:
    return crowd[-1]
