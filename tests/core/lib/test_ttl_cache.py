"""Values that are valid for some seconds."""

import time

import pytest

from core.lib.ttl_cache import TtlCache


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time that the cache sees; its one item may be set."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_value_is_valid_for_its_seconds(clock: list[float]) -> None:
    cache: TtlCache[str, int] = TtlCache(2.0)
    assert cache.get("a") is None
    assert cache.put("a", 1) == 1
    clock[0] += 1.9
    assert cache.get("a") == 1
    clock[0] += 0.1
    assert cache.get("a") is None
    assert cache.get("a", expired=True) == 1
    cache.put("a", 2)
    assert cache.get("a") == 2


def test_a_cache_can_be_emptied(clock: list[float]) -> None:
    cache: TtlCache[str, int] = TtlCache(2.0)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.clear()
    assert cache.get("a", expired=True) is None
    assert cache.get("b", expired=True) is None
