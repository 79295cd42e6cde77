"""The body of ``POST /v1/messages``, checked field by field.

``null`` counts as absent. Every field is read here, passed on to the model's server, or refused by
its name. docs/http.md has a table of them.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings

from channels_app.asgi import chat_messages, chat_tools
from channels_app.asgi.chat_messages import Json, refused
from channels_app.client_api.acceptance import Ask
from channels_app.client_api.anthropic import content
from channels_app.client_api.openai import fields as common
from core.lib.text import in_ascii, is_clean
from core.lib.tokens import EACH_TEXT, estimate

MAX_SENDER = 1024  # clients put JSON into it; a bridge's sender is shorter
EFFORTS = {"low": "low", "medium": "medium", "high": "", "xhigh": "xhigh", "max": "xhigh"}
THINKING = ("enabled", "adaptive", "between_tools", "disabled")
PICTURE_TOKENS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Ask):
    """The fields of a request. ``shows_thinking``: the client asked for thinking blocks."""

    shows_thinking: bool = False


def read(body: Json, *, counts: bool = False) -> Asked:
    """Parse ``body``; ``counts``: only its tokens are asked for. Raises RefusedError 400 or 413.

    Which names ``model`` may have is known when its sender is.
    """
    model = common.model_name(body.get("model"))
    refuse_unsupported(body)
    if not counts and body.get("max_tokens") is None:
        raise refused("is required", "max_tokens")
    stream = common.flag(body.get("stream"), "stream") or False
    offered = chat_tools.converted(body.get("tools"), tool)
    chosen = choice(body.get("tool_choice"), offered)
    return Asked(
        model=model,
        messages=content.conversation(body.get("system"), body.get("messages")),
        stream=stream,
        tools=[] if chosen == "none" else offered,
        options=options(body, offered, chosen),
        user=sender(body.get("metadata")),
        shows_thinking=shows_thinking(body.get("thinking")),
    )


def refuse_unsupported(body: Json) -> None:
    """Raise RefusedError 400 for fields whose effect would silently be missing."""
    for name, value in body.items():
        if value is None or name in READ_HERE or name in NO_EFFECT:
            continue
        if name in ONLY:
            if value not in ONLY[name]:
                raise refused(f"must be {' or '.join(ONLY[name])}", name)
        else:
            raise refused("is not supported", in_ascii(name[: common.MAX_WORD]))
    for number, each in enumerate(edits_in(body.get("context_management"))):
        kind = each.get("type") if isinstance(each, dict) else None
        # Thinking is never sent to the model again, so there is none to clear.
        if not (isinstance(kind, str) and kind.startswith("clear_thinking_")):
            text = f"is not supported ({content.tag(kind)})"
            raise refused(text, f"context_management.edits[{number}].type")


def edits_in(value: Any) -> list[Any]:
    """Return the list ``edits`` of ``context_management``; empty without the object."""
    if value is None:
        return []
    found = value.get("edits") if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise refused("must be a list", "context_management.edits")
    return found


def sender(value: Any) -> str:
    """Return ``metadata.user_id``, the sender that a bridge names; other keys ignore it."""
    if value is None:
        return ""
    given = value.get("user_id") if isinstance(value, dict) else value
    if given is None:
        return ""
    if not isinstance(given, str) or not is_clean(given) or len(given) > MAX_SENDER:
        text = f"must be a string of at most {MAX_SENDER} characters"
        raise refused(text, "metadata.user_id")
    return given


def shows_thinking(value: Any) -> bool:
    """Return whether the answer has thinking blocks. Raises RefusedError 400."""
    if value is None:
        return False
    kind = value.get("type") if isinstance(value, dict) else None
    if kind not in THINKING:
        raise refused(f"must be {', '.join(THINKING)}", "thinking.type")
    if kind == "enabled":
        common.whole(value.get("budget_tokens"), "thinking.budget_tokens", low=1)
    display = value.get("display")
    if display not in (None, "summarized", "omitted"):
        raise refused("must be summarized or omitted", "thinking.display")
    return bool(kind != "disabled" and display != "omitted")


def tool(value: Any, field: str) -> Json:
    """Convert one tool of the client; those of Anthropic's servers are refused."""
    if not isinstance(value, dict):
        raise refused("must be an object", field)
    kind = value.get("type")
    if kind not in (None, "custom"):
        text = "a tool needs an input_schema"
        if str(kind).startswith(("web_search", "web_fetch")):
            text = "the assistant has tools of its own for the web"
        raise refused(f"({content.tag(kind)}) is not supported: {text}", f"{field}.type")
    if value.get("allowed_callers") not in (None, ["direct"]):
        raise refused('must be ["direct"]', f"{field}.allowed_callers")
    function: Json = {
        "name": chat_messages.name(value.get("name"), f"{field}.name"),
        "parameters": chat_tools.schema(value.get("input_schema"), f"{field}.input_schema"),
    }
    if value.get("description") is not None:
        said = chat_messages.text(value["description"], f"{field}.description")
        function["description"] = said
    if common.flag(value.get("strict"), f"{field}.strict") is not None:
        function["strict"] = value["strict"]
    return {"type": "function", "function": function}


