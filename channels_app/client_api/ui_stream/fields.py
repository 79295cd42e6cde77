"""The body that the AI SDK's ``useChat`` sends, as messages of OpenAI's form.

Its messages are lists of parts. Parts that came from the gateway (sources, data, reasoning, tools
that it ran itself) are left out; the client's own tools become calls and results.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from channels_app.asgi import chat_messages, chat_tools, fields
from channels_app.asgi.chat_messages import Document, Json, data_url, file_name, refused
from channels_app.client_api.chats import checked_id
from channels_app.client_api.tool_questions import Answer, known_id
from channels_app.tool_requests.deciding import Choice
from core.conversations.assistants import Wanted

# States of a tool part with a result for the model; the others are still in progress.
TOOL_STATES = ("output-available", "output-error", "output-denied", "approval-responded")
DENIED = "The user did not allow this call."
APPROVED = "The user allowed this call; it has not been made yet."
RESULT = "The result of the tool {}: {}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The fields of a request. ``history``: the messages are the whole conversation, not only the
    last.

    ``message_id``: of the assistant's message that the answer continues, if any. ``answers``:
    those to the gateway's questions in that message; ``messages`` may be empty then. ``system``:
    the page's instructions, which follow the gateway's.
    """

    chat: str
    messages: list[Json]
    history: bool
    message_id: str = ""
    tools: list[Json] = field(default_factory=list)
    wanted: Wanted | None = None
    system: str = ""
    answers: list[Answer] = field(default_factory=list)


def read(body: Json) -> Asked:
    """Parse ``body``: ``id`` and ``messages``, or ``message``. Raises RefusedError."""
    chat = checked_id(body.get("id"))
    only_last = body.get("messages") is None and body.get("message") is not None
    given = [body["message"]] if only_last else body.get("messages")
    if not isinstance(given, list) or not given:
        raise refused("must be a list with at least one message", "messages")
    converted: list[Json] = []
    for number, item in enumerate(given):
        converted += converted_message(item, f"messages[{number}]")
    answers = answers_in(given[-1])
    messages = [] if answers and not converted else checked(converted)
    return Asked(
        chat=chat,
        messages=results_alone(messages) if only_last else messages,
        answers=answers,
        history=not only_last,
        message_id=continued(given[-1]),
        tools=chat_tools.checked(tools(body.get("tools"))),
        system=fields.text(body, "system", settings.MAX_TEXT_CHARACTERS),
        wanted=fields.wanted(body),
    )


def continued(last: Json) -> str:
    """Return the id of the last message if it is the assistant's, as after a tool of the client."""
    name = last.get("id") if last.get("role") == "assistant" else ""
    return (
        name if isinstance(name, str) and len(name) <= fields.MAX_CHAT_ID and name.isascii() else ""
    )


def tools(value: Any) -> Any:
    """Return tools in OpenAI's form; assistant-ui sends an object of them by name."""
    if not isinstance(value, dict):
        return value
    found: list[Json] = []
    for name, given in value.items():
        if not isinstance(given, dict):
            raise refused("must be an object", f"tools.{name}")
        function = {key: given.get(key) for key in ("description", "parameters")}
        found.append({"type": "function", "function": {"name": name, **function}})
    return found


def checked(converted: list[Json]) -> list[Json]:
    """Check messages in OpenAI's form. Raises RefusedError."""
    return chat_messages.checked(converted, keeps_system=True)


def results_alone(messages: list[Json]) -> list[Json]:
    """Return the results of the page's last step, where the last message is all that came, as a
    message of its person with the names of the tools: the gateway's history has not the calls.
    """
    names: dict[str, str] = {}
    told: list[str] = []
    for each in messages:
        if each["role"] == "tool":
            told.append(RESULT.format(names[each["tool_call_id"]], each["content"]))
        else:
            told.clear()
        for call in each.get("tool_calls", ()):
            names[call["id"]] = call["function"]["name"]
    return [{"role": "user", "content": "\n\n".join(told)}] if told else messages


def answers_in(last: Json) -> list[Answer]:
    """Return the answers to the gateway's own questions in the last message, the assistant's."""
    found = []
    for part in last["parts"] if last.get("role") == "assistant" else ():
        approval = part.get("approval")
        if part.get("state") != "approval-responded" or not isinstance(approval, dict):
            continue
        if known_id(approval.get("id")):
            choice: Choice = "once" if approval.get("approved") is True else "deny"
            found.append(Answer(id=approval["id"], choice=choice))
    return found


