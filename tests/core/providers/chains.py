"""Models without rows, and chains of them."""

from dataclasses import replace
from typing import Any

from core.providers.catalogue import ModelInfo
from core.providers.chain import Chain
from tests.core.providers.rows import PLAIN

PROVIDER = replace(PLAIN, name="test", from_environment=True)
MODEL = ModelInfo(
    id=1,
    provider=PROVIDER,
    name="default",
    label="default",
    context_tokens=8192,
    max_output_tokens=1024,
    can_call_tools=True,
    can_see_images=None,
    input_price=None,
    cached_price=None,
    output_price=None,
    offered=False,
    is_embedded=False,
)


def model_info(number: int, **more: Any) -> ModelInfo:
    """Return model ``number`` of a provider of the same number."""
    provider = replace(PROVIDER, id=number, name=f"provider {number}", from_environment=False)
    name = f"model-{number}"
    return replace(MODEL, id=number, name=name, label=name, provider=provider, **more)


def alone(provider: Any) -> Chain:
    """Return a chain of one model that ``provider`` plays."""
    return Chain([MODEL], lambda _: provider)