def choice(value: Any, offered: list[Json]) -> str | Json | None:
    """Return the client's ``tool_choice`` in OpenAI's form; None leaves the choice to the model."""
    if value is None:
        return None
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "none":
        return "none"
    if kind not in ("auto", "any", "tool"):
        raise refused("must be auto, any, tool or none", "tool_choice.type")
    if kind == "auto":
        return None
    name = {"type": "function", "function": {"name": value.get("name")}}
    return chat_tools.choice("required" if kind == "any" else name, offered)


def options(body: Json, offered: list[Json], chosen: str | Json | None) -> Json:
    """Return the options for the model's server, under the names of chat completions."""
    found: Json = {
        name: check(body[name], name)
        for name, check in CHECKS.items()
        if body.get(name) is not None
    }
    if (stops := body.get("stop_sequences")) is not None:
        if not isinstance(stops, list):
            raise refused("must be a list of strings", "stop_sequences")
        if stops:
            found["stop"] = common.stop(stops, "stop_sequences")
    found |= output(body)
    if chosen not in (None, "none"):
        found["tool_choice"] = chosen
    given = body.get("tool_choice") or {}
    single = common.flag(
        given.get("disable_parallel_tool_use"), "tool_choice.disable_parallel_tool_use"
    )
    if single and offered and chosen != "none":
        found["parallel_tool_calls"] = False
    if settings.LLM_PROVIDER not in common.ANY_FIELD:
        for name in sorted(found.keys() - common.LIBRARY_FIELDS - {"tool_choice"}):
            text = "is not supported by this gateway's model provider"
            raise refused(text, THEIR_NAMES.get(name, name))
    return found


def output(body: Json) -> Json:
    """Return the options of ``output_config``: effort (``high`` is the default) and format."""
    config = body.get("output_config")
    if config is None:
        config = {}
    if not isinstance(config, dict):
        raise refused("must be an object", "output_config")
    for name in config.keys() - {"effort", "format"}:
        raise refused("is not supported", f"output_config.{name[: common.MAX_WORD]}")
    found: Json = {}
    effort = config.get("effort")
    if effort is not None:
        if not isinstance(effort, str) or effort not in EFFORTS:
            raise refused(f"must be {', '.join(EFFORTS)}", "output_config.effort")
        found |= {"reasoning_effort": EFFORTS[effort]} if EFFORTS[effort] else {}
    name = "output_config.format" if config.get("format") is not None else "output_format"
    wanted = config.get("format") or body.get("output_format")
    if wanted is not None:
        if not isinstance(wanted, dict) or wanted.get("type") != "json_schema":
            raise refused("must be json_schema", f"{name}.type")
        schema = chat_tools.schema(wanted.get("schema"), f"{name}.schema")
        shape = {"name": "answer", "schema": schema, "strict": True}
        found["response_format"] = {"type": "json_schema", "json_schema": shape}
    return found


def tokens(asked: Asked) -> int:
    """Return the estimated tokens of messages and tools, without the gateway's own."""
    total = 0
    for each in asked.messages:
        said = each["content"]
        shown = [{"type": "text", "text": said}] if isinstance(said, str) else said
        for part in shown:
            is_text = part["type"] == "text"
            total += estimate(part["text"]) if is_text else PICTURE_TOKENS + EACH_TEXT
        for call in each.get("tool_calls", []):
            total += estimate(call["function"]["name"]) + estimate(call["function"]["arguments"])
    for each in asked.tools:
        function = each["function"]
        total += estimate(function["name"]) + estimate(function.get("description", ""))
        total += estimate(json.dumps(function["parameters"]))
    return total


CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "temperature": partial(common.number, low=0, high=1),
    "top_p": partial(common.number, low=0, high=1),
    "top_k": partial(common.whole, low=0),
    "max_tokens": partial(common.whole, low=1),
}
READ_HERE = frozenset(
    {
        *("model", "messages", "system", "stream", "tools", "tool_choice", "metadata"),
        *("thinking", "output_config", "output_format", "context_management"),
        *("stop_sequences", *CHECKS),
    }
)
# About Anthropic's own cache of prompts; here the model's server decides.
NO_EFFECT = frozenset({"cache_control", "diagnostics"})
ONLY = {"service_tier": ("auto", "standard_only"), "speed": ("standard",)}
THEIR_NAMES = {
    "stop": "stop_sequences",
    "reasoning_effort": "output_config.effort",
    "response_format": "output_config.format",
}
