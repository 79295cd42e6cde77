"""The body of AG-UI clients (``RunAgentInput``), as messages of OpenAI's form.

Of the history, messages that the gateway made for the page only are left out: reasoning,
activities, and calls of the gateway's own tools. The client's own tools become calls and results.
"""

from dataclasses import dataclass, field
from typing import Any

import orjson
from django.conf import settings

from channels_app.asgi import chat_messages, chat_tools, fields
from channels_app.asgi.chat_messages import Document, Json, data_url, file_name, refused
from channels_app.asgi.fields import MAX_RUN_ID
from channels_app.client_api.ag_ui.adapter import RESULT
from channels_app.client_api.chats import checked_id
from core.conversations.assistants import Wanted
from core.conversations.inbox import body_digest

MAX_CONTEXTS, MAX_STATE = 64, 50_000
MAX_RESUMES = 32
ADDRESS = ("http://", "https://")
KINDS = {"image": "image", "audio": "audio", "video": "video", "document": "file"}
SKIPPED = ("reasoning", "activity")
CONTEXT = "The application that the person uses gives this context:"
STATE = "The state of that application, as JSON:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One entry of ``resume``: an answer to a question of an earlier run."""

    id: str
    is_cancelled: bool
    payload: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The fields of a request. ``history``: the messages are the whole conversation, else only the
    last one. ``said``: the last message is the person's, or the result of a tool of the client.
    ``digest``: of what makes the request another one under the same ``run_id``.
    """

    thread: str
    run_id: str
    messages: list[Json]
    history: bool
    said: bool
    message_id: str
    digest: str
    context: str = ""
    state: Any = None
    tools: list[Json] = field(default_factory=list)
    wanted: Wanted | None = None
    resume: list[Reply] = field(default_factory=list)


def read(body: Json) -> Asked:
    """Parse a ``RunAgentInput``. Raises RefusedError that names the invalid field."""
    given = body.get("messages")
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise refused("must be a list of messages", "messages")
    if len(given) > chat_messages.MAX_MESSAGES:
        text = f"holds more than {chat_messages.MAX_MESSAGES} messages"
        raise refused(text, "messages", status=413)
    run_id = checked_run_id(body)
    thread = checked_id(body.get("threadId"), field="threadId")
    visible = [each for each in given if each.get("role") not in SKIPPED]
    last = visible[-1] if visible else {}
    resume = replies(body.get("resume"))
    said = last.get("role") in ("user", "tool") and not is_ours(last)
    if not said and not resume:
        raise refused("must end with a message of the user or a result of a tool", "messages")
    props = body.get("forwardedProps")
    return Asked(
        thread=thread,
        run_id=run_id,
        messages=chat_messages.checked(converted(given), keeps_system=True) if said else [],
        history=len(visible) > 1,
        said=said,
        message_id=str(last.get("id") or "")[:MAX_RUN_ID],
        digest=body_digest(thread, last if said else {}),
        context=ambient(body),
        state=state_of(body.get("state")),
        tools=chat_tools.checked(tools(body.get("tools"))),
        wanted=fields.wanted(props) if isinstance(props, dict) else None,
        resume=resume,
    )


def checked_run_id(body: Json) -> str:
    """Check ``runId``, the client's id of a run. Raises RefusedError 400 or 413."""
    run_id = fields.text(body, "runId", MAX_RUN_ID, required=True)
    if not run_id or not run_id.isascii() or not run_id.isprintable():
        raise refused("must be printable ASCII", "runId")
    return run_id


def is_ours(message: Json) -> bool:
    """Return whether a message is the result of a tool that the gateway ran."""
    return message.get("role") == "tool" and str(message.get("id") or "").startswith(RESULT)


def replies(value: Any) -> list[Reply]:
    """Parse ``resume``. Raises RefusedError."""
    if value is None:
        return []
    if not isinstance(value, list) or len(value) > MAX_RESUMES:
        raise refused(f"must be a list of at most {MAX_RESUMES} entries", "resume")
    return [reply(each, f"resume[{number}]") for number, each in enumerate(value)]


def reply(value: Any, name: str) -> Reply:
    """Parse one entry."""
    given = value if isinstance(value, dict) else {}
    if not isinstance(given.get("interruptId"), str):
        raise refused("must be a string", f"{name}.interruptId")
    if given.get("status") not in ("resolved", "cancelled"):
        raise refused("must be resolved or cancelled", f"{name}.status")
    is_cancelled = given["status"] == "cancelled"
    return Reply(id=given["interruptId"], is_cancelled=is_cancelled, payload=given.get("payload"))


def tools(value: Any) -> list[Json] | None:
    """Return the client's tools in OpenAI's form."""
    if value is None:
        return None
    if not isinstance(value, list):
        raise refused("must be a list", "tools")
    found: list[Json] = []
    for number, each in enumerate(value):
        if not isinstance(each, dict):
            raise refused("must be an object", f"tools[{number}]")
        function = {name: each.get(name) for name in ("name", "description", "parameters")}
        found.append({"type": "function", "function": function})
    return found


def ambient(body: Json) -> str:
    """Return ``context`` and ``state`` as a text for the model. Raises RefusedError."""
    value = body.get("context") or []
    if not isinstance(value, list) or len(value) > MAX_CONTEXTS:
        raise refused(f"must be a list of at most {MAX_CONTEXTS} entries", "context")
    lines: list[str] = []
    for number, each in enumerate(value):
        name = f"context[{number}]"
        given = each if isinstance(each, dict) else {}
        words = [
            chat_messages.text(given.get(key), f"{name}.{key}") for key in ("description", "value")
        ]
        lines.append(": ".join(word for word in words if word))
    found = [f"{CONTEXT}\n" + "\n".join(lines)] if lines else []
    if state := state_of(body.get("state")):
        found.append(f"{STATE}\n{orjson.dumps(state).decode()}")
    text = "\n\n".join(found)
    if len(text) > settings.MAX_TEXT_CHARACTERS:
        raise refused("is too large", "context", status=413)
    return text


