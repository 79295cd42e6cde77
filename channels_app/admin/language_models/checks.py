"""Ask a provider whether it works, and for its models: for synchronous callers."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from django.utils import timezone

from core.database.transactions import atomic_write
from core.lib.text import one_line
from core.models import LanguageModel, ModelProvider
from core.providers import catalogue, examine, listing
from core.providers.base import ProviderError
from core.providers.examine import Examination
from core.providers.findings import Finding

SECONDS = 60.0
MOST_CHARACTERS = 500
WHERE = {
    "kind": "Kind",
    "base_url": "Address",
    "key": "Key",
    "name": "Model",
    "context_tokens": "Context window",
    "can_call_tools": "Tools",
    "can_see_images": "Images",
}

T = TypeVar("T")


class CheckError(Exception):
    """The provider could not be asked; the text is for the owner."""


def test(row: ModelProvider, model_name: str) -> Examination:
    """Make small calls; store and return what was found."""
    found = run(examine.examine(catalogue.provider_info(row), model_name))
    words = [sentence(each) for each in sorted(found.findings, key=lambda each: not each.is_error)]
    if found.answers:
        words.insert(0, f"{model_name} answers.")
    elif not words:
        words = [f"The provider answers and offers {len(found.models)} models."]
    store(row, check_result=one_line(" ".join(words), MOST_CHARACTERS))
    return found


def sentence(finding: Finding) -> str:
    """Return a finding with the field that it belongs to."""
    where = WHERE.get(finding.field, "")
    return f"{where}: {finding.text}" if where else finding.text


def ask_models(row: ModelProvider) -> list[str]:
    """Ask a provider for the names of its models; store and return them. Raises CheckError."""
    found = run(listing.list_models(catalogue.provider_info(row)))
    names = [each.name for each in found if each.name.isprintable()]
    store(row, offered_models=names)
    return names


def learned(model: LanguageModel, found: Examination) -> dict[str, object]:
    """Fill in what a test found out about a model and its row does not say; return it."""
    values: dict[str, object] = {}
    with atomic_write():
        row = LanguageModel.objects.select_for_update().filter(pk=model.pk).first()
        if row is None:  # deleted while it was tested
            return values
        for name in ("context_tokens", "can_see_images"):
            if getattr(row, name) is None and getattr(found, name) is not None:
                values[name] = getattr(found, name)
                setattr(row, name, values[name])
        if values:
            row.save(update_fields=[*values])
    return values


def run(question: Awaitable[T]) -> T:
    """Return the answer of a coroutine. Raises CheckError."""

    async def bounded() -> T:
        async with asyncio.timeout(SECONDS):
            return await question

    try:
        return asyncio.run(bounded())
    except TimeoutError as error:
        raise CheckError(f"There was no answer within {SECONDS:.0f} seconds.") from error
    except ProviderError as error:
        reason = one_line(error.reason, 300)
        raise CheckError(f"{error} ({reason})" if reason else str(error)) from error


def store(row: ModelProvider, **values: object) -> None:
    """Store what a check found. It changes no turn, so the version of the rows stays."""
    values["checked_at"] = timezone.now()
    with atomic_write():
        ModelProvider.objects.filter(pk=row.pk).update(**values)
    for name, value in values.items():
        setattr(row, name, value)
