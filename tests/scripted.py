"""Fixtures for API clients: a gateway with a script, its keys, a client."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests import people
from tests.gateways import Gateway


@pytest.fixture(scope="module")
def scripted(
    module_gateways: Callable[..., Gateway], tmp_path_factory: pytest.TempPathFactory
) -> Gateway:
    """Return a gateway that plays ``people.SCRIPT``."""
    folder: Path = tmp_path_factory.mktemp("script")
    return module_gateways(
        LLM_SCRIPT=people.script(folder), RATE_PER_MINUTE_USER="0", HEARTBEAT_SECONDS="1"
    )


@pytest.fixture(scope="module")
def tokens(scripted: Gateway) -> dict[str, str]:
    """Return the keys of its people."""
    return people.make(scripted)


@pytest.fixture
def client(scripted: Gateway, tokens: dict[str, str]) -> Iterator[httpx.Client]:
    """Yield an HTTP client with the owner's key."""
    headers = {"Authorization": f"Bearer {tokens['owner']}"}
    with httpx.Client(base_url=scripted.base_url, headers=headers, timeout=120) as made:
        yield made