def state_of(value: Any) -> Any:
    """Return the client's state; None for an empty one. Raises RefusedError."""
    if value in (None, {}, [], ""):
        return None
    try:
        size = len(orjson.dumps(value))
    except (TypeError, orjson.JSONEncodeError) as error:
        raise refused("must be JSON", "state") from error
    if size > MAX_STATE:
        raise refused(f"is larger than {MAX_STATE} bytes", "state", status=413)
    return value


def converted(given: list[Json]) -> list[Json]:
    """Convert messages; those of the assistant in a row become one, as models expect them."""
    answered = {
        word(each.get("toolCallId"), f"messages[{number}].toolCallId")
        for number, each in enumerate(given)
        if is_result(each)
    }
    found: list[Json] = []
    row: list[Json] = []
    for number, each in enumerate(given):
        name, role = f"messages[{number}]", each.get("role")
        if role in SKIPPED or is_ours(each):
            continue
        if role == "assistant":
            said = assistant(each, answered, name)
            row += [said] if said["content"] or "tool_calls" in said else []
            continue
        found += joined(row)
        row = []
        content = content_of(each.get("content"), f"{name}.content")
        if role == "tool":
            failed = each.get("error")
            text = content or (failed if isinstance(failed, str) else "")
            found.append({"role": "tool", "tool_call_id": each["toolCallId"], "content": text})
        else:
            found.append({"role": role, "content": content})
    return [*found, *joined(row)]


def word(value: Any, name: str) -> str:
    """Check a field that must be a string."""
    if not isinstance(value, str):
        raise refused("must be a string", name)
    return value


def is_result(message: Json) -> bool:
    """Return whether a message is the result of a tool of the client."""
    return message.get("role") == "tool" and not is_ours(message)


def assistant(message: Json, answered: set[str], name: str) -> Json:
    """Convert a message of the assistant: its text, and its calls that have a result."""
    calls = message.get("toolCalls") or []
    if not isinstance(calls, list) or not all(isinstance(each, dict) for each in calls):
        raise refused("must be a list of calls", f"{name}.toolCalls")
    kept = [
        {"id": each.get("id"), "type": "function", "function": each.get("function")}
        for number, each in enumerate(calls)
        if word(each.get("id"), f"{name}.toolCalls[{number}].id") in answered
    ]
    said: Json = {"role": "assistant", "content": message.get("content") or ""}
    return {**said, "tool_calls": kept} if kept else said


def joined(row: list[Json]) -> list[Json]:
    """Join messages of the assistant that follow each other: their texts, and their calls."""
    if len(row) < 2:
        return row
    texts = [each["content"] for each in row if each["content"]]
    said: Json = {
        "role": "assistant",
        "content": "\n\n".join(each for each in texts if isinstance(each, str)),
    }
    calls = [call for each in row for call in each.get("tool_calls", ())]
    return [{**said, "tool_calls": calls} if calls else said]


def content_of(value: Any, name: str) -> Any:
    """Convert the content of a message: text, or parts."""
    if not isinstance(value, list):
        return value
    return [part(each, f"{name}[{number}]") for number, each in enumerate(value)]


def part(value: Any, name: str) -> Json | Document:
    """Convert one part: text, or a medium with a ``source``; ``binary`` of older clients, too."""
    given = value if isinstance(value, dict) else {}
    kind = word(given.get("type"), f"{name}.type")
    if kind == "text":
        return {"type": "text", "text": given.get("text")}
    if kind == "binary":
        return binary(given, name)
    source = given.get("source")
    if kind not in KINDS or not isinstance(source, dict):
        raise refused("must be text, image, audio, video or document", f"{name}.type")
    label = given.get("metadata")
    title = label.get("filename") if isinstance(label, dict) else ""
    return medium(kind, source, title, f"{name}.source")


def binary(given: Json, name: str) -> Json | Document:
    """Convert a part of clients before 1.0: ``mimeType`` and ``data``, ``url`` or ``id``."""
    mime = str(given.get("mimeType") or "")
    kind = mime.partition("/")[0]
    names = (("data", "data"), ("url", "url"), ("id", "file"))
    for key, of_type in names:
        if given.get(key):
            source = {"type": of_type, "value": given[key], "mimeType": mime}
            return medium(
                kind if kind in KINDS else "document", source, given.get("filename"), name
            )
    raise refused("must have data, url or id", name)


def medium(kind: str, source: Json, title: Any, name: str) -> Json | Document:
    """Convert a medium: data, the address of a picture, or an upload (``/files/<id>``)."""
    value, mime = source.get("value"), source.get("mimeType") or "application/octet-stream"
    if not isinstance(value, str) or not isinstance(mime, str):
        raise refused("must have a value", name)
    if source.get("type") == "data":
        value = value if value.startswith("data:") else f"data:{mime};base64,{value}"
    if upload := fields.uploaded(value):
        held = {"kind": KINDS[kind], "upload": upload}
    elif kind == "image":
        return {"type": "image_url", "image_url": {"url": value}}
    elif value.startswith(ADDRESS):
        raise refused("must be data or an uploaded file: addresses are not fetched", name)
    else:
        held = {"kind": KINDS[kind], "url": data_url(value, f"{name}.value")}
    label = title if isinstance(title, str) else f"{kind}"
    return Document({**held, "name": file_name(label, f"{name}.metadata.filename")})