def converted_message(value: Any, field_name: str) -> list[Json]:
    """Convert one message of the client to messages in OpenAI's form."""
    if not isinstance(value, dict):
        raise refused("must be an object", field_name)
    parts = value.get("parts")
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise refused("must be a list of parts", f"{field_name}.parts")
    if value.get("role") == "assistant":
        return [said for step in steps(parts) for said in assistant(step)]
    content = [
        found
        for number, part in enumerate(parts)
        if (found := user_part(part, f"{field_name}.parts[{number}]")) is not None
    ]
    return [{"role": value.get("role"), "content": content}]


def user_part(part: Json, field_name: str) -> Json | Document | None:
    """Convert a part of the user's message; None for one that is only for the page."""
    if part.get("type") == "text":
        return {"type": "text", "text": part.get("text")}
    if part.get("type") != "file":
        return None
    is_uploaded = bool(fields.uploaded(str(part.get("url"))))
    if str(part.get("mediaType")).startswith("image/") and not is_uploaded:
        return {"type": "image_url", "image_url": {"url": part.get("url")}}
    return document(part, field_name)


def document(part: Json, field_name: str) -> Document:
    """Convert a document: a data URL, or ``/files/<id>``. Raises RefusedError 400."""
    url = part.get("url")
    if not isinstance(url, str):
        raise refused("must have a url", field_name)
    public = fields.uploaded(url)
    found = {"upload": public} if public else {"url": data_url(url, f"{field_name}.url")}
    name = file_name(part.get("filename"), f"{field_name}.filename")
    return Document({"kind": "file", **found, "name": name})


def steps(parts: list[Json]) -> list[list[Json]]:
    """Return the parts of a message in the order in which the model said them: a step that follows
    results of the client's tools stands after them; others are one.
    """
    found: list[list[Json]] = [[]]
    for part in parts:
        if part.get("type") == "step-start" and any(is_own_tool(each) for each in found[-1]):
            found.append([])
        found[-1].append(part)
    return found


def assistant(parts: list[Json]) -> list[Json]:
    """Convert a step of the assistant: its texts, and the client's tools with their results."""
    texts = [part.get("text") for part in parts if part.get("type") == "text"]
    tools = [part for part in parts if is_own_tool(part)]
    said: Json = {"role": "assistant", "content": [{"type": "text", "text": t} for t in texts]}
    if not tools:
        return [said] if texts else []
    said["tool_calls"] = [
        {
            "id": part.get("toolCallId"),
            "type": "function",
            "function": {"name": name_of(part), "arguments": arguments_of(part)},
        }
        for part in tools
    ]
    results = [
        {
            "role": "tool",
            "tool_call_id": part.get("toolCallId"),
            "content": outcome(part),
        }
        for part in tools
    ]
    return [said, *results]


def outcome(part: Json) -> str:
    """Return the text for the model of a finished, a refused or an allowed call."""
    approval = part.get("approval")
    given = approval if isinstance(approval, dict) else {}
    is_denied = part["state"] == "output-denied" or given.get("approved") is False
    if part["state"] in ("output-denied", "approval-responded"):
        reason = given.get("reason")
        words = DENIED if is_denied else APPROVED
        return f"{words} Reason: {reason}" if isinstance(reason, str) and reason else words
    return as_text(part.get("output", part.get("errorText")))


def is_own_tool(part: Json) -> bool:
    """Return whether this is a finished call of a tool that the client ran."""
    kind = part.get("type")
    return (
        isinstance(kind, str)
        and (kind.startswith("tool-") or kind == "dynamic-tool")
        and part.get("state") in TOOL_STATES
        and part.get("providerExecuted") is not True
    )


def arguments_of(part: Json) -> str:
    """Return the arguments of a call; those that the page's check refused are in ``rawInput``."""
    given = part.get("input")
    if given is None:
        given = part.get("rawInput")
    return as_text({} if given is None else given)


def name_of(part: Json) -> Any:
    """Return the name of the tool of a part."""
    kind: str = part["type"]
    return part.get("toolName") if kind == "dynamic-tool" else kind.removeprefix("tool-")


def as_text(value: Any) -> str:
    """Return a value as text for the model: text unchanged, else JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
