"""Providers of models, the models, and assistants with their instructions."""

from django.db import models
from django.db.models import Q

from core.lib.encryption import decrypt
from core.lib.text import visible_line


class ModelProvider(models.Model):
    """A server or vendor of language models.

    ``from_environment``: a read-only copy of the environment's settings, whose key is not stored.
    ``offered_models``: the names that the provider listed at ``checked_at``. ``concurrency``: calls
    at once, of all processes; 0 for no limit.
    """

    class Kind(models.TextChoices):
        OPENAI_COMPATIBLE = "openai-compatible", "OpenAI-compatible server"
        OPENAI = "openai", "OpenAI"
        ANTHROPIC = "anthropic", "Anthropic"
        GOOGLE = "google", "Google Gemini"
        OLLAMA = "ollama", "Ollama"
        OPENROUTER = "openrouter", "OpenRouter"
        GROQ = "groq", "Groq"
        MISTRAL = "mistral", "Mistral"
        DEEPSEEK = "deepseek", "DeepSeek"
        ENVIRONMENT = "environment", "as the environment says"

    name = models.CharField(max_length=64, unique=True)
    kind = models.CharField(max_length=32, choices=Kind.choices, default=Kind.OPENAI_COMPATIBLE)
    base_url = models.CharField("address", max_length=500, blank=True)
    secrets = models.TextField(blank=True, editable=False, help_text="Encrypted; never shown.")
    first_token_seconds = models.PositiveIntegerField("seconds to the first token", default=60)
    idle_seconds = models.PositiveIntegerField("seconds between tokens", default=60)
    concurrency = models.PositiveIntegerField("calls at once", default=0)
    allow_private = models.BooleanField("the address may be inside the network", default=False)
    enabled = models.BooleanField(default=True)
    from_environment = models.BooleanField(default=False, editable=False)
    offered_models = models.JSONField(default=list, blank=True, editable=False)
    check_result = models.CharField(max_length=500, blank=True, editable=False)
    checked_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "model provider"
        constraints = [
            models.UniqueConstraint(
                fields=["from_environment"],
                condition=Q(from_environment=True),
                name="one_environment",
            )
        ]

    def __str__(self) -> str:
        return visible_line(self.name, 64)

    def open_secrets(self) -> dict[str, str]:
        """Return the decrypted secrets (``key``). Raises DecryptError when the key was changed."""
        return decrypt(self.secrets)


class LanguageModel(models.Model):
    """A model of a provider; ``name`` is the provider's.

    Prices are dollars for a million tokens; None: of the price list, if it knows the model.
    ``context_tokens``, ``can_see_images``: None is not known. ``offered``: people may choose it.
    """

    provider = models.ForeignKey(
        ModelProvider, on_delete=models.CASCADE, related_name="language_models"
    )
    name = models.CharField(max_length=200)
    label = models.CharField(max_length=100, blank=True, help_text="The name that people see.")
    context_tokens = models.PositiveIntegerField("context window", null=True, blank=True)
    max_output_tokens = models.PositiveIntegerField("longest answer", null=True, blank=True)
    can_call_tools = models.BooleanField("calls tools", default=True)
    can_see_images = models.BooleanField("sees images", null=True, blank=True)
    input_price = models.DecimalField(max_digits=12, decimal_places=6, null=True, blank=True)
    cached_price = models.DecimalField(max_digits=12, decimal_places=6, null=True, blank=True)
    output_price = models.DecimalField(max_digits=12, decimal_places=6, null=True, blank=True)
    offered = models.BooleanField("people may choose it", default=False)
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["provider", "name"], name="one_model_of_a_provider"),
            *(
                models.CheckConstraint(
                    condition=Q(**{f"{name}__isnull": True}) | Q(**{f"{name}__gte": 0}),
                    name=f"{name}_not_negative",
                )
                for name in ("input_price", "cached_price", "output_price")
            ),
        ]

    def __str__(self) -> str:
        return visible_line(self.label or f"{self.provider.name}: {self.name}", 200)


