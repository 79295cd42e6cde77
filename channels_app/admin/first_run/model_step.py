"""The first step: a provider and a model, tried before they are stored."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.utils.translation import gettext, gettext_lazy, gettext_noop

from allowlist import audit
from channels_app.admin import addresses
from channels_app.admin.language_models import kinds
from channels_app.owner import setup_steps
from core.database.transactions import atomic_write
from core.lib.encryption import DecryptError, decrypt, encrypt
from core.models import Assistant, AssistantModel, LanguageModel, ModelProvider, User
from core.providers import catalogue, examine, vendors
from core.providers.examine import Examination
from core.providers.listing import FoundOllama

Kind = ModelProvider.Kind
NAME_CHARACTERS = 64
NO_MODEL = gettext_lazy("Choose a model.")
# The fields of a model whose findings belong to a field of this form.
FIELDS = {"name": "model"}


@dataclass(frozen=True, slots=True)
class KindChoice:
    """A kind of provider on the page: its name, and which fields it has."""

    value: Kind
    name: str
    has_address: bool = False
    has_key: bool = True

    @property
    def title(self) -> str:
        """Return the name that the owner reads."""
        return gettext(self.name)

    @property
    def own_address(self) -> str:
        """Return the address that an empty one stands for, where the page has an address."""
        return vendors.VENDORS[self.value].address if self.has_address else ""

    @property
    def key_page(self) -> str:
        """Return the address at which its keys are made; empty where a key is not needed."""
        page = kinds.KINDS[self.value].key_page
        return f"https://{page}" if page else ""

    @property
    def needs_key(self) -> bool:
        return vendors.VENDORS[self.value].needs_key


KINDS: Sequence[KindChoice] = (
    KindChoice(Kind.OLLAMA, "Ollama", has_address=True, has_key=False),
    KindChoice(Kind.OPENAI, "OpenAI"),
    KindChoice(Kind.ANTHROPIC, "Anthropic"),
    KindChoice(Kind.GOOGLE, "Google Gemini"),
    KindChoice(Kind.OPENROUTER, "OpenRouter"),
    KindChoice(Kind.MISTRAL, "Mistral"),
    KindChoice(Kind.DEEPSEEK, "DeepSeek"),
    KindChoice(Kind.GROQ, "Groq"),
    KindChoice(Kind.OPENAI_COMPATIBLE, gettext_noop("Another server"), has_address=True),
)
BY_KIND: dict[str, KindChoice] = {each.value: each for each in KINDS}


class ModelStepForm(forms.Form):
    """A provider and a model. The key is write-only; an empty one keeps the stored key."""

    kind = forms.ChoiceField(choices=[(each.value, each.name) for each in KINDS])
    base_url = forms.CharField(max_length=500, required=False)
    allow_private = forms.BooleanField(required=False)
    key = forms.CharField(max_length=4096, required=False)
    model = forms.CharField(max_length=200, required=False)

    def clean_base_url(self) -> str:
        """Refuse a path that belongs to a single call; leave out the slash at the end. The field
        is hidden, with what was typed before, where the kind of provider has no address.
        """
        kind = BY_KIND.get(str(self.cleaned_data.get("kind")))
        if kind is None or not kind.has_address:
            return ""
        address = str(self.cleaned_data["base_url"]).rstrip("/")
        if words := addresses.wrong_path(address):
            raise forms.ValidationError(words)
        return address

    def clean(self) -> dict[str, Any]:
        """Check what the kind of provider needs; ``self.provider`` is the provider as given."""
        data = super().clean() or {}
        kind = BY_KIND.get(str(data.get("kind")))
        if kind is None or self.errors:
            return data
        if not kind.has_address:
            data["allow_private"] = False
        if not kind.has_key:
            data["key"] = ""
        self.provider, key = provider_of(data)
        wrong = vendors.problems(catalogue.provider_info(self.provider), key)
        for name, sentence in wrong.items():
            self.add_error(name if name in self.fields else None, sentence)
        return data


def provider_of(data: dict[str, Any]) -> tuple[ModelProvider, str]:
    """Return the provider and its key; the same kind and address updates an existing provider."""
    address = data["base_url"]
    rows = ModelProvider.objects.filter(from_environment=False, kind=data["kind"])
    known = rows.filter(base_url__in=(address, f"{address}/")).order_by("id").first()
    provider = known or ModelProvider(kind=data["kind"], base_url=address, name=name_of(data))
    provider.allow_private = data["allow_private"]
    provider.enabled = True
    key = data["key"]
    if key:
        provider.secrets = encrypt({"key": key})
        return provider, key
    try:
        return provider, decrypt(provider.secrets).get("key", "")
    except DecryptError:
        provider.secrets = ""
        return provider, ""


def name_of(data: dict[str, Any]) -> str:
    """Return a free name for a provider: its kind or host, with a number if that is taken."""
    wanted = BY_KIND[data["kind"]].name
    if data["kind"] == Kind.OPENAI_COMPATIBLE:
        wanted = urlsplit(data["base_url"]).netloc[: NAME_CHARACTERS - 5] or wanted
    taken = set(ModelProvider.objects.values_list("name", flat=True))
    names = (wanted, *(f"{wanted} {number}" for number in range(2, len(taken) + 3)))
    return next(each for each in names if each not in taken)


def store(
    provider: ModelProvider, name: str, facts: dict[str, Any], *, owner: User, now: datetime
) -> LanguageModel:
    """Store a provider and a model; put the model at the head of the default assistant's chain.

    ``facts``: fields of the model that the provider has told.
    """
    catalogue.current()  # writes the default assistant, unless it is there
    with atomic_write():
        added: list[ModelProvider | LanguageModel] = [] if provider.pk else [provider]
        provider.save()
        model = LanguageModel.objects.filter(provider=provider, name=name).first()
        if model is None:
            model = LanguageModel(provider=provider, name=name)
            added.append(model)
        for field, value in {**facts, "enabled": True}.items():
            setattr(model, field, value)
        model.save()
        assistant, before, after = put_first(model)
        for row in added:
            audit.record_row(row, "added", by=owner, data={"name": row.name}, now=now)
        chain: dict[str, object] = {"chain": [before, after]}
        audit.record_row(assistant, "changed", by=owner, data=chain, now=now)
    return model


def put_first(model: LanguageModel) -> tuple[Assistant, list[str], list[str]]:
    """Put a model at the head of the default assistant's chain; return the assistant and the chain
    before and after. The embedded model leaves the chain when it was the only one.
    """
    assistant = Assistant.objects.select_for_update().get(is_default=True)
    chain = [each.model for each in assistant.chain.select_related("model__provider")]
    rest = [each for each in chain if each.pk != model.pk]
    if len(rest) == 1 and setup_steps.is_placeholder(rest[0]):
        rest = []
    assistant.chain.all().delete()
    after = [model, *rest]
    for position, each in enumerate(after, start=1):
        AssistantModel.objects.create(assistant=assistant, model=each, position=position)
    return assistant, [str(each) for each in chain], [str(each) for each in after]


def first_values(found: FoundOllama | None) -> dict[str, Any]:
    """Return the initial values of the form: a local server that was found, else nothing."""
    if found is None:
        return {"kind": Kind.OPENAI}
    return {"kind": Kind.OLLAMA, "base_url": found.base_url, "allow_private": bool(found.base_url)}


def listed(form: ModelStepForm) -> list[str]:
    """Return the names of the provider's models; empty with the errors in ``form``."""
    if not form.is_valid():
        return []
    examination = asyncio.run(examine.examine(catalogue.provider_info(form.provider)))
    add_errors(form, examination)
    return [each.name for each in examination.models] if examination.ok else []


