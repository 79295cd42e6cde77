"""Providers, models, assistants and budgets as rows of a running gateway."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.gateways import Gateway

Row = Mapping[str, Any]
MAKE = """
import json, sys
from core.database.transactions import atomic_write
from core.lib.encryption import encrypt
from core.models import Assistant, AssistantModel, Budget, LanguageModel, ModelProvider
from core.providers import catalogue
data = json.load(sys.stdin)
catalogue.current()
models = {}
with atomic_write():
    for given in data["providers"]:
        key, names = given.pop("key"), given.pop("models")
        provider = ModelProvider.objects.create(**given, secrets=encrypt({"key": key}))
        for name, more in names.items():
            models[name] = LanguageModel.objects.create(provider=provider, name=name, **more)
    default = Assistant.objects.get(is_default=True)
    Assistant.objects.filter(pk=default.pk).update(tools=data["tools"])
    default.chain.all().delete()
    for position, name in enumerate(data["chain"], 1):
        AssistantModel.objects.create(assistant=default, model=models[name], position=position)
    budgets = [Budget.objects.create(**each).pk for each in data["budgets"]]
ids = {name: row.pk for name, row in models.items()}
print("MADE", json.dumps({"models": ids, "budgets": budgets}))
"""


def provider(
    url: str,
    *models: str,
    name: str = "aimock",
    key: str = "",
    fields: Row | None = None,
    **more: Any,
) -> Row:
    """Return the fields of a provider at ``url`` with these models, which all have ``fields``."""
    return {
        "name": name,
        "base_url": url,
        "key": key,
        "allow_private": True,
        "first_token_seconds": 2,
        "idle_seconds": 2,
        "models": {each: dict(fields or {}) for each in models},
        **more,
    }


def make(
    gateway: Gateway,
    *providers: Row,
    chain: Sequence[str],
    budgets: Sequence[Row] = (),
    tools: Sequence[str] | None = None,
) -> dict[str, int]:
    """Create the rows; the default assistant gets the chain, and these tools (None: all). Return
    the ids of the models by name, and of the budgets as ``budget-0`` and so on."""
    data: dict[str, Any] = {"providers": list(providers), "chain": list(chain)}
    data |= {"budgets": list(budgets), "tools": tools if tools is None else list(tools)}
    output = gateway.manage("shell", "-v0", "--no-imports", "-c", MAKE, stdin=json.dumps(data))
    line = next(line for line in output.splitlines() if line.startswith("MADE"))
    made = json.loads(line.removeprefix("MADE"))
    numbered = {f"budget-{place}": number for place, number in enumerate(made["budgets"])}
    return {**made["models"], **numbered}