class ModelCircuit(models.Model):
    """The circuit breaker of a model, shared by all processes.

    closed (no ``opened_at``) -> open, after failures in a row; one request at a time tries whether
    it answers again, from ``probe_at`` on -> closed by an answer. ``openings`` counts; ``told_at``:
    when the owner was told that it is open.
    """

    model = models.OneToOneField(
        LanguageModel, on_delete=models.CASCADE, primary_key=True, related_name="circuit"
    )
    failures = models.PositiveIntegerField(default=0)
    failed_at = models.DateTimeField(null=True, blank=True)
    opened_at = models.DateTimeField(null=True, blank=True)
    probe_at = models.DateTimeField(null=True, blank=True)
    openings = models.PositiveBigIntegerField(default=0)
    code = models.CharField(max_length=40, blank=True)
    reason = models.CharField(max_length=500, blank=True)
    told_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.model_id} ({'open' if self.opened_at else 'closed'})"


class Assistant(models.Model):
    """A persona: instructions, a chain of models, and limits. One is the default.

    Empty ``instructions``: those of the gateway. ``tools``: the names of the tools that it may use;
    None for all. ``offered``: the people that may choose it, besides the owner.
    ``picture``: a data URL. ``version`` counts the versions of the instructions
    (``AssistantVersion``).
    """

    class Offered(models.TextChoices):
        EVERYBODY = "everybody", "anyone may choose it"
        LISTED = "listed", "the people below may choose it"
        NOBODY = "nobody", "only where it is bound"

    name = models.CharField(max_length=64, unique=True)
    slug = models.SlugField(max_length=64, unique=True, help_text="Its name in commands and APIs.")
    picture = models.TextField(blank=True)
    instructions = models.TextField(blank=True)
    version = models.PositiveIntegerField(default=1, editable=False)
    temperature = models.FloatField(null=True, blank=True)
    max_output_tokens = models.PositiveIntegerField("longest answer", null=True, blank=True)
    tools = models.JSONField(null=True, blank=True)
    languages = models.JSONField(default=list, blank=True, help_text="Codes, as in de or pt-BR.")
    is_default = models.BooleanField("the default", default=False)
    offered = models.CharField(max_length=16, choices=Offered.choices, default=Offered.EVERYBODY)
    people = models.ManyToManyField("core.User", blank=True, related_name="+")
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["is_default"], condition=Q(is_default=True), name="one_default_assistant"
            )
        ]

    def __str__(self) -> str:
        return visible_line(self.name, 64)


class AssistantModel(models.Model):
    """A model's place in the chain of an assistant: the first that works answers."""

    assistant = models.ForeignKey(Assistant, on_delete=models.CASCADE, related_name="chain")
    model = models.ForeignKey(LanguageModel, on_delete=models.CASCADE, related_name="chains")
    position = models.PositiveSmallIntegerField(default=1)

    class Meta:
        ordering = ("position", "id")
        constraints = [
            models.UniqueConstraint(fields=["assistant", "model"], name="one_place_in_a_chain")
        ]

    def __str__(self) -> str:
        return f"{self.assistant_id}: {self.position}. {self.model_id}"


class AssistantVersion(models.Model):
    """The instructions of an assistant as they were: a turn keeps those that it began with."""

    assistant = models.ForeignKey(Assistant, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    instructions = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["assistant", "number"], name="one_assistant_version")
        ]

    def __str__(self) -> str:
        return f"{self.assistant_id} v{self.number}"


class AssistantBinding(models.Model):
    """Where an assistant answers: for an API key, a chat of an account, a person, or an account.

    Exactly one is set; ``chat`` narrows ``account`` to one group. ``key_id``: the primary key of
    the API key; 0 for none.
    """

    assistant = models.ForeignKey(Assistant, on_delete=models.CASCADE, related_name="bindings")
    account = models.ForeignKey(
        "core.ChannelAccount", null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    chat = models.CharField("group", max_length=128, blank=True)
    user = models.ForeignKey(
        "core.User", null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    key_id = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(account__isnull=False, user__isnull=True, key_id=0)
                | Q(account__isnull=True, user__isnull=False, key_id=0, chat="")
                | Q(account__isnull=True, user__isnull=True, key_id__gt=0, chat=""),
                name="binding_of_one_thing",
            ),
            models.UniqueConstraint(
                fields=["account", "chat"],
                condition=Q(account__isnull=False),
                name="one_binding_of_a_chat",
            ),
            models.UniqueConstraint(
                fields=["user"], condition=Q(user__isnull=False), name="one_binding_of_a_person"
            ),
            models.UniqueConstraint(
                fields=["key_id"], condition=Q(key_id__gt=0), name="one_binding_of_a_key"
            ),
        ]

    def __str__(self) -> str:
        where = f"account {self.account_id} {self.chat}" if self.account_id else ""
        return where or (f"person {self.user_id}" if self.user_id else f"key {self.key_id}")
