"""Chains of models: the assistants that would be left without one."""

from collections.abc import Iterable

from django.db.models import Model

from core.models import Assistant, AssistantModel, LanguageModel


def left_without(models: Iterable[LanguageModel]) -> list[Assistant]:
    """Return the assistants whose chain would be empty without these models, by name."""
    gone = {each.pk for each in models}
    left: dict[int, bool] = {}
    for assistant, model in AssistantModel.objects.values_list("assistant", "model"):
        left[assistant] = left.get(assistant, False) or model not in gone
    emptied = [assistant for assistant, has_one in left.items() if not has_one]
    return list(Assistant.objects.filter(pk__in=emptied).order_by("name"))


def without_a_usable_model() -> list[Assistant]:
    """Return the enabled assistants of whose chain no model is enabled, by name."""
    usable = AssistantModel.objects.filter(model__enabled=True, model__provider__enabled=True)
    rows = Assistant.objects.filter(enabled=True).exclude(pk__in=usable.values("assistant"))
    return list(rows.order_by("name"))


def reasons_to_stay(fixed: Iterable[Model], *, models: Iterable[LanguageModel]) -> list[str]:
    """Return why rows cannot be deleted: an assistant needs them, or the environment sets them."""
    needed = [f"the only model of the assistant {each}" for each in left_without(models)]
    return needed + [f"{each}: set by the environment" for each in fixed]
