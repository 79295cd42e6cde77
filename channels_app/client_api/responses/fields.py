"""The body of ``POST /v1/responses``, checked field by field.

``null`` counts as absent. Every field is read here, has no effect on purpose (``HINTS``), or is
refused by its name; docs/http.md has a table of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.conf import settings

from channels_app.asgi import chat_messages
from channels_app.asgi.chat_messages import Json, refused
from channels_app.client_api.acceptance import Ask
from channels_app.client_api.openai.fields import (
    ANY_FIELD,
    CHECKS,
    MAX_WORD,
    flag,
    json_schema,
    model_name,
    number,
    sender,
    small,
    whole,
    word,
)
from channels_app.client_api.responses import reasoning, tools
from channels_app.client_api.responses.tools import Offered
from core.lib.text import in_ascii, is_clean

MOST_METADATA, METADATA_NAME, METADATA_VALUE = 16, 64, 512
TRUNCATIONS = ("auto", "disabled")
# Additions to items; but for reasoning, none of these items has any here. Log probabilities are
# refused.
INCLUDED = frozenset(
    {
        reasoning.INCLUDE,
        "file_search_call.results",
        "web_search_call.results",
        "web_search_call.action.sources",
        "message.input_image.image_url",
        "computer_call_output.output.image_url",
        "code_interpreter_call.outputs",
    }
)
# They make OpenAI's own servers faster, or tell them who asks: without effect here.
HINTS = frozenset(
    {
        *("client_metadata", "prompt_cache_key", "prompt_cache_options"),
        *("prompt_cache_retention", "safety_identifier"),
    }
)
READ_HERE = frozenset(
    {
        *("background", "include", "input", "instructions", "max_output_tokens", "metadata"),
        *("model", "parallel_tool_calls", "previous_response_id", "reasoning", "service_tier"),
        *("store", "stream", "stream_options", "temperature", "text", "tool_choice", "tools"),
        *("top_logprobs", "top_p", "truncation", "user"),
    }
)
INSTEAD = {
    "conversation": "previous_response_id",
    "messages": "input",
    "prompt": "instructions",
    "max_tokens": "max_output_tokens",
    "response_format": "text.format",
}
# Of the request, as the response repeats them: name -> the value of an absent one.
REPEATED: dict[str, Any] = {
    "metadata": {},
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "temperature": None,
    "top_p": None,
    "max_output_tokens": None,
    "reasoning": {"effort": None, "summary": None},
    "text": {"format": {"type": "text"}},
    "truncation": "disabled",
    "service_tier": None,
    "user": None,
    "safety_identifier": None,
    "prompt_cache_key": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Ask):
    """The fields of a request. ``given``: its ``input``; ``messages`` follow from it and from the
    response ``previous``. ``encrypts``: reasoning has its encrypted content.
    """

    given: Any = None
    instructions: str = ""
    previous: str = ""
    background: bool = False
    store: bool = True
    encrypts: bool = False
    offered: Offered = field(default_factory=Offered)
    repeated: Json = field(default_factory=dict)


def read(body: Json) -> Asked:
    """Parse ``body``, all but the items of its input. Raises RefusedError 400 or 413."""
    model = model_name(body.get("model"))
    refuse_unsupported(body)
    offered = tools.read(body.get("tools"))
    wanted = tools.choice(body.get("tool_choice"), offered)
    found = options(body, has_tools=bool(offered.functions))
    if wanted is not None:
        found["tool_choice"] = wanted
    background = flag(body.get("background"), "background") or False
    store = flag(body.get("store"), "store") is not False
    if background and not store:
        raise refused("needs store", "background")
    return Asked(
        model=model,
        messages=[],
        stream=flag(body.get("stream"), "stream") or False,
        tools=offered.functions,
        options=found,
        user=sender(body.get("user")),
        given=body.get("input"),
        instructions=chat_messages.text(body.get("instructions") or "", "instructions"),
        previous=previous(body.get("previous_response_id")),
        background=background,
        store=store,
        encrypts=include(body.get("include")),
        offered=offered,
        repeated=repeated(body, tools.shown_choice(body.get("tool_choice"), wanted, offered)),
    )


def refuse_unsupported(body: Json) -> None:
    """Raise RefusedError 400 for fields whose effect would silently be missing."""
    for name, value in body.items():
        if value is None or name in READ_HERE or name in HINTS:
            continue
        if name in INSTEAD:
            raise refused(f"is not supported: use {INSTEAD[name]}", name)
        raise refused("is not supported", in_ascii(name[:MAX_WORD]))
    for name in HINTS & body.keys():
        small(body[name], name)
    if body.get("top_logprobs") not in (None, 0):
        raise refused("is not supported", "top_logprobs")
    if not isinstance(body.get("stream_options") or {}, dict):
        raise refused("must be an object", "stream_options")
    if body.get("truncation") not in (None, *TRUNCATIONS):
        raise refused("must be auto or disabled", "truncation")


def include(value: Any) -> bool:
    """Check what else a response shall hold; return whether encrypted reasoning is asked for."""
    if value is not None and not isinstance(value, list):
        raise refused("must be a list", "include")
    for each in value or ():
        if not isinstance(each, str) or each not in INCLUDED:
            raise refused("holds a value that is not supported", "include")
    return reasoning.INCLUDE in (value or ())


def previous(value: Any) -> str:
    """Check the id of the response that this one follows."""
    if value is None:
        return ""
    if not isinstance(value, str) or not value or len(value) > MAX_WORD:
        raise refused("must be the id of a response", "previous_response_id")
    return value


def options(body: Json, *, has_tools: bool) -> Json:
    """Return the options for the model's server, as chat completions have them.

    Hints (effort, verbosity, tier) are left out for a provider that does not know them.
    """
    passes = settings.LLM_PROVIDER in ANY_FIELD
    found: Json = {}
    for name, (own, check) in PASSED.items():
        if body.get(name) is not None:
            found[own] = check(body[name], name)
    if flag(body.get("parallel_tool_calls"), "parallel_tool_calls") is False and has_tools:
        found["parallel_tool_calls"] = False
    tier = body.get("service_tier")
    hints: Json = {} if tier in (None, "auto", "default") else {"service_tier": tier}
    hints |= of_reasoning(body.get("reasoning"))
    form, verbosity = of_text(body.get("text"))
    if verbosity is not None:
        hints["verbosity"] = verbosity
    for name, value in hints.items():
        checked = CHECKS[name](value, name)
        if passes:
            found[name] = checked
    if form is not None:
        found["response_format"] = form
    return found


def of_reasoning(value: Any) -> Json:
    """Return the effort. The other fields have no effect: a summary is always shown."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise refused("must be an object", "reasoning")
    small(value, "reasoning")
    effort = value.get("effort")
    return {} if effort is None else {"reasoning_effort": word(effort, "reasoning.effort")}


