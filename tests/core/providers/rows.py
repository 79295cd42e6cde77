"""Rows of providers and models as a process has them, for tests."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

from core.lib.encryption import encrypt
from core.providers.catalogue import ModelInfo, ProviderInfo

PLAIN = ProviderInfo(
    id=1,
    name="Mine",
    kind="openai-compatible",
    base_url="",
    secrets="",
    first_token_seconds=60,
    idle_seconds=60,
    concurrency=0,
    allow_private=True,
    from_environment=False,
)
MODEL = ModelInfo(
    id=1,
    provider=PLAIN,
    name="m",
    label="m",
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


def provider(*, key: str = "", **fields: Any) -> ProviderInfo:
    """Return a provider whose address may be inside the network."""
    return replace(PLAIN, secrets=encrypt({"key": key} if key else {}), **fields)


def model(*, name: str = "m", kind: str = "openai-compatible", **fields: Any) -> ModelInfo:
    """Return a model of a provider of this kind; prices may be texts."""
    prices = {each: fields.pop(f"{each}_price", None) for each in ("input", "cached", "output")}
    of_provider = {each: fields.pop(each) for each in ("base_url",) if each in fields}
    made = replace(MODEL, provider=provider(kind=kind, **of_provider), name=name, label=name)
    set_up: dict[str, Any] = {
        f"{k}_price": None if v is None else Decimal(v) for k, v in prices.items()
    }
    return replace(made, **set_up, **fields)
