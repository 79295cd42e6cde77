"""A snapshot of models, assistants, budgets, rules of tools and search, kept by each process.

Every change raises ``Installation.models_version`` in its transaction; :func:`current` compares it
and reads the rows again after a change, so that it holds from the next turn on in every process.
The settings of the environment are a provider and a model of their own (:func:`write_environment`).
"""

import hashlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from django.conf import settings
from django.db.models import BigIntegerField, Exists, F, Model, Value
from django.db.models.functions import Greatest
from django.db.models.signals import m2m_changed, post_delete, post_save

from core.database.queries import Values
from core.database.transactions import atomic_write
from core.models import (
    Assistant,
    AssistantBinding,
    AssistantModel,
    AssistantVersion,
    Budget,
    Installation,
    LanguageModel,
    McpServer,
    McpTool,
    ModelCircuit,
    ModelProvider,
    SearchProvider,
    ToolRule,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")
ENVIRONMENT = "Environment"
EMBEDDED = "Embedded model"
DEFAULT_ASSISTANT = "Assistant"
DEFAULT_SLUG = "assistant"
# Rows that change the snapshot, or that of ``core.tools.mcp.offered``, which has its version.
# Circuits change it by `changed` alone: not every failure does.
ROWS = (
    ModelProvider,
    LanguageModel,
    Assistant,
    AssistantModel,
    AssistantBinding,
    Budget,
    SearchProvider,
    ToolRule,
    McpServer,
    McpTool,
)
MANY = (Assistant.people, McpServer.people, McpServer.assistants)

MOST_READS = 5  # until no change comes in between

VERSION = Values(lambda: Installation.objects.filter(id=1).values_list("models_version"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderInfo:
    """A row of ``ModelProvider``. ``secrets`` are encrypted."""

    id: int
    name: str
    kind: str
    base_url: str
    secrets: str
    first_token_seconds: float
    idle_seconds: float
    concurrency: int
    allow_private: bool
    from_environment: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitInfo:
    """The open circuit of a model: since when, why, and when it is tried again."""

    opened_at: datetime
    probe_at: datetime | None
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """An enabled model of an enabled provider. Prices are dollars for a million tokens.

    ``context_tokens`` and ``max_output_tokens`` are those of the row, else of the settings.
    """

    id: int
    provider: ProviderInfo
    name: str
    label: str
    context_tokens: int
    max_output_tokens: int
    can_call_tools: bool
    can_see_images: bool | None
    input_price: Decimal | None
    cached_price: Decimal | None
    output_price: Decimal | None
    offered: bool
    is_embedded: bool
    failures: int = 0
    circuit: CircuitInfo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantInfo:
    """An enabled assistant. ``chain``: ids of models, the first that works answers.

    ``tools``: names, None for all. ``people`` may choose it where ``offered`` is "listed".
    ``picture_hash`` changes with the picture; empty for none.
    """

    id: int
    slug: str
    name: str
    instructions: str
    version: int
    chain: tuple[int, ...]
    temperature: float | None
    max_output_tokens: int | None
    tools: frozenset[str] | None
    languages: tuple[str, ...]
    offered: str
    people: frozenset[int]
    picture_hash: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetInfo:
    """An enabled budget; see ``core.models.Budget``. 0: not limited to one."""

    id: int
    unit: str
    period: str
    limit: int
    each_person: bool
    user_id: int
    key_id: int
    account_id: int
    assistant_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchInfo:
    """A row of ``SearchProvider``. ``secrets`` are encrypted."""

    kind: str
    name: str
    base_url: str
    allow_private: bool
    secrets: str
    language: str
    safe_search: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRuleInfo:
    """A row of ``ToolRule``; 0 and "": for all."""

    tool: str
    ask: str
    user_id: int
    account_id: int
    chat: str
    assistant_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Everything at one version. ``default``: the id of the default assistant.

    Bindings: assistant ids by API key, (account, chat), person and account. ``search``: the enabled
    services that search the web, in order.
    """

    version: int
    models: Mapping[int, ModelInfo]
    assistants: Mapping[int, AssistantInfo]
    default: int
    of_key: Mapping[int, int] = field(default_factory=dict)
    of_chat: Mapping[tuple[int, str], int] = field(default_factory=dict)
    of_person: Mapping[int, int] = field(default_factory=dict)
    of_account: Mapping[int, int] = field(default_factory=dict)
    budgets: tuple[BudgetInfo, ...] = ()
    search: tuple[SearchInfo, ...] = ()
    tool_rules: tuple[ToolRuleInfo, ...] = ()

    def of_run(self, assistant_id: int) -> AssistantInfo:
        """Return the assistant of a run; the default one where it is gone, or was never chosen."""
        return self.assistants.get(assistant_id) or self.assistants[self.default]

    def environment(self) -> ModelInfo | None:
        return next((each for each in self.models.values() if each.provider.from_environment), None)

    def chain_of(self, assistant_id: int, *, first: int = 0) -> tuple[ModelInfo, ...]:
        """Return the usable models of an assistant in order, ``first`` before them if it is one.

        Where none of them is enabled: those of the default assistant, else the environment's.
        """
        for chain in (
            (first, *self.of_run(assistant_id).chain),
            self.assistants[self.default].chain,
        ):
            found = tuple(self.models[each] for each in dict.fromkeys(chain) if each in self.models)
            if found:
                return found
        environment = self.environment()
        return () if environment is None else (environment,)


def window_of(models: Sequence[ModelInfo]) -> int:
    """Return the context window, in tokens, that every model of a chain has."""
    return min((each.context_tokens for each in models), default=settings.LLM_CONTEXT_TOKENS)


class Kept:
    """The snapshot of this process, and the settings that it was made with.

    A process writes its environment once: of two machines with different ones the last to start
    decides what is shown.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: Catalogue | None = None
        self._written: object = None

    def get(self) -> Catalogue:
        """Return the snapshot of the database's version. May block on the database."""
        set_up = environment_values()
        known = self._known
        if known is not None and self._written == set_up and known.version == version():
            return known
        # Not under the lock: it waits for other writers, and those ask for the snapshot.
        if self._written != set_up or not is_environment_there():
            write_environment()
            self._written, self._known = set_up, None
        with self._lock:
            known = self._known
            if known is None or known.version != version():
                self._known = known = read_whole()
            return known


kept = Kept()


def current() -> Catalogue:
    """Return the catalogue as the database has it now: one small query, more after a change."""
    return kept.get()


def version() -> int:
    """Return the version of the rows; -1 before the environment was written."""
    rows = VERSION()
    return rows[0][0] if rows else -1


def changed() -> None:
    """Raise the version, to the time in microseconds, in the transaction of the change."""
    now = int(time.time() * 1_000_000)
    raised = Greatest(F("models_version") + 1, Value(now, output_field=BigIntegerField()))
    if not Installation.objects.filter(id=1).update(models_version=raised):
        Installation.objects.get_or_create(id=1, defaults={"models_version": now})


def read_whole() -> Catalogue:
    """Return all rows at one version, without a transaction, which waits for writers on SQLite."""
    for _ in range(MOST_READS):
        number = version()
        found = read(number)
        if version() == number:
            break
    return found


def read(number: int) -> Catalogue:
    """Return the snapshot of all rows, as version ``number``."""
    rows = LanguageModel.objects.filter(enabled=True, provider__enabled=True)
    circuits = {each.pk: each for each in ModelCircuit.objects.all()}
    models = {
        row.pk: model_info(row, circuits.get(row.pk))
        for row in rows.select_related("provider").order_by("id")
    }
    assistants = {
        row.pk: assistant_info(row)
        for row in Assistant.objects.prefetch_related("chain", "people").order_by("id")
        if row.enabled or row.is_default
    }
    default = Assistant.objects.filter(is_default=True).values_list("pk", flat=True)[0]
    bindings = list(AssistantBinding.objects.filter(assistant__in=assistants))
    return Catalogue(
        version=number,
        models=models,
        assistants=assistants,
        default=default,
        of_key={row.key_id: row.assistant_id for row in bindings if row.key_id},
        of_chat={
            (row.account_id, row.chat): row.assistant_id
            for row in bindings
            if row.account_id and row.chat
        },
        of_person={row.user_id: row.assistant_id for row in bindings if row.user_id},
        of_account={
            row.account_id: row.assistant_id for row in bindings if row.account_id and not row.chat
        },
        budgets=tuple(budget_info(row) for row in Budget.objects.filter(enabled=True)),
        search=tuple(search_info(row) for row in SearchProvider.objects.filter(enabled=True)),
        tool_rules=tuple(tool_rule_info(row) for row in ToolRule.objects.order_by("id")),
    )


def of_row(kind: type[T], row: Model, **others: Any) -> T:
    """Return a row as a ``kind``, by the names of its fields: 0 for the id of no other row. The
    fields in ``others`` have other values than the row.
    """
    values = {
        each.name: getattr(row, each.name) for each in fields(kind) if each.name not in others
    }
    ids = [name for name in values if name == "id" or name.endswith("_id")]
    return kind(**values | {name: values[name] or 0 for name in ids}, **others)


provider_info = partial(of_row, ProviderInfo)
budget_info = partial(of_row, BudgetInfo)
search_info = partial(of_row, SearchInfo)
tool_rule_info = partial(of_row, ToolRuleInfo)


def model_info(row: LanguageModel, circuit: ModelCircuit | None) -> ModelInfo:
    """Return a model's row with its provider's and its circuit's."""
    is_open = circuit is not None and circuit.opened_at is not None
    return of_row(
        ModelInfo,
        row,
        provider=provider_info(row.provider),
        label=row.label or row.name,
        context_tokens=row.context_tokens or settings.LLM_CONTEXT_TOKENS,
        max_output_tokens=row.max_output_tokens or settings.LLM_MAX_OUTPUT_TOKENS,
        is_embedded=row.provider.from_environment and settings.LLM_IS_EMBEDDED,
        failures=circuit.failures if circuit is not None else 0,
        circuit=of_row(CircuitInfo, circuit) if circuit is not None and is_open else None,
    )


def assistant_info(row: Assistant) -> AssistantInfo:
    """Return an assistant's row, with its chain and people."""
    return of_row(
        AssistantInfo,
        row,
        chain=tuple(each.model_id for each in row.chain.all()),
        tools=None if row.tools is None else frozenset(row.tools),
        languages=tuple(row.languages),
        people=frozenset(each.pk for each in row.people.all()),
        picture_hash=picture_hash(row.picture),
    )


def picture_hash(picture: str) -> str:
    """Return a short hash of a picture's data URL; empty for none."""
    return hashlib.sha256(picture.encode()).hexdigest()[:16] if picture else ""


def environment_values() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of the provider and of the model that the environment sets."""
    plain = settings.LLM_PROVIDER == "openai-compatible"
    provider = {
        "name": EMBEDDED if settings.LLM_IS_EMBEDDED else ENVIRONMENT,
        "kind": ModelProvider.Kind.OPENAI_COMPATIBLE if plain else ModelProvider.Kind.ENVIRONMENT,
        # The embedded server has another port after each start.
        "base_url": settings.LLM_BASE_URL if plain and not settings.LLM_IS_EMBEDDED else "",
        "first_token_seconds": settings.LLM_FIRST_TOKEN_SECONDS,
        "idle_seconds": settings.LLM_IDLE_SECONDS,
        "allow_private": True,
        "enabled": True,
        "secrets": "",
    }
    model = {
        "name": settings.LLM_MODEL if plain else settings.LLM_PROVIDER,
        "context_tokens": settings.LLM_CONTEXT_TOKENS,
        "max_output_tokens": settings.LLM_MAX_OUTPUT_TOKENS,
        "can_call_tools": not settings.LLM_IS_EMBEDDED,
        "enabled": True,
    }
    return provider, model


def is_environment_there() -> bool:
    """Return whether there are a row of the environment and a default assistant."""
    default = Assistant.objects.filter(is_default=True)
    return (
        version() >= 0
        and LanguageModel.objects.filter(Exists(default), provider__from_environment=True).exists()
    )


def is_environment_written() -> bool:
    """Return whether the environment's rows are stored as they are set."""
    provider, model = environment_values()
    of_provider = {f"provider__{name}": value for name, value in provider.items()}
    rows = LanguageModel.objects.filter(provider__from_environment=True, **model, **of_provider)
    return is_environment_there() and rows.exists()


def write_environment() -> None:
    """Store the environment's provider and model, and a default assistant, unless they are.

    The rows keep their ids when the environment changes: chains that name them go on.
    """
    if is_environment_written():
        return
    provider, model = environment_values()
    with atomic_write(joins=True):
        changed()  # a row that only one process has at a time
        if is_environment_written():
            return
        row, _ = ModelProvider.objects.update_or_create(from_environment=True, defaults=provider)
        only = row.language_models.order_by("id").first() or LanguageModel(provider=row)
        for name, value in model.items():
            setattr(only, name, value)
        only.save()
        if not Assistant.objects.filter(is_default=True).exists():
            assistant = Assistant.objects.create(
                name=DEFAULT_ASSISTANT, slug=DEFAULT_SLUG, is_default=True
            )
            AssistantVersion.objects.create(assistant=assistant, number=1)
            AssistantModel.objects.create(assistant=assistant, model=only)


def connect_signals() -> None:
    """Raise the version after each change of a row by the ORM."""

    def bump(**_: object) -> None:
        changed()

    for row in ROWS:
        for signal in (post_save, post_delete):
            signal.connect(bump, sender=row, weak=False, dispatch_uid=f"catalogue {row.__name__}")
    for many in MANY:
        m2m_changed.connect(bump, sender=many.through, weak=False)
