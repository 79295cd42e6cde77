"""The texts of the admin about each kind of provider, and its fields."""

from dataclasses import dataclass

from core.models import ModelProvider

Kind = ModelProvider.Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class KindText:
    """A kind of provider. ``address``: prefilled; None where the kind has no address of its own.

    ``key_page``: where its keys are made; empty where a key is not needed.
    """

    kind: Kind
    description: str
    address: str | None = None
    address_help: str = ""
    key_page: str = ""

    @property
    def needs_key(self) -> bool:
        return bool(self.key_page)

    @property
    def label(self) -> str:
        return str(self.kind.label)


KINDS: dict[str, KindText] = {
    each.kind: each
    for each in (
        KindText(
            kind=Kind.OLLAMA,
            description="Models on your own machine or network, free of charge.",
            address="http://127.0.0.1:11434",
            address_help="Where Ollama listens; 11434 is its usual port.",
        ),
        KindText(
            kind=Kind.OPENAI_COMPATIBLE,
            description="Any other server with OpenAI's interface: llama.cpp, vLLM, LM Studio, a "
            "proxy of your own.",
            address="",
            address_help="As in http://192.168.1.20:8080/v1: most servers' addresses end in /v1.",
        ),
        KindText(
            kind=Kind.OPENAI,
            description="The GPT models of OpenAI.",
            key_page="platform.openai.com/api-keys",
        ),
        KindText(
            kind=Kind.ANTHROPIC,
            description="The Claude models of Anthropic.",
            key_page="console.anthropic.com/settings/keys",
        ),
        KindText(
            kind=Kind.GOOGLE,
            description="The Gemini models of Google.",
            key_page="aistudio.google.com/apikey",
        ),
        KindText(
            kind=Kind.OPENROUTER,
            description="Models of many vendors with one key.",
            key_page="openrouter.ai/settings/keys",
        ),
        KindText(
            kind=Kind.GROQ,
            description="Open models, answered fast.",
            key_page="console.groq.com/keys",
        ),
        KindText(
            kind=Kind.MISTRAL,
            description="The models of Mistral AI.",
            key_page="console.mistral.ai/api-keys",
        ),
        KindText(
            kind=Kind.DEEPSEEK,
            description="The models of DeepSeek.",
            key_page="platform.deepseek.com/api_keys",
        ),
    )
}