def add_errors(form: ModelStepForm, examination: Examination) -> None:
    """Show what is wrong beside its field; below the form when the page does not show that."""
    kind = BY_KIND[form.provider.kind]
    shown = {"model", *(("base_url",) if kind.has_address else ())}
    shown |= {"key"} if kind.has_key else set()
    for each in examination.findings:
        if each.is_error:
            name = FIELDS.get(each.field, each.field)
            form.add_error(name if name in shown else None, each.text)


def try_and_save(form: ModelStepForm, *, owner: User, now: datetime) -> bool:
    """Try the model and store it at the head of the chain; False with the errors in ``form``."""
    if not form.is_valid():
        return False
    name = form.cleaned_data["model"]
    if not name:
        form.add_error("model", str(NO_MODEL))
        return False
    examination = asyncio.run(examine.examine(catalogue.provider_info(form.provider), name))
    add_errors(form, examination)
    if not examination.ok:
        return False
    provider, _ = provider_of(form.cleaned_data)  # anew: it may have been changed meanwhile
    provider.offered_models = [each.name for each in examination.models]
    provider.checked_at, provider.check_result = now, ""
    store(provider, name, facts_of(examination), owner=owner, now=now)
    return True


def facts_of(examination: Examination) -> dict[str, Any]:
    """Return the fields of a model that its examination has found out."""
    names = ("context_tokens", "can_call_tools", "can_see_images")
    found = {name: getattr(examination, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}
