"""Models without rows, and chains of them."""

from dataclasses import replace
from typing import Any

from core.providers.catalogue import ModelInfo
from core.providers.chain import Chain
from tests.core.providers import rows

PROVIDER = replace(rows.PLAIN, name="test", from_environment=True)
MODEL = replace(rows.MODEL, provider=PROVIDER, name="default", label="default")


def model_info(number: int, **more: Any) -> ModelInfo:
    """Return model ``number`` of a provider of the same number."""
    provider = replace(PROVIDER, id=number, name=f"provider {number}", from_environment=False)
    name = f"model-{number}"
    return replace(MODEL, id=number, name=name, label=name, provider=provider, **more)


def alone(provider: Any) -> Chain:
    """Return a chain of one model that ``provider`` plays."""
    return Chain([MODEL], lambda _: provider)
