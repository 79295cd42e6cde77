"""The body of ``POST /v1/chat/completions``, checked field by field ([D5]).

``null`` counts as absent. Every field is read here, passed on to the model's server, or refused by
its name: nothing is dropped. docs/http.md has a table of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings

from channels_app.asgi import chat_messages, chat_tools
from channels_app.asgi.chat_messages import Json, refused
from channels_app.client_api.acceptance import Ask
from core.lib.text import in_ascii, is_clean

MAX_STOPS = 4
MAX_WORD = 64
INTEGER = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Ask):
    """The fields of a request. ``include_usage``: a stream ends with its usage."""

    include_usage: bool = False


def read(body: Json, *, keeps_system: bool = False) -> Asked:
    """Parse ``body``. Raises RefusedError 400 or 413. Which names ``model`` may have is known when
    its sender is. ``keeps_system``: see :func:`channels_app.asgi.chat_messages.checked`.
    """
    model = model_name(body.get("model"))
    refuse_unsupported(body)
    stream = flag(body.get("stream"), "stream") or False
    tools = [] if body.get("tool_choice") == "none" else chat_tools.checked(body.get("tools"))
    return Asked(
        model=model,
        messages=chat_messages.checked(body.get("messages"), keeps_system=keeps_system),
        stream=stream,
        include_usage=include_usage(body.get("stream_options"), stream=stream),
        tools=tools,
        options=options(body, tools),
        user=sender(body.get("user")),
    )


def model_name(value: Any) -> str:
    """Check the form of a model's name ([RO2]). Raises RefusedError 400."""
    if not isinstance(value, str) or not value:
        raise refused("must be the name of a model", "model")
    return value


def refuse_unsupported(body: Json) -> None:
    """Raise RefusedError 400 for options whose effect would silently be missing."""
    for name, value in body.items():
        if value is None or name in READ_HERE or name in KEPT or name in CHECKS:
            continue
        if name in ONLY:
            allowed, words = ONLY[name]
            if not any(value == each and type(value) is type(each) for each in allowed):
                raise refused(words, name)
        elif name in INSTEAD:
            raise refused(f"is not supported: use {INSTEAD[name]}", name)
        else:
            raise refused("is not supported", in_ascii(name[:MAX_WORD]))
    if settings.LLM_PROVIDER not in ANY_FIELD:
        for name in sorted(CHECKS.keys() & body.keys() - LIBRARY_FIELDS):
            if body[name] is not None:
                raise refused("is not supported by this gateway's model provider", name)


def include_usage(value: Any, *, stream: bool) -> bool:
    """Return whether the stream ends with its usage. Raises RefusedError 400 ([RO11])."""
    if value is None:
        return False
    if not isinstance(value, dict):
        raise refused("must be an object", "stream_options")
    if not stream:
        raise refused("needs stream", "stream_options")
    return flag(value.get("include_usage"), "stream_options.include_usage") or False


def sender(value: Any) -> str:
    """Return the sender that a bridge key names; ignored with a personal key ([A10], [RO6])."""
    if value is None:
        return ""
    if not isinstance(value, str) or not is_clean(value) or len(value) > 256:
        raise refused("must be a string of at most 256 characters", "user")
    return value


def options(body: Json, tools: list[Json]) -> Json:
    """Return the options for the model's server, under the client's own names."""
    found = {
        name: check(body[name], name)
        for name, check in CHECKS.items()
        if body.get(name) is not None and (name, body[name]) != ("stop", [])
    }
    wanted = chat_tools.choice(body.get("tool_choice"), tools)
    if wanted is not None:
        found["tool_choice"] = wanted
    return found


def flag(value: Any, name: str) -> bool | None:
    """Check a boolean; None when absent."""
    if value is not None and not isinstance(value, bool):
        raise refused("must be true or false", name)
    return value


