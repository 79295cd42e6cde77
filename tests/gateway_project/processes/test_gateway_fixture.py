"""The gateway that the end-to-end tests start is real: its parts die and come back."""

import pytest

from tests.gateways import Gateway


@pytest.mark.slow
def test_each_part_can_be_killed_and_comes_back(gateway: Gateway) -> None:
    """[D8] ``/healthz`` answers after web, broker and workers were killed and started again."""
    for name in ("web", "runs", "broker"):
        before = gateway.pid(name)
        gateway.kill(name)
        gateway.restart(name)
        assert gateway.pid(name) != before
    assert gateway.is_healthy()
    assert "No planned migration operations" in gateway.manage("migrate", "--plan")
