"""Chains of models: the assistants of a model, and those that would be left without one."""

from collections.abc import Iterable

from core.models import Assistant, AssistantModel, LanguageModel


def users_of(model: LanguageModel) -> list[Assistant]:
    """Return the assistants whose chain names a model, by name."""
    return list(Assistant.objects.filter(chain__model=model).order_by("name"))


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


def names(assistants: Iterable[Assistant]) -> str:
    """Return the names of assistants as one text."""
    return ", ".join(str(each) for each in assistants)