def of_text(value: Any) -> tuple[Json | None, Any]:
    """Return the response format in the form of chat completions, and the verbosity."""
    if value is None:
        return None, None
    if not isinstance(value, dict):
        raise refused("must be an object", "text")
    form = value.get("format")
    if form is None or (isinstance(form, dict) and form.get("type") == "text"):
        return None, value.get("verbosity")
    kind = form.get("type") if isinstance(form, dict) else None
    if kind == "json_object":
        return {"type": kind}, value.get("verbosity")
    if kind != "json_schema":
        raise refused("must be text, json_object or json_schema", "text.format.type")
    shape = json_schema(form, "text.format")
    if "schema" not in shape:
        raise refused("must be a JSON schema", "text.format.schema")
    return {"type": kind, "json_schema": shape}, value.get("verbosity")


def metadata(value: Any) -> dict[str, str]:
    """Check the notes that a client keeps with its response."""
    if not isinstance(value, dict) or len(value) > MOST_METADATA:
        raise refused(f"must be an object of at most {MOST_METADATA} texts", "metadata")
    for name, note in value.items():
        fits = isinstance(note, str) and len(note) <= METADATA_VALUE and is_clean(note)
        if not fits or len(name) > METADATA_NAME or not is_clean(name):
            raise refused("must hold short texts", "metadata")
    return value


def repeated(body: Json, choice: str | Json) -> Json:
    """Return the fields that the response repeats, without the absent ones: the checked form, and
    nothing else. ``choice``: of the tools, checked.
    """
    found = {name: body[name] for name in REPEATED if body.get(name) is not None}
    if "metadata" in found:
        metadata(found["metadata"])
    if "tool_choice" in found:
        found["tool_choice"] = choice
    if "text" in found:
        found["text"] = shown_text(*of_text(found["text"]))
    return found


def shown_text(form: Json | None, verbosity: Any) -> Json:
    """Return ``text`` as the response repeats it, from the result of :func:`of_text`."""
    shown: Json = {"type": "text"} if form is None else {"type": form["type"]}
    if form is not None:
        shown |= form.get("json_schema", {})
    return {"format": shown} if verbosity is None else {"format": shown, "verbosity": verbosity}


Check = Callable[[Any, str], Any]
# Field -> its name in chat completions, and its check.
PASSED: dict[str, tuple[str, Check]] = {
    "temperature": ("temperature", partial(number, low=0, high=2)),
    "top_p": ("top_p", partial(number, low=0, high=1)),
    "max_output_tokens": ("max_tokens", partial(whole, low=1)),
}
