"""Ask a provider whether it works, and for its models: for synchronous callers."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from django.utils import timezone

from core.lib.text import one_line
from core.models import ModelProvider
from core.providers import examine, vendors
from core.providers.base import ProviderError

SECONDS = 120.0
LIST_SECONDS = 20.0
MOST_CHARACTERS = 500
MOST_MODELS = 1000

T = TypeVar("T")


class CheckError(Exception):
    """The provider could not be asked; the text is for the owner."""


def test(row: ModelProvider, model_name: str) -> examine.Finding:
    """Make a call of a model; store and return what was found."""
    finding = run(examine.examine(vendors.info_of(row), model_name), SECONDS)
    store(row, check_result=one_line(str(finding), MOST_CHARACTERS))
    return finding


def ask_models(row: ModelProvider) -> list[str]:
    """Ask a provider for the names of its models; store and return them. Raises CheckError."""
    found = run(examine.list_models(vendors.info_of(row)), LIST_SECONDS)
    names = sorted({one_line(each, 200) for each in found if each.strip()})[:MOST_MODELS]
    store(row, offered_models=names)
    return names


def run(question: Awaitable[T], seconds: float) -> T:
    """Return the answer of a coroutine. Raises CheckError."""

    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await question

    try:
        return asyncio.run(bounded())
    except TimeoutError as error:
        raise CheckError(f"There was no answer within {seconds:.0f} seconds.") from error
    except ProviderError as error:
        reason = one_line(error.reason, 300)
        raise CheckError(f"{error} ({reason})" if reason else str(error)) from error


def store(row: ModelProvider, **values: object) -> None:
    """Store what a check found. It changes no turn, so the version of the rows stays."""
    values["checked_at"] = timezone.now()
    ModelProvider.objects.filter(pk=row.pk).update(**values)
    for name, value in values.items():
        setattr(row, name, value)