def number(value: Any, name: str, *, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refused("must be a number", name)
    if not low <= value <= high:
        raise refused(f"must be from {low:g} to {high:g}", name)
    return value


def whole(value: Any, name: str, *, low: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= INTEGER:
        raise refused(f"must be a whole number of at least {low}", name)
    return value


def stop(value: Any, name: str) -> str | list[str]:
    """Check the stop sequences: one text, or up to four."""
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or len(given) > MAX_STOPS:
        raise refused(f"must be a string or at most {MAX_STOPS} strings", name)
    for each in given:
        if not isinstance(each, str) or not each or len(each) > 1000 or not is_clean(each):
            raise refused("must be a string or a list of strings", name)
    return value if isinstance(value, str) else given


def word(value: Any, name: str) -> str:
    """Check a short name such as ``low``."""
    if not isinstance(value, str) or not value.isascii() or not 0 < len(value) <= MAX_WORD:
        raise refused("must be a short string", name)
    return value


def response_format(value: Any, name: str) -> Json:
    """Check the response format: text, any JSON, or JSON of a schema."""
    kind = value.get("type") if isinstance(value, dict) else None
    if kind in ("text", "json_object"):
        return {"type": kind}
    if kind != "json_schema":
        raise refused("must be text, json_object or json_schema", f"{name}.type")
    given = value.get("json_schema")
    if not isinstance(given, dict):
        raise refused("must be an object", f"{name}.json_schema")
    return {"type": kind, "json_schema": json_schema(given, f"{name}.json_schema")}


def json_schema(given: Json, where: str) -> Json:
    """Check the schema of an answer, with its name."""
    wanted: Json = {"name": chat_messages.name(given.get("name"), f"{where}.name")}
    if given.get("description") is not None:
        wanted["description"] = chat_messages.text(given["description"], f"{where}.description")
    if given.get("schema") is not None:
        wanted["schema"] = chat_tools.schema(given["schema"], f"{where}.schema")
    if flag(given.get("strict"), f"{where}.strict") is not None:
        wanted["strict"] = given["strict"]
    return wanted


def logit_bias(value: Any, name: str) -> dict[str, float]:
    """Check the bias of tokens: token id -> how much more or less likely."""
    if not isinstance(value, dict) or len(value) > 1024:
        raise refused("must be an object of at most 1024 tokens", name)
    for token, bias in value.items():
        if not (token.isascii() and token.isdigit()):
            raise refused("must name tokens by number", name)
        number(bias, f"{name}.{token[:20]}", low=-100, high=100)
    return value


def small(value: Any, name: str) -> Any:
    """Check any JSON of bounded size."""
    if chat_tools.too_big(value):
        raise refused("is too large or too deep", name)
    return value


CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "temperature": partial(number, low=0, high=2),
    "top_p": partial(number, low=0, high=1),
    "presence_penalty": partial(number, low=-2, high=2),
    "frequency_penalty": partial(number, low=-2, high=2),
    "max_tokens": partial(whole, low=1),
    "max_completion_tokens": partial(whole, low=1),
    "seed": partial(whole, low=-INTEGER),
    "stop": stop,
    "logit_bias": logit_bias,
    "parallel_tool_calls": flag,
    "reasoning_effort": word,
    "verbosity": word,
    "service_tier": word,
    "response_format": response_format,
    "prompt_cache_key": word,
    "prompt_cache_retention": word,
    "safety_identifier": word,
    # Of OpenAI, and of other servers: their server checks them.
    **dict.fromkeys(
        (
            *("moderation", "prediction", "prompt_cache_options", "web_search_options"),
            *("top_k", "min_p", "top_a", "typical_p", "min_tokens", "length_penalty"),
            *("repetition_penalty", "repeat_penalty", "repeat_last_n", "ignore_eos"),
            *("mirostat", "mirostat_tau", "mirostat_eta", "xtc_probability", "xtc_threshold"),
            *("dry_multiplier", "dry_base", "dry_allowed_length", "stop_token_ids"),
            *("chat_template_kwargs", "reasoning", "include_reasoning", "thinking"),
            *("enable_thinking", "thinking_budget", "think", "cache_prompt", "grammar"),
            *("json_schema", "guided_json", "guided_regex", "guided_choice", "guided_grammar"),
            "structured_outputs",
        ),
        small,
    ),
}
READ_HERE = frozenset(
    {"model", "messages", "stream", "stream_options", "tools", "tool_choice", "user"}
)
# They say how OpenAI keeps a conversation; here the gateway keeps it.
KEPT = frozenset({"store", "metadata"})
# Field -> the values that change nothing, and the error text for any other.
ONLY: dict[str, tuple[tuple[Any, ...], str]] = {
    "n": ((1,), "must be 1"),
    "logprobs": ((False,), "is not supported"),
    "top_logprobs": ((0,), "is not supported"),
    "modalities": ((["text"],), 'must be ["text"]'),
}
INSTEAD = {
    "functions": "tools",
    "function_call": "tool_choice",
    "audio": "text",
    "input": "messages, or the address /v1/responses",  # Cursor sends it for some models
}
# Providers that pass on every field; the others accept these names only.
ANY_FIELD = frozenset({"openai-compatible", "scripted"})
LIBRARY_FIELDS = frozenset(
    {
        *("temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop"),
        *("presence_penalty", "frequency_penalty", "parallel_tool_calls", "response_format"),
    }
)
